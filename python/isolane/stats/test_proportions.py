"""Intervals of shares: against published figures, and how often they hold the truth."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from isolane.stats.counted import Counted, scaled
from isolane.stats.proportions import difference, wilson


def test_published_examples() -> None:
    # Newcombe (1998), Statistics in Medicine 17, 857-872, table I: 81/263, 15/148, 0/20, 1/29.
    for count, total, low, high in (
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ):
        found = wilson(count, total)
        assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)


def test_a_published_difference() -> None:
    # Newcombe (1998), Statistics in Medicine 17, 873-890, table II: 56/70 - 48/80, method 10.
    found = difference(wilson(48, 80), wilson(56, 70))
    assert found == pytest.approx((0.2, 0.0524, 0.3339), abs=5e-5)


@pytest.mark.parametrize(("share", "total"), [(0.001, 2_000), (0.02, 500), (0.3, 200), (0.5, 40)])
def test_intervals_hold_the_share(share: float, total: int) -> None:
    # Exactly, over all counts: on average 95 %, for a single share a little more or less.
    held = sum(
        float(stats.binom.pmf(count, total, share))
        for count in range(total + 1)
        if (found := wilson(count, total)).low <= share <= found.high
    )
    assert 0.92 <= held <= 0.99


@given(st.integers(1, 10**9), st.floats(0, 1), st.floats(0, 1e9))
def test_the_share_is_in_its_interval(total: int, part: float, factor: float) -> None:
    found = scaled(wilson(math.floor(part * total), total), factor)
    assert 0 <= found.low <= found.value <= found.high <= factor


@given(st.integers(1, 1000), st.integers(0, 1000))
def test_nothing_differs_from_itself(total: int, count: int) -> None:
    one = wilson(min(count, total), total)
    found = difference(one, one)
    assert found.value == 0
    assert found.low <= 0 <= found.high


def test_a_difference_turns_with_its_order() -> None:
    first, second = Counted(1, 0.5, 2), Counted(4, 3, 4.5)
    there, back = difference(first, second), difference(second, first)
    assert (there.value, there.low, there.high) == pytest.approx((-back[0], -back[2], -back[1]))


@pytest.mark.parametrize(("count", "total"), [(0, 0), (-1, 5), (6, 5)])
def test_what_is_no_share_is_refused(count: int, total: int) -> None:
    with pytest.raises(ValueError, match="is no share"):
        wilson(count, total)

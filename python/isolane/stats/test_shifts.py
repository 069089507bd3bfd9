from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from isolane.stats.shifts import adjusted, order_counts, rank_biserial, shift, smallest_p

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12)


def test_a_published_example() -> None:
    """Hollander and Wolfe, example 4.1: permeability of the human chorioamnion."""
    at_term = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46]
    early = [1.15, 0.88, 0.90, 0.74, 1.21]
    found = shift(early, at_term)
    assert found.estimate == pytest.approx(0.305)
    assert found.p == pytest.approx(0.2544, abs=1e-4)
    assert (found.low, found.high) == pytest.approx((-0.15, 0.76))


def test_the_ranks_are_counted_out() -> None:
    assert order_counts(2, 3).tolist() == [1, 1, 2, 2, 2, 1, 1]
    for first, second in ((1, 1), (4, 4), (7, 3), (12, 9)):
        assert order_counts(first, second).sum() == math.comb(first + second, first)


@given(VALUES, VALUES)
def test_it_turns_with_the_samples(first: list[float], second: list[float]) -> None:
    one, other = shift(first, second), shift(second, first)
    assert one.estimate == pytest.approx(-other.estimate)
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low))
    assert one.p == pytest.approx(other.p)
    assert one.low <= one.estimate <= one.high
    assert 0 <= one.p <= 1


@given(VALUES, VALUES, st.floats(-100, 100))
def test_it_moves_with_a_sample(first: list[float], second: list[float], by: float) -> None:
    before, after = shift(first, second), shift(first, [value + by for value in second])
    assert after.estimate == pytest.approx(before.estimate + by, abs=1e-6)


def test_intervals_hold_the_shift_as_often_as_they_say() -> None:
    draw = np.random.default_rng(1)
    held, rejected, rounds = 0, 0, 1500
    for _ in range(rounds):
        first, second = draw.exponential(size=6), 3 + draw.exponential(size=7)
        found = shift(first.tolist(), second.tolist())
        held += found.low <= 3 <= found.high
        rejected += shift(first.tolist(), (second - 3).tolist()).p <= 0.05
    assert 0.945 <= held / rounds <= 0.975
    assert rejected / rounds <= 0.055


def test_few_values_bound_nothing() -> None:
    found = shift([1.0, 2.0, 3.0], [11.0, 12.0, 13.0])
    assert found.estimate == 10
    assert (found.low, found.high) == (-math.inf, math.inf)
    assert found.p == pytest.approx(smallest_p(3, 3)) == pytest.approx(0.1)
    assert shift([1.0] * 3, [2.0] * 3).p == pytest.approx(0.1), "so do equal ones"
    assert smallest_p(4, 4) < 0.05
    assert shift([1.0] * 4, [2.0] * 4).low == 1


@pytest.mark.parametrize("count", [4, 30])
def test_what_is_infinite_is_equal_to_each_other_and_above_the_rest(count: int) -> None:
    times = [float(n) for n in range(count)]
    lost = [math.inf] * count
    assert shift(lost, lost) == (0, 0, 0, 1)
    found = shift(times, lost)
    assert found.estimate == found.low == found.high == math.inf
    assert found.p < 0.05


def test_many_values_are_compared_by_the_normal_distribution() -> None:
    draw = np.random.default_rng(2)
    first, second = draw.normal(size=60), draw.normal(0.5, size=60)
    found = shift(first.tolist(), second.tolist())
    assert found.p == pytest.approx(stats.mannwhitneyu(first, second).pvalue)
    assert found.low < 0.5 < found.high
    assert 0.4 < found.high - found.low < 1.2


def test_an_effect_by_hand() -> None:
    assert rank_biserial([1.0, 4.0], [2.0, 3.0, 5.0]) == pytest.approx((4 - 2) / 6)
    assert rank_biserial([1.0, math.inf], [1.0, math.inf]) == 0
    draw = np.random.default_rng(3)
    first, second = draw.normal(size=9), draw.normal(0.4, size=11)
    u = stats.mannwhitneyu(second, first).statistic
    assert rank_biserial(first.tolist(), second.tolist()) == pytest.approx(2 * u / 99 - 1)


def test_an_empty_sample_is_refused() -> None:
    with pytest.raises(ValueError, match="in each sample"):
        shift([], [1.0])
    with pytest.raises(ValueError, match="in each sample"):
        rank_biserial([1.0], [])


def test_of_many_p_values_a_small_one_is_kept() -> None:
    assert adjusted([]) == []
    assert adjusted([0.001, 0.5, 0.6, 0.9]) == pytest.approx([0.004, 0.8, 0.8, 0.9])

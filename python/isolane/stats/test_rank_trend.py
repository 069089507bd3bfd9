from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from isolane.stats.rank_trend import rank_trend, smallest_trend_p
from isolane.stats.shifts import shift

SETTINGS = [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]


def test_a_published_example() -> None:
    """Hollander and Wolfe, example 6.2 (Jonckheere's J is 79 of 108)."""
    nothing, rough = [40, 35, 38, 43, 44, 41], [38, 40, 47, 44, 40, 42]
    accurate = [48, 40, 45, 43, 46, 44]
    values = [float(value) for value in (*nothing, *rough, *accurate)]
    found = rank_trend([0.0] * 6 + [1.0] * 6 + [2.0] * 6, values)
    tied = sum(math.comb(values.count(value), 2) for value in set(values))
    unlike = math.sqrt(108 * (math.comb(18, 2) - tied))
    assert found.tau * unlike == pytest.approx(2 * 79 - 108)
    assert 0.03 < found.p < 0.05, "they have 0.0207 for one side"


def test_it_is_the_correlation_of_scipy() -> None:
    values = np.random.default_rng(1).normal(size=30).round(1)
    settings = np.repeat(np.arange(6.0), 5)
    found, theirs = (
        rank_trend(settings.tolist(), values.tolist()),
        stats.kendalltau(settings, values),
    )
    assert (found.tau, found.p) == pytest.approx((theirs.statistic, theirs.pvalue))
    few = values[:8] + np.arange(8) / 1000
    theirs = stats.kendalltau(range(8), few, method="exact")
    found = rank_trend([float(n) for n in range(8)], few.tolist())
    assert (found.tau, found.p) == pytest.approx((theirs.statistic, theirs.pvalue))


def test_two_settings_are_two_samples() -> None:
    values = np.random.default_rng(2).normal(size=9).tolist()
    found = rank_trend([1.0] * 4 + [7.0] * 5, values)
    assert found.p == pytest.approx(shift(values[:4], values[4:]).p)


def test_orders_are_counted_out() -> None:
    """Against all orders that six values can have at three settings, one by one."""
    taus = np.array([rank_trend(SETTINGS, p).tau for p in itertools.permutations(range(6))])
    for values in ([0, 1, 2, 3, 4, 5], [1, 0, 5, 2, 3, 4], [3, 5, 4, 0, 2, 1]):
        found = rank_trend(SETTINGS, values)
        tail = min((taus >= found.tau - 1e-9).mean(), (taus <= found.tau + 1e-9).mean())
        assert found.p == pytest.approx(min(1.0, 2 * tail))


def test_what_follows_in_full_has_the_highest_tau() -> None:
    found = rank_trend(SETTINGS, [1.0, 2.0, 3.0, 4.0, 5.0, math.inf])
    assert found.tau == pytest.approx(math.sqrt(12 / 15))
    assert found.p == pytest.approx(smallest_trend_p(SETTINGS)) == pytest.approx(2 / 90)
    assert rank_trend(SETTINGS, [6.0, 5.0, 4.0, 3.0, 2.0, 1.0]).tau == pytest.approx(-found.tau)
    assert rank_trend(SETTINGS, [math.inf] * 6) == (0, 1)


@pytest.mark.parametrize(("settings", "rounds"), [(2, 4), (5, 2), (4, 6)])
@pytest.mark.parametrize("shared", [0.0, 1.0])
def test_a_load_that_does_not_matter_is_seldom_called_a_trend(
    settings: int, rounds: int, shared: float
) -> None:
    """Also where the trials of a round have something in common, as those on one test bed."""
    draw = np.random.default_rng(5)
    at = np.tile(np.arange(float(settings)), rounds).tolist()
    noise = draw.normal(size=(400, rounds, settings))
    noise += shared * draw.normal(size=(400, rounds, 1))
    wrong = sum(rank_trend(at, values.ravel().tolist()).p <= 0.05 for values in noise)
    assert wrong / 400 <= 0.075


@given(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0.0, 1.0, 2.0, math.inf])), max_size=7)
)
def test_few_values_have_a_p_and_turn_with_their_sign(pairs: list[tuple[int, float]]) -> None:
    settings = [0.0, 1.0, *(float(at) for at, _ in pairs)]
    values = [0.0, 1.0, *(value for _, value in pairs)]
    one, other = rank_trend(settings, values), rank_trend(settings, [-value for value in values])
    assert smallest_trend_p(settings) - 1e-12 <= one.p <= 1
    assert -1 <= one.tau <= 1
    assert (one.tau, one.p) == pytest.approx((-other.tau, other.p))


def test_one_setting_has_no_trend() -> None:
    with pytest.raises(ValueError, match="two settings"):
        rank_trend([1.0, 1.0], [1.0, 2.0])

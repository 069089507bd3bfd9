"""Evidence that may be looked at after each value: its errors are what it says."""

import numpy as np
import pytest
from scipy import integrate

from isolane.stats.sequential import (
    chance_of,
    holm,
    log_wealth,
    median_interval,
    pairs_needed,
)


def wealth(kept: int, number: int) -> float:
    return float(np.exp(log_wealth(np.array([float(kept)]), np.array([float(number)])))[0])


@pytest.mark.parametrize(("kept", "number"), [(0, 0), (1, 1), (3, 5), (11, 11), (2, 9)])
def test_wealth_is_the_mixture_of_all_bets(kept: int, number: int) -> None:
    def bet(p: float) -> float:
        return float(2 * (2 * p) ** kept * (2 * (1 - p)) ** (number - kept))

    assert wealth(kept, number) == pytest.approx(integrate.quad(bet, 0.5, 1)[0])


def test_a_fair_coin_gains_nothing() -> None:
    """Against the true claim each bet is fair: the mean of the next wealth is the present one."""
    for number in range(12):
        for kept in range(number + 1):
            following = (wealth(kept + 1, number + 1) + wealth(kept, number + 1)) / 2
            assert following == pytest.approx(wealth(kept, number))


def test_who_looks_after_each_value_errs_no_more_often() -> None:
    """The t-test at 5 %, looked at after each of 200 values, errs in some 40 % of the cases."""
    generator = np.random.default_rng(11)
    wrong = 0
    for _ in range(600):
        # The median is at the bar; outliers are frequent and all on one side.
        values = generator.standard_t(1.5, 200)
        values = np.where(values < 0, 30 * values, values)
        wrong += chance_of([bool(value >= 0) for value in values]) <= 0.05
    assert wrong <= 0.05 * 600


def test_without_values_nothing_is_known() -> None:
    assert chance_of([]) == 1.0
    assert chance_of([False] * 20) == 1.0


def test_evidence_once_found_stays() -> None:
    assert chance_of([True] * 12 + [False] * 12) == chance_of([True] * 12) < 0.01


@pytest.mark.parametrize(("promises", "pairs"), [(1, 7), (4, 9), (12, 11), (64, 14)])
def test_agreement_decides_soon(promises: int, pairs: int) -> None:
    assert pairs_needed(promises) == pairs
    enough, short = chance_of([True] * pairs), chance_of([True] * (pairs - 1))
    assert enough <= 0.05 / promises < short


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.01, 0.04], 4) == pytest.approx([0.04, 0.12])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []
    # What R's manual has: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm").
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_the_interval_covers_the_median_whenever_one_stops() -> None:
    generator = np.random.default_rng(3)
    missed = 0
    for _ in range(100):
        values = [float(value) for value in generator.exponential(1.0, 60)]
        seen = (median_interval(values[:n]) for n in range(8, 60))
        missed += any(i is not None and not i[0] <= np.log(2) <= i[1] for i in seen)
    assert missed <= 0.05 * 100


def test_few_values_bound_nothing() -> None:
    assert median_interval([]) is None
    assert median_interval([1.0] * 7) is None
    assert median_interval([float(v) for v in range(8)]) == (0.0, 7.0)

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from isolane.stats.signed_ranks import signed_ranks, smallest_signed_p

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12)


def test_a_published_example() -> None:
    """Hollander and Wolfe, examples 3.1 to 3.3: depression before and after a tranquilizer."""
    before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30]
    after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29]
    found = signed_ranks([b - a for a, b in zip(before, after, strict=True)], 0.96)
    assert found.p == pytest.approx(2 * 0.0195, abs=1e-4)
    assert found.estimate == pytest.approx(-0.46)
    assert (found.low, found.high) == pytest.approx((-0.786, -0.010))
    assert found.effect == pytest.approx((5 - 40) / 45), "5 of 45 ranks are above zero"


def test_an_effect_by_hand() -> None:
    assert signed_ranks([1.0, 2.0, 3.0, -4.0]).effect == pytest.approx((6 - 4) / 10)
    assert signed_ranks([5.0, 0.0, 7.0]).effect == 1, "a pair that is equal has no rank"
    assert signed_ranks([-1.0, 1.0]).effect == 0


@pytest.mark.parametrize("count", [1, 2, 6, 13, 50])
def test_it_is_the_test_of_scipy(count: int) -> None:
    differences = np.random.default_rng(count).normal(0.3, size=count)
    found = signed_ranks(differences.tolist())
    assert found.p == pytest.approx(stats.wilcoxon(differences, method="exact").pvalue)
    assert found.effect == pytest.approx(
        stats.wilcoxon(differences, alternative="greater").statistic * 4 / (count * (count + 1)) - 1
    )


def test_many_pairs_are_compared_by_the_normal_distribution() -> None:
    differences = np.random.default_rng(4).normal(0.2, size=90)
    found = signed_ranks(differences.tolist())
    assert found.p == pytest.approx(stats.wilcoxon(differences, method="asymptotic").pvalue)
    assert found.low < 0.2 < found.high
    assert signed_ranks([math.inf, *differences.tolist()]).p == pytest.approx(
        signed_ranks([1e9, *differences.tolist()]).p
    )


@pytest.mark.parametrize(
    "differences", [[1.0, 1.0, -1.0, 2.0, 2.0], [1.0] * 6, [3.0, 0.0, 0.0, -3.0, 1.0, 1.0, 1.0]]
)
def test_ties_are_counted_out(differences: list[float]) -> None:
    """Against all signs that the differences can have, one by one."""
    known = [value for value in differences if value]
    ranks = stats.rankdata(np.abs(known))
    sums = np.array([sum(ranks[list(up)]) for up in _subsets(len(known))])
    above = ranks[np.array(known) > 0].sum()
    tail = min((sums >= above - 1e-9).mean(), (sums <= above + 1e-9).mean())
    assert signed_ranks(differences).p == pytest.approx(min(1.0, 2 * tail))


def _subsets(count: int) -> list[tuple[int, ...]]:
    return [up for size in range(count + 1) for up in itertools.combinations(range(count), size)]


@given(VALUES)
def test_it_turns_with_the_pairs(differences: list[float]) -> None:
    one, other = signed_ranks(differences), signed_ranks([-value for value in differences])
    assert one.estimate == pytest.approx(-other.estimate)
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low))
    assert (one.effect, one.p) == pytest.approx((-other.effect, other.p))
    assert one.low <= one.estimate <= one.high
    assert smallest_signed_p(len(differences)) - 1e-12 <= one.p <= 1


def test_intervals_hold_the_shift_as_often_as_they_say() -> None:
    draw = np.random.default_rng(3)
    held, rejected, rounds = 0, 0, 2000
    for _ in range(rounds):
        differences = draw.laplace(size=9)
        found = signed_ranks((differences + 3).tolist())
        held += found.low <= 3 <= found.high
        rejected += signed_ranks(differences.tolist()).p <= 0.05
    assert 0.945 <= held / rounds <= 0.975
    assert rejected / rounds <= 0.055


def test_few_pairs_show_nothing() -> None:
    assert [smallest_signed_p(pairs) for pairs in (1, 5, 6)] == [1, 0.0625, 0.03125]
    found = signed_ranks([1.0, 2.0, 3.0, 4.0, 5.0])
    assert found.p == 0.0625
    assert (found.low, found.high) == (-math.inf, math.inf)
    assert signed_ranks([0.0, 0.0]) == (0, -math.inf, math.inf, 0, 1)


def test_what_is_infinite_ranks_highest() -> None:
    found = signed_ranks([math.inf] * 6)
    assert (found.estimate, found.effect, found.p) == (math.inf, 1, 0.03125)
    assert signed_ranks([math.inf, -math.inf]).estimate == 0
    assert signed_ranks([1.0, 2.0, -math.inf]).effect == pytest.approx(0)


def test_what_is_no_number_is_refused() -> None:
    for wrong in ([], [1.0, math.nan]):
        with pytest.raises(ValueError, match="signed ranks need"):
            signed_ranks(wrong)

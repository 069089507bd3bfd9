import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from isolane.stats.intervals import (
    BOOTSTRAP_FROM,
    CONFIDENCE,
    MIN_UNITS,
    coverage_of_ranks,
    estimate,
    rank_for,
    simultaneous,
)


def test_no_values_give_no_estimate() -> None:
    assert estimate([]) is None


def test_one_repeat_has_no_interval() -> None:
    assert estimate([3.0]) == (3.0, 3.0, 3.0, 1, None, 1)


@pytest.mark.parametrize(
    ("values", "coverage"),
    [([1.0, 2.0], 0.5), ([1.0, 5.0, 2.0], 0.75), ([4.0, 1.0, 2.0, 3.0, 9.0], 0.9375)],
)
def test_few_repeats_give_their_range_and_say_how_often_that_holds(
    values: list[float], coverage: float
) -> None:
    found = estimate(values)
    assert found == (np.median(values), min(values), max(values), len(values), coverage, 1)
    assert len(values) < MIN_UNITS


def test_six_are_the_fewest_for_95_percent() -> None:
    assert coverage_of_ranks(MIN_UNITS - 1, 1) < CONFIDENCE <= coverage_of_ranks(MIN_UNITS, 1)


@pytest.mark.parametrize("n", [6, 9, 10, 17, 30])
def test_order_statistics_are_scipys(n: int) -> None:
    """`scipy.stats.quantile_test` has one side only: ours is both, each with half of the error."""
    values = np.random.default_rng(n).normal(size=n)
    found = estimate(values.tolist())
    assert found is not None
    test = stats.quantile_test(values, p=0.5, alternative="two-sided")
    theirs = test.confidence_interval(confidence_level=CONFIDENCE)
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high))
    assert found.coverage is not None
    assert found.coverage >= CONFIDENCE


def test_invocations_count_once_each_however_many_repeats_they_have() -> None:
    found = estimate([1.0, 1.1, 0.9, 5.0, 5.1, 4.9, 3.0], [0, 0, 0, 1, 1, 1, 2])
    assert found == (3.0, 1.0, 5.0, 7, 0.75, 3)


def test_same_seed_same_interval() -> None:
    noise = np.random.default_rng(7)
    values = [float(v) for v in noise.normal(100, 5, 3 * BOOTSTRAP_FROM)]
    invocations = [i // 3 for i in range(len(values))]
    first = estimate(values, invocations, seed=3)
    assert first == estimate(values, invocations, seed=3)
    assert first is not None
    assert first.coverage == CONFIDENCE
    assert first.invocations == BOOTSTRAP_FROM


def test_an_invocation_that_lost_repeats_is_still_drawn() -> None:
    sizes = [1 + i % 3 for i in range(BOOTSTRAP_FROM)]
    invocations = [i for i, size in enumerate(sizes) for _ in range(size)]
    found = estimate([float(i) for i in invocations], invocations)
    assert found is not None
    assert 0 <= found.low < found.median == 9.5 < found.high <= BOOTSTRAP_FROM - 1


def test_equal_values_give_a_point() -> None:
    found = estimate([2.0] * 9)
    assert found is not None
    assert found[:4] == (2.0, 2.0, 2.0, 9)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_value_that_is_not_finite_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="not all values are finite"):
        estimate([1.0, bad])


@pytest.mark.parametrize("n", [3, 5, 6, 11])
def test_an_interval_holds_the_median_as_often_as_it_says(n: int) -> None:
    """Of a skewed distribution, without any assumption; 3 standard errors of 1,000 are 3 %."""
    generator = np.random.default_rng(5)
    hits, said = 0, 0.0
    for _ in range(1_000):
        found = estimate([float(v) for v in generator.exponential(1.0, n)])
        assert found is not None
        assert found.coverage is not None
        said = found.coverage
        hits += found.low <= math.log(2) <= found.high
    assert hits / 1_000 == pytest.approx(said, abs=0.045)


@pytest.mark.parametrize(("n", "exact"), [(3, False), (5, False), (10, True)])
def test_simultaneous_intervals_all_hold_at_once(n: int, exact: bool) -> None:
    generator = np.random.default_rng(9)
    held = 0
    for _ in range(400):
        samples = [(generator.normal(1, 0.1, n).tolist(), [0] * n) for _ in range(4)]
        found = [bounds for bounds in simultaneous(samples) if bounds is not None]
        assert [bounds.exact for bounds in found] == [exact] * 4
        held += all(bounds.low <= 1 <= bounds.high for bounds in found)
    assert held / 400 >= CONFIDENCE - 0.033


def test_one_value_has_no_bounds() -> None:
    assert simultaneous([([1.0], [0]), ([], [])]) == [None, None]


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=9))
def test_median_lies_in_its_interval(values: list[float]) -> None:
    found = estimate(values)
    assert found is not None
    assert min(values) <= found.low <= found.median <= found.high <= max(values)


@given(st.integers(2, 200), st.sampled_from([0.9, 0.95, 0.99]))
def test_the_rank_is_the_narrowest_that_reaches_the_confidence(n: int, confidence: float) -> None:
    rank = rank_for(n, confidence)
    assert rank == 1 or coverage_of_ranks(n, rank) >= confidence
    if rank < n // 2:
        assert coverage_of_ranks(n, rank + 1) < confidence

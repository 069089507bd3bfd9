"""The noise floor holds as often as it says, in several kinds of noise; fixed seeds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from isolane.stats.noise_floor import noise_floor

Values = NDArray[np.float64]
Noise = Callable[[np.random.Generator, int], tuple[Values, Values]]


def normal(random: np.random.Generator, rounds: int) -> tuple[Values, Values]:
    return random.normal(size=rounds), random.normal(size=rounds)


def drifting(random: np.random.Generator, rounds: int) -> tuple[Values, Values]:
    """Both arms follow a host that wanders by as much as the noise from round to round."""
    host = np.cumsum(random.normal(size=rounds))
    one, other = normal(random, rounds)
    return host + one, host + other


def with_outliers(random: np.random.Generator, rounds: int) -> tuple[Values, Values]:
    one, other = normal(random, rounds)
    wild = np.where(random.random((2, rounds)) < 0.1, 10.0, 1.0)
    return one * wild[0], other * wild[1]


def skewed(random: np.random.Generator, rounds: int) -> tuple[Values, Values]:
    """A throughput that is mostly near its maximum, and sometimes far below it."""
    return -random.exponential(size=rounds), -random.exponential(size=rounds)


def hardly_ever(random: np.random.Generator, rounds: int) -> tuple[Values, Values]:
    """So skewed that few pairs seldom show the worst: here the floor holds less often."""
    one, other = skewed(random, rounds)
    return -(one**2), -(other**2)


@pytest.mark.parametrize("pairs", [3, 5, 15])
@pytest.mark.parametrize(
    ("noise", "at_least"),
    [
        (normal, 0.945),
        (drifting, 0.93),
        (with_outliers, 0.945),
        (skewed, 0.92),
        (hardly_ever, 0.88),
    ],
)
def test_the_floor_holds(noise: Noise, at_least: float, pairs: int) -> None:
    random, held = np.random.default_rng(7), 0
    comparisons = 400
    for _ in range(comparisons):
        one, other = noise(random, pairs)
        floor = noise_floor(list(zip(one.tolist(), other.tolist(), strict=True)), 5)
        first, second = noise(random, 5)
        assert floor is not None
        held += bool(abs(np.median(first) - np.median(second)) <= floor)
    assert held / comparisons >= at_least


def test_the_floor_is_not_idly_wide() -> None:
    """Of many pairs of normal noise: 1.96 times the deviation of a difference of two medians."""
    random = np.random.default_rng(3)
    pairs = [(float(a), float(b)) for a, b in random.normal(size=(400, 2))]
    medians = np.median(random.normal(size=(20_000, 2, 5)), axis=2)
    expected = np.quantile(np.abs(medians[:, 0] - medians[:, 1]), 0.97)
    floor = noise_floor(pairs, 5)
    assert floor is not None
    assert floor == pytest.approx(expected, rel=0.1)


def test_a_difference_that_is_real_is_above_the_floor() -> None:
    random = np.random.default_rng(5)
    pairs = [(float(a), float(b)) for a, b in random.normal(100, 1, size=(15, 2))]
    floor = noise_floor(pairs, 5)
    assert floor is not None
    assert 0.5 < floor < 4


def test_more_repeats_lower_the_floor() -> None:
    random = np.random.default_rng(5)
    pairs = [(float(a), float(b)) for a, b in random.normal(size=(30, 2))]
    few, many = noise_floor(pairs, 3), noise_floor(pairs, 30)
    assert few is not None
    assert many is not None
    assert many < few / 2


def test_equal_pairs_have_no_noise_and_few_pairs_no_floor() -> None:
    assert noise_floor([(2.0, 2.0)] * 4, 5) == 0
    assert noise_floor([(1.0, 2.0)] * 2, 5) is None
    with pytest.raises(ValueError, match="0 repeats"):
        noise_floor([(1.0, 2.0)] * 3, 0)


def test_which_of_a_pair_is_called_the_twin_does_not_matter() -> None:
    pairs = [(1.0, 2.0), (3.0, 1.0), (2.0, 2.5), (1.0, 1.0)]
    turned = [(b, a) for a, b in pairs]
    found, again = noise_floor(pairs, 3), noise_floor(turned, 3)
    assert found == pytest.approx(again, rel=0.15)

"""By what two independent samples differ: Mann and Whitney's test, Hodges and Lehmann's estimate.

Nothing is assumed of how the values are distributed, but that a change moves all of them alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

import numpy as np
import scipy  # not scipy.stats, which takes half a second: it is loaded when it is first used
from numpy.typing import NDArray

from isolane.stats.intervals import CONFIDENCE

EXACT_UP_TO: Final = 40
"""Values of both samples together up to which the distribution of the ranks is counted out."""


class Shift(NamedTuple):
    """By what the second sample lies above the first, with its interval."""

    estimate: float
    """The median of all differences between a value of the second and one of the first sample."""
    low: float
    high: float
    """Infinite on both sides where so few values cannot bound it."""
    p: float
    """Probability of ranks that differ at least so much, if nothing had changed; two-sided."""


def shift(first: Sequence[float], second: Sequence[float], confidence: float = CONFIDENCE) -> Shift:
    """Return by what the second sample lies above the first.

    Parameters
    ----------
    first, second
        Independent values in one unit, some in each; infinite ones count as equal to each other.
    confidence
        Probability that the interval holds the shift, at least, whatever the distribution.

    Raises
    ------
    ValueError
        If a sample is empty.

    Notes
    -----
    Hollander, Wolfe and Chicken, Nonparametric Statistical Methods (3rd ed. 2014), 4.1 to 4.3.
    """
    if not first or not second:
        raise ValueError("a shift needs a value in each sample")
    differences = _differences(first, second)
    few = _outside(len(first), len(second), confidence)
    low, high = -math.inf, math.inf
    if few > 0:
        low, high = float(differences[few - 1]), float(differences[-few])
    return Shift(float(np.median(differences)), low, high, _p(first, second, differences))


def rank_biserial(first: Sequence[float], second: Sequence[float]) -> float:
    """Return how consistently the second sample lies above the first, -1 to 1.

    The share of pairs of one value each in which the second is above, less that in which it is
    below (Kerby 2014): 2 U / (m n) - 1, with Mann and Whitney's U; Cliff's delta is the same.

    Raises
    ------
    ValueError
        If a sample is empty.
    """
    if not first or not second:
        raise ValueError("an effect needs a value in each sample")
    return float(np.sign(_differences(first, second)).mean())


def smallest_p(first: int, second: int) -> float:
    """Return the smallest p that samples of so many values can have."""
    return min(1.0, 2 / math.comb(first + second, first))


def adjusted(ps: Sequence[float]) -> list[float]:
    """Return p values of which those below a limit are wrong in at most that share of the cases.

    Benjamini and Hochberg (1995): the limit bounds the false discovery rate, so that many figures
    may be looked at, and one that stands out is not lost among them.
    """
    return [float(p) for p in scipy.stats.false_discovery_control(ps)] if ps else []


def _differences(first: Sequence[float], second: Sequence[float]) -> NDArray[np.float64]:
    """Return second less first for all pairs, sorted."""
    with np.errstate(invalid="ignore"):
        found = np.subtract.outer(np.asarray(second, float), np.asarray(first, float)).ravel()
    found[np.isnan(found)] = 0.0  # both infinite
    return np.sort(found)


def _p(first: Sequence[float], second: Sequence[float], differences: NDArray[np.float64]) -> float:
    tied = len({*first, *second}) < len(first) + len(second)
    if not tied and len(first) + len(second) <= EXACT_UP_TO:
        pairs = len(differences)
        above = int(np.count_nonzero(differences > 0))
        return min(1.0, 2 * float(_below(len(first), len(second))[min(above, pairs - above)]))
    if len({*first, *second}) == 1:
        return 1.0
    # The normal distribution does not know how few orders there are.
    found = float(scipy.stats.mannwhitneyu(first, second, method="asymptotic").pvalue)
    return max(found, smallest_p(len(first), len(second)))


def _outside(first: int, second: int, confidence: float) -> int:
    """Return the rank, from 1, of the difference that bounds the interval on each side; 0: none.

    The rank-th lowest of all differences is above the shift where less than `rank` of them are
    below it, which are as many as Mann and Whitney's U.
    """
    tail = (1 - confidence) / 2
    if first + second > EXACT_UP_TO:
        spread = math.sqrt(first * second * (first + second + 1) / 12)
        return max(0, math.floor(first * second / 2 + float(scipy.special.ndtri(tail)) * spread))
    return int(np.searchsorted(_below(first, second), tail, side="right"))


@cache
def _below(first: int, second: int) -> NDArray[np.float64]:
    """Return the probability of each U, or a lower one, of so many values, if nothing differs."""
    return np.asarray(np.cumsum(order_counts(first, second)) / math.comb(first + second, first))


@cache
def order_counts(first: int, second: int) -> NDArray[np.float64]:
    """Count the orders of so many values of each sample that give U = 0, 1, ...

    By the last one in the order: it is of the second sample, and above all of the first, or not.
    """
    counts = np.zeros(first * second + 1)
    if first == 0 or second == 0:
        counts[0] = 1.0
        return counts
    above, rest = order_counts(first, second - 1), order_counts(first - 1, second)
    counts[first : first + len(above)] += above
    counts[: len(rest)] += rest
    return counts

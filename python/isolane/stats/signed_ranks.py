"""By what pairs differ: Wilcoxon's signed-rank test, Hodges and Lehmann's estimate, Kerby's effect.

Nothing is assumed of the differences but that, if nothing differs, each is as likely to be
above zero as below by as much.
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

EXACT_UP_TO: Final = 50
"""Differences up to which the distribution of the signed ranks is counted out."""

Floats = NDArray[np.float64]


class SignedRanks(NamedTuple):
    """By what the pairs differ, how surely, and how consistently."""

    estimate: float
    """The median of the means of all two differences, and of each with itself (pseudomedian)."""
    low: float
    high: float
    """Infinite on both sides where so few pairs cannot bound it."""
    effect: float
    """Matched-pairs rank-biserial correlation, -1 to 1: the share of the ranks that belong to
    differences above zero, less that of those below; 0 where all pairs are equal."""
    p: float
    """Probability of signed ranks at least so uneven, if nothing differed; two-sided."""


def signed_ranks(differences: Sequence[float], confidence: float = CONFIDENCE) -> SignedRanks:
    """Test whether paired values differ, and estimate by what.

    Parameters
    ----------
    differences
        Second less first value of each pair, in one unit; some. Infinite ones rank highest. Pairs
        without a difference count for the estimate, and for the test only by their absence.
    confidence
        Probability that the interval holds the pseudomedian, at least.

    Raises
    ------
    ValueError
        If there is no pair, or a difference is NaN.

    Notes
    -----
    Hollander, Wolfe and Chicken, Nonparametric Statistical Methods (3rd ed. 2014), 3.1 to 3.3;
    the effect: Kerby (2014), The simple difference formula. scipy's exact distribution knows no
    ties, and histograms make many, so the ranks as they are, ties included, are counted out.
    """
    if not differences or any(map(math.isnan, differences)):
        raise ValueError(f"signed ranks need differences, and numbers: {list(differences)}")
    means = _walsh(np.asarray(differences, float))
    low, high = -math.inf, math.inf
    few = _outside(len(differences), confidence)
    if few > 0:
        low, high = float(means[few - 1]), float(means[-few])
    half = len(means) // 2
    middle = float(_mean(means[len(means) - 1 - half], means[half]))
    effect, p = _test(np.array([value for value in differences if value]))
    return SignedRanks(middle, low, high, effect, p)


def smallest_signed_p(pairs: int) -> float:
    """Return the smallest two-sided p that so many pairs can have: all differ to one side."""
    return min(1.0, 2.0 ** (1 - pairs))


def _mean(a: Floats, b: Floats) -> Floats:
    """Return the means of two arrays' values; opposite infinities cancel out."""
    with np.errstate(invalid="ignore"):
        return np.nan_to_num((a + b) / 2, nan=0.0, posinf=np.inf, neginf=-np.inf)


def _walsh(differences: Floats) -> Floats:
    """Return the means of all two differences, and of each with itself, sorted."""
    first, second = np.triu_indices(len(differences))
    return np.sort(_mean(differences[first], differences[second]))


def _test(differences: Floats) -> tuple[float, float]:
    """Return effect and p of differences that are not zero."""
    count = len(differences)
    if not count:
        return 0.0, 1.0
    ranks = scipy.stats.rankdata(np.abs(differences))
    above, total = float(ranks[differences > 0].sum()), count * (count + 1) / 2
    effect = 2 * above / total - 1
    if count > EXACT_UP_TO:
        found = scipy.stats.wilcoxon(_signed(differences, ranks), method="asymptotic")
        return effect, float(found.pvalue)
    chances = _distribution(np.rint(2 * ranks).astype(int))
    at = round(2 * above)
    tail = min(float(chances[: at + 1].sum()), float(chances[at:].sum()))
    return effect, min(1.0, 2 * tail)


def _signed(differences: Floats, ranks: Floats) -> Floats:
    """Return ranks with signs, which are finite where differences are not."""
    return np.asarray(np.sign(differences) * ranks)


def _distribution(doubled: NDArray[np.int_]) -> Floats:
    """Return the probability of each sum of doubled ranks, if each sign is a fair coin's."""
    chances = np.zeros(int(doubled.sum()) + 1)
    chances[0] = 1.0
    for rank in doubled:
        moved = np.zeros_like(chances)
        moved[rank:] = chances[: len(chances) - rank]
        chances = (chances + moved) / 2
    return chances


@cache
def _outside(pairs: int, confidence: float) -> int:
    """Return the rank, from 1, of the mean that bounds the interval on each side; 0: none.

    As many means are above zero as Wilcoxon's sum of ranks tells (Tukey 1949).
    """
    tail = (1 - confidence) / 2
    if pairs > EXACT_UP_TO:
        spread = math.sqrt(pairs * (pairs + 1) * (2 * pairs + 1) / 24)
        middle = pairs * (pairs + 1) / 4
        return max(0, math.floor(middle + float(scipy.special.ndtri(tail)) * spread))
    below = np.cumsum(_distribution(np.arange(1, pairs + 1)))
    return int(np.searchsorted(below, tail, side="right"))

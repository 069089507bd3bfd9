"""Medians over repeats and invocations, with intervals that say how often they hold the median."""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import scipy  # not scipy.special, which takes 0.1 s: it is loaded when it is first used
from numpy.typing import NDArray

CONFIDENCE = 0.95
RESAMPLES = 1_999
"""Davison and Hinkley (1997, 4.2.5): R + 1 should make the percentiles whole ranks (50, 1950)."""

MIN_UNITS = 6
"""Values that a 95 % interval for a median needs.

The range of n independent values holds the median with probability 1 - 2**(1 - n): 50 % of the
time for n = 2, 75 % for 3, 87.5 % for 4, 93.75 % for 5, and first above 95 % for 6. No
resampling can find out more than the values themselves tell.
"""

BOOTSTRAP_FROM = 20
"""Invocations from which the bootstrap is used; with fewer the exact interval is, which needs no
approximation. ``benches/coverage.py`` shows both."""

Array = NDArray[np.float64]


class Estimate(NamedTuple):
    """A median with its interval."""

    median: float
    low: float
    high: float
    n: int
    """Values behind it."""
    coverage: float | None
    """Probability that such an interval holds the median, 0 to 1; None of a single value."""
    invocations: int
    """Invocations that the values are from."""


class Bounds(NamedTuple):
    """An interval that is one of several which hold together."""

    median: float
    low: float
    high: float
    exact: bool
    """From order statistics; else by Student's t, which assumes that the errors are normal."""


@cache
def coverage_of_ranks(n: int, rank: int) -> float:
    """Probability that the median lies between the rank-th lowest and rank-th highest of n values.

    Distribution-free (David and Nagaraja, Order Statistics, 3rd edition, 7.1): the median lies
    below the rank-th lowest value when fewer than `rank` of the values lie below the median.

    Parameters
    ----------
    n
        Number of independent values.
    rank
        1 for the range of the values; at most half of `n`.
    """
    return float(1 - 2 * scipy.special.bdtr(rank - 1, n, 0.5))


@cache
def rank_for(n: int, confidence: float) -> int:
    """Return the rank of the narrowest symmetric interval with that confidence; 1 if none has."""
    ranks = range(n // 2, 0, -1)
    return next((rank for rank in ranks if coverage_of_ranks(n, rank) >= confidence), 1)


def estimate(
    values: Sequence[float],
    invocations: Sequence[Hashable] | None = None,
    seed: int = 1,
    *,
    bootstrap_from: int = BOOTSTRAP_FROM,
) -> Estimate | None:
    """Median of `values` with an interval that aims at 95 %.

    The values of one invocation are more alike than those of different ones, so where there are
    several, the interval is one over invocations: each counts once, with the median of its values
    (Kalibera and Jones 2013, Rigorous benchmarking in reasonable time: the highest level at which
    there is chance has to be repeated). Up to `BOOTSTRAP_FROM` invocations, or with one, the ends
    of the interval are values themselves (order statistics), and their coverage is exact. From
    there on a hierarchical percentile bootstrap is used: it draws invocations, and for each the
    repeats in it. The percentile method, not BCa: the jackknife that BCa takes its acceleration
    from is inconsistent for the median (Efron and Tibshirani 1993, 11.6).

    Parameters
    ----------
    values
        One value per repeat, any unit. Must be finite.
    invocations
        The invocation that each value is from; by default all are from the same.
    seed
        Seed of the resampling; the same values and seed give the same interval.
    bootstrap_from
        Invocations from which the bootstrap is used.

    Returns
    -------
    Estimate or None
        In the unit of `values`. None without values. One value gives ``low = high = median`` and
        no coverage. With fewer than `MIN_UNITS` invocations (or, where there is one, repeats) it
        is their range, and `coverage` says how much below 95 % that is. With one invocation it
        holds for this one only: what differs from invocation to invocation is not in it.

    Raises
    ------
    ValueError
        If a value is NaN or infinite; the caller has to leave such values out and count them.
    """
    if not values:
        return None
    if not all(math.isfinite(value) for value in values):
        msg = f"cannot take the median of {list(values)}: not all values are finite"
        raise ValueError(msg)
    groups = _groups(values, invocations)
    units = _units(groups)
    count, median = len(units), statistics.median(units)
    if count == 1:
        return Estimate(median, median, median, len(values), None, len(groups))
    if len(groups) >= max(2, bootstrap_from):
        low, high = np.percentile(_resampled(groups, seed), (2.5, 97.5))
        low, high = max(float(low), units[0]), min(float(high), units[-1])
        coverage = CONFIDENCE
    else:
        rank = rank_for(count, CONFIDENCE)
        low, high = units[rank - 1], units[-rank]
        coverage = coverage_of_ranks(count, rank)
    return Estimate(median, low, high, len(values), coverage, len(groups))


def simultaneous(
    samples: Sequence[tuple[Sequence[float], Sequence[Hashable]]], confidence: float = CONFIDENCE
) -> list[Bounds | None]:
    """Return intervals of several medians that all hold at once with the given confidence.

    Bonferroni: each interval leaves out its part of the error. That needs no assumption about how
    the samples depend on each other, and is somewhat wide where they go together. Where there are
    too few values for an exact interval of that confidence, Student's t is used.

    Parameters
    ----------
    samples
        For each median its values, in any unit, and the invocation that each is from.
    confidence
        Probability that all intervals hold, 0 to 1.

    Returns
    -------
    list
        For each sample its bounds, in its unit; None where there are fewer than two invocations
        and fewer than two values: one value tells nothing of its error.
    """
    each = 1 - (1 - confidence) / max(1, len(samples))
    return [_bounds(_units(_groups(*sample)), each) if sample[0] else None for sample in samples]


def _bounds(units: Sequence[float], confidence: float) -> Bounds | None:
    count = len(units)
    if count < 2:
        return None
    median, rank = statistics.median(units), rank_for(count, confidence)
    if coverage_of_ranks(count, rank) >= confidence:
        return Bounds(median, units[rank - 1], units[-rank], exact=True)
    half = (
        scipy.special.stdtrit(count - 1, (1 + confidence) / 2)
        * np.std(units, ddof=1)
        / math.sqrt(count)
    )
    middle = float(np.mean(units))
    low, high = min(median, middle - float(half)), max(median, middle + float(half))
    return Bounds(median, low, high, exact=False)


def _groups(values: Sequence[float], invocations: Sequence[Hashable] | None) -> list[list[float]]:
    """Return the values of each invocation."""
    found: dict[Hashable, list[float]] = {}
    for value, invocation in zip(values, invocations or [0] * len(values), strict=True):
        found.setdefault(invocation, []).append(float(value))
    return list(found.values())


def _units(groups: Sequence[Sequence[float]]) -> list[float]:
    """Return what counts as one independent value, sorted: invocations where there are several."""
    if len(groups) > 1:
        return sorted(map(statistics.median, groups))  # numpy takes ten times as long for few
    return sorted(groups[0])


def _resampled(groups: Sequence[Sequence[float]], seed: int) -> Array:
    """Return medians of resampled invocations with resampled repeats."""
    chance = np.random.default_rng(seed)
    count, longest = len(groups), max(len(group) for group in groups)
    sizes = np.array([len(group) for group in groups])
    padded = np.array([np.pad(group, (0, longest - len(group))) for group in groups])
    drawn = chance.integers(0, count, (RESAMPLES, count))
    within = (chance.random((RESAMPLES, count, longest)) * sizes[drawn][..., None]).astype(int)
    picked = padded[drawn[..., None], within]
    if sizes.min() < longest:  # an invocation that lost repeats is drawn as short as it is
        picked[np.arange(longest) >= sizes[drawn][..., None]] = np.nan
    return np.asarray(np.median(np.nanmedian(picked, axis=2), axis=1))

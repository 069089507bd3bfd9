"""Whether values rise or fall with a setting: Kendall's rank correlation, with ties."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy  # not scipy.stats, which takes half a second: it is loaded when it is first used

from isolane.stats.shifts import EXACT_UP_TO, order_counts


class RankTrend(NamedTuple):
    """How consistently values follow a setting."""

    tau: float
    """Kendall's tau-b, -1 to 1; 0 where all values are equal. Of values that differ and follow the
    setting in full it is below 1, as those at one setting have no order among each other."""
    p: float
    """Probability of a tau at least so far from 0, if the setting did not matter; two-sided."""


def rank_trend(settings: Sequence[float], values: Sequence[float]) -> RankTrend:
    """Correlate values with the setting that each was measured at.

    Parameters
    ----------
    settings
        At least two different ones.
    values
        One for each setting; infinite ones are above all others, and equal.

    Raises
    ------
    ValueError
        If there are fewer than two different settings.

    Notes
    -----
    Kendall (1945), The treatment of ties in ranking problems. Where all values differ, and are not
    too many, the orders are counted out: the values of each setting lie among those of the settings
    below it as those of Mann and Whitney's two samples do (Jonckheere 1954, Terpstra 1952). Else p
    is by the normal distribution, and never below what so few values can have.
    """
    if len(set(settings)) < 2:
        raise ValueError("a trend needs two settings")
    if len(set(values)) < 2:
        return RankTrend(0.0, 1.0)
    found = scipy.stats.kendalltau(settings, values)
    tau, p = float(found.statistic), max(float(found.pvalue), smallest_trend_p(settings))
    if len(set(values)) == len(values) <= EXACT_UP_TO:
        p = _exact_p(settings, tau)
    return RankTrend(tau, p)


def _exact_p(settings: Sequence[float], tau: float) -> float:
    """Return p of a tau-b without ties among the values."""
    every = math.comb(len(settings), 2)
    ordered = every - sum(math.comb(count, 2) for count in Counter(settings).values())
    rising = (ordered + tau * math.sqrt(every * ordered)) / 2
    chances, below = np.ones(1), 0
    for count in Counter(settings).values():
        counts = order_counts(below, count)
        chances = np.convolve(chances, counts / counts.sum())
        below += count
    at = round(rising)
    return min(1.0, 2 * min(float(chances[: at + 1].sum()), float(chances[at:].sum())))


def smallest_trend_p(settings: Sequence[float]) -> float:
    """Return the smallest p of values at these settings: two of all their orders are extreme."""
    counts = Counter(settings).values()
    log_orders = math.lgamma(len(settings) + 1) - sum(math.lgamma(count + 1) for count in counts)
    return min(1.0, 2 * math.exp(-log_orders))

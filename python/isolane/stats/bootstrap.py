"""Medians over repeats with bootstrap confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
RESAMPLES = 1_999
"""Davison and Hinkley (1997, 4.2.5): R + 1 should make the percentiles whole ranks (50, 1950)."""

RANGE_BELOW = 6
"""Below this many repeats the interval is simply the range of the repeats.

The range of n values covers the median with probability 1 - 2**(1 - n): 50 % of the time for
n = 2, 75 % for 3, 87.5 % for 4, 93.8 % for 5, and first above 95 % for 6. No resampling can find
out more than the values themselves tell.
"""


class Estimate(NamedTuple):
    """A median with its confidence interval; ``n`` is the number of repeats behind it."""

    median: float
    low: float
    high: float
    n: int


def interval_is_range(n: int) -> bool:
    """Tell whether `n` repeats are too few for a 95 % interval (the range is given instead)."""
    return n < RANGE_BELOW


def estimate(values: Sequence[float], seed: int = 1) -> Estimate | None:
    """Median of `values` with a percentile bootstrap 95 % interval.

    The percentile method, not BCa: the jackknife that BCa takes its acceleration from is
    inconsistent for the median (Efron and Tibshirani 1993, 11.6).

    Parameters
    ----------
    values
        One value per repeat, any unit. Must be finite.
    seed
        Seed of the resampling; the same values and seed give the same interval.

    Returns
    -------
    Estimate or None
        In the unit of `values`. None without values. One value gives ``low = high = median``;
        two to five give their range, see `RANGE_BELOW`.

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
    sample = np.asarray(values, dtype=float)
    median, low, high = float(np.median(sample)), float(sample.min()), float(sample.max())
    if len(sample) >= RANGE_BELOW and low < high:
        interval = stats.bootstrap(
            (sample,),
            np.median,
            n_resamples=RESAMPLES,
            confidence_level=CONFIDENCE,
            method="percentile",
            rng=np.random.default_rng(seed),
        ).confidence_interval
        # Interpolation between equal percentiles can round to just outside of the values.
        low, high = max(low, float(interval.low)), min(high, float(interval.high))
    return Estimate(median, low, high, len(sample))

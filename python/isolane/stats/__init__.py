"""Statistics of trials: medians with intervals, and the measures of isolation.

Pure functions of numbers: nothing here knows about files, trials or routers.
"""

from isolane.stats.intervals import (
    BOOTSTRAP_FROM,
    CONFIDENCE,
    MIN_UNITS,
    Bounds,
    Estimate,
    coverage_of_ranks,
    estimate,
    simultaneous,
)
from isolane.stats.isolation import max_min_fair, paired_ratios, share_errors
from isolane.stats.noise_floor import noise_floor

__all__ = [
    "BOOTSTRAP_FROM",
    "CONFIDENCE",
    "MIN_UNITS",
    "Bounds",
    "Estimate",
    "coverage_of_ranks",
    "estimate",
    "max_min_fair",
    "noise_floor",
    "paired_ratios",
    "share_errors",
    "simultaneous",
]

"""Statistics of trials: medians with intervals, and the measures of isolation.

Pure functions of numbers: nothing here knows about files, trials or routers.
"""

from isolane.stats.bootstrap import Estimate, estimate, interval_is_range
from isolane.stats.isolation import max_min_fair, paired_ratios, share_errors

__all__ = [
    "Estimate",
    "estimate",
    "interval_is_range",
    "max_min_fair",
    "paired_ratios",
    "share_errors",
]

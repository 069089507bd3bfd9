"""How many repeats would probably decide what a run has not decided, and how long that takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Final

from isolane.analysis.victim_findings import BAD
from isolane.results.interval import Interval
from isolane.results.results import Trial

MAX_REPEATS: Final = 100
"""More than this are not proposed: what the victim keeps is too near to the bar."""


def repeats_needed(keeps: Interval) -> int | None:
    """Return with how many repeats the interval would probably lie on one side of the bar.

    An interval's width falls with the root of the number of its values.

    Parameters
    ----------
    keeps
        What a victim keeps, 0 to 1, in an arm that is undecided.

    Returns
    -------
    int or None
        None where it is more than `MAX_REPEATS`.
    """
    half = keeps.high - keeps.median if keeps.median < BAD else keeps.median - keeps.low
    distance = abs(keeps.median - BAD)
    if distance == 0:
        return None
    wanted = keeps.n * (half / distance) ** 2
    return max(keeps.n + 1, math.ceil(wanted)) if wanted <= MAX_REPEATS else None


def repeat_s(trials: Sequence[Trial]) -> float | None:
    """Return how long a round of a run took, s; None where that is not known.

    Parameters
    ----------
    trials
        All trials of the run; those of a simulation have no times.
    """
    begins: dict[int, float] = {}
    for trial in trials:
        if trial.purpose == "measure":
            begins.setdefault(trial.repeat, trial.started_unix_s)
    lasted = [after - before for before, after in pairwise(begins.values())]
    found = median(lasted) if lasted else 0.0  # a pause before a resumed run is one of many
    return found if found > 0 else None

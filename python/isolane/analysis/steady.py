"""Whether windows begin with a transient: then the warm-up was too short.

The speed of a machine changes in the middle of trials, too, so that a shift in one trial says
little. A transient comes in all trials of a point alike. Hence the test is over trials: is the mean
of their shifts (:class:`isolane.results.steady_models.WindowShift`) other than 0, and is it large
enough to matter?
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from scipy import special

from isolane.analysis.delivery import tells_delays
from isolane.results.error_budget import ErrorBudget
from isolane.results.results import NotMeasured, Trial
from isolane.results.steady_models import Metric, Unsteady

MIN_TRIALS = 3
FALSE_WARNINGS = 0.05
"""Share of the runs with a warning where all windows are steady, over all tests of a run (Holm)."""
DELAY_SHIFT = 0.15
"""A smaller shift of the p99 delay does not matter: neighbouring buckets of a bin differ by 12 %,
and repeats by more."""

SMALL_P = 0.001
"""A smaller p is told as such: it rests on the shape of a distribution's far tail."""

Key = tuple[str, int, str, str, Metric]
"""Arm, point, its label, router, metric."""


@dataclass
class _Shifts:
    """The shifts of one router's windows at one point, by trial."""

    limit: float
    """A smaller one does not matter, or cannot be told from the rounding to whole frames."""
    seen: list[float] = field(default_factory=list)

    def add(self, shift: float, limit: float) -> None:
        self.seen.append(shift)
        self.limit = max(self.limit, limit)


def unsteady(
    trials: Sequence[Trial], throughput_shift: float | None = None
) -> tuple[Unsteady, ...]:
    """Find the routers whose windows begin with a transient.

    Parameters
    ----------
    trials
        All trials of a run; those without verdict are left out, and delays that are invalid.
    throughput_shift
        A smaller shift of the throughput, as a ratio, does not matter; by default the error
        budget of one fault. Where few frames arrive, those at both ends of a bin count for more.

    Returns
    -------
    tuple of Unsteady
        Those that are significant together, by Holm's procedure at `FALSE_WARNINGS`, and large
        enough. Points with fewer than `MIN_TRIALS` trials are not tested.
    """
    limit = ErrorBudget().limit if throughput_shift is None else throughput_shift
    every = _shifts(trials, limit)
    tests = sorted(
        ((*_test(shifts.seen), key, shifts) for key, shifts in every.items()),
        key=lambda test: test[0],
    )
    found = []
    for rank, (p, shift, (arm, point, label, router, metric), shifts) in enumerate(tests):
        if p * (len(tests) - rank) > FALSE_WARNINGS:
            break
        if abs(shift) > shifts.limit:
            found.append(
                Unsteady(
                    arm=arm,
                    point=point,
                    point_label=label,
                    router=router,
                    metric=metric,
                    shift=shift,
                    p=p,
                    trials=len(shifts.seen),
                )
            )
    return tuple(sorted(found, key=lambda one: (one.arm, one.point, one.router, one.metric)))


def too_short(found: Sequence[Unsteady]) -> list[NotMeasured]:
    """Say where the warm-up was too short."""
    return [
        NotMeasured(
            what=f"The steady state: {one.router} on {one.arm}, {one.point_label}",
            why=f"its {'throughput' if one.metric == 'throughput' else 'p99 delay'} over the whole "
            f"window is {100 * one.shift:+.1f} % off that of the last third, in all "
            f"{one.trials} trials alike ({_chance(one.p)}): the windows begin with a transient, "
            "and a longer trial.warmup would give other figures",
        )
        for one in found
    ]


def _chance(p: float) -> str:
    return f"p = {p:.2g}" if p >= SMALL_P else f"p < {SMALL_P:g}"


def _test(shifts: Sequence[float]) -> tuple[float, float]:
    """Return p of a two-sided t test against 0, and the mean."""
    mean = sum(shifts) / len(shifts)
    if max(shifts) == min(shifts):  # as in a simulation
        return (1.0 if mean == 0 else 0.0), mean
    count = len(shifts)
    t = mean / (statistics.stdev(shifts) / math.sqrt(count))
    return float(2 * special.stdtr(count - 1, -abs(t))), mean


def _shifts(trials: Sequence[Trial], throughput_shift: float) -> dict[Key, _Shifts]:
    found: dict[Key, _Shifts] = {}
    for trial in trials:
        if trial.status != "ok" or trial.purpose != "measure":
            continue
        for router in trial.routers:
            shift = router.window_shift
            if shift is None:
                continue
            key = (trial.arm, trial.point, trial.point_label, router.router)
            limit = max(throughput_shift, shift.resolution)
            found.setdefault((*key, "throughput"), _Shifts(limit)).add(shift.throughput, limit)
            if shift.delay_p99 is not None and tells_delays(trial):
                of_delay = found.setdefault((*key, "delay_p99"), _Shifts(DELAY_SHIFT))
                of_delay.add(shift.delay_p99, DELAY_SHIFT)
    return {key: shifts for key, shifts in found.items() if len(shifts.seen) >= MIN_TRIALS}

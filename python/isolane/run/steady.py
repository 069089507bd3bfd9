"""Whether windows begin with a transient: then the warm-up was too short.

The speed of a machine changes in the middle of trials, too, so that a shift in one trial says
little. A transient comes in all trials of a point alike. Hence the test is over trials: is the mean
of their shifts (:class:`isolane.run.steady_models.WindowShift`) other than 0, and is it large
enough to matter?
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from scipy import stats

from isolane.run.delivery import tells_delays
from isolane.run.error_budget import ErrorBudget
from isolane.run.results import NotMeasured, Trial
from isolane.run.steady_models import Unsteady

MIN_TRIALS = 3
FALSE_WARNINGS = 0.05
"""Share of the runs with a warning where all windows are steady, over all tests of a run (Holm)."""
DELAY_SHIFT = 0.1
"""A smaller shift of the p99 delay does not matter: its repeats differ by more."""

Key = tuple[str, int, str, str, str]
"""Arm, point, its label, router, metric."""


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
        budget of one fault.

    Returns
    -------
    tuple of Unsteady
        Those that are significant together, by Holm's procedure at `FALSE_WARNINGS`, and large
        enough. Points with fewer than `MIN_TRIALS` trials are not tested.
    """
    limit = ErrorBudget().limit if throughput_shift is None else throughput_shift
    tests = sorted(
        ((*_test(shifts), key, len(shifts)) for key, shifts in _shifts(trials).items()),
        key=lambda test: test[0],
    )
    found = []
    for rank, (p, shift, (arm, point, label, router, metric), count) in enumerate(tests):
        if p * (len(tests) - rank) > FALSE_WARNINGS:
            break
        if abs(shift) > (limit if metric == "throughput" else DELAY_SHIFT):
            found.append(
                Unsteady.model_validate(
                    {
                        "arm": arm,
                        "point": point,
                        "point_label": label,
                        "router": router,
                        "metric": metric,
                        "shift": shift,
                        "p": p,
                        "trials": count,
                    }
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
            f"{one.trials} trials alike (p = {one.p:.2g}): the windows begin with a transient, and "
            "a longer trial.warmup would give other figures",
        )
        for one in found
    ]


def _test(shifts: Sequence[float]) -> tuple[float, float]:
    """Return p of a two-sided t test against 0, and the mean."""
    mean = sum(shifts) / len(shifts)
    if max(shifts) == min(shifts):  # as in a simulation
        return (1.0 if mean == 0 else 0.0), mean
    return float(stats.ttest_1samp(shifts, 0.0).pvalue), mean


def _shifts(trials: Sequence[Trial]) -> dict[Key, list[float]]:
    found: dict[Key, list[float]] = defaultdict(list)
    for trial in trials:
        if trial.status != "ok" or trial.purpose != "measure":
            continue
        for router in trial.routers:
            if router.window_shift is None:
                continue
            for metric, shift in router.window_shift.model_dump().items():
                if shift is not None and (metric == "throughput" or tells_delays(trial)):
                    key = (trial.arm, trial.point, trial.point_label, router.router, metric)
                    found[key].append(shift)
    return {key: shifts for key, shifts in found.items() if len(shifts) >= MIN_TRIALS}

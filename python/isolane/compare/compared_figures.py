"""The values of a run's figures, which two runs are compared by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from isolane.analysis.delivery import Runs
from isolane.analysis.trial_figures import Figure
from isolane.results.results import Trial


def values_of(figure: Figure, runs: Runs) -> list[float]:
    """Return the independent values of a figure.

    Those of the trials; where a run has several invocations, the median of each: what its trials
    have in common would else be taken for known.
    """
    found: dict[int, list[float]] = {}
    for trial, router in runs:
        value = figure.pick(trial, router)
        if value is not None:
            found.setdefault(trial.invocation, []).append(value)
    if len(found) > 1:
        return [median(values) for values in found.values()]
    return next(iter(found.values()), [])


def offered(runs: Runs) -> float:
    """Return what a router was sent, frames/s: the median over the trials.

    Of a closed loop, which asks for as much as it is answered, 0.
    """
    return median(router.generated_pps if router.asked_pps else 0.0 for _, router in runs)


def offered_beside(runs: Runs) -> float:
    """Return what the other routers were sent together at the same time, as :func:`offered`."""
    return median(
        sum(
            other.generated_pps
            for other in trial.routers
            if other.router != router.router and other.asked_pps
        )
        for trial, router in runs
    )


def routers_of(trials: Sequence[Trial]) -> Mapping[str, Runs]:
    """Return each router's results with their trials, in the order of the first trial."""
    found: dict[str, Runs] = {}
    for trial in trials:
        for router in trial.routers:
            found.setdefault(router.router, []).append((trial, router))
    return found

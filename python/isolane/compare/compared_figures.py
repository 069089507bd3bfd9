"""The figures that two runs are compared by, and their values in a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from isolane.compare.comparison_models import FigureName
from isolane.run.delivery import Runs, tells_cpu, tells_delays
from isolane.run.quality_models import NoiseFigure
from isolane.run.results import Delay, RouterTrial, Trial


@dataclass(frozen=True)
class Figure:
    """One of them."""

    name: FigureName
    pick: Callable[[Trial, RouterTrial], float | None]
    """Its value in a trial; None where the trial does not tell it."""
    more_is_better: bool = False
    relative: bool = True
    """Whether a change is a part of the first value; else it is the difference."""
    noise: NoiseFigure | None = None
    """The noise floor of a run that bounds what may be called a difference."""


def _delay(pick: Callable[[Delay], float]) -> Callable[[Trial, RouterTrial], float | None]:
    def of(trial: Trial, router: RouterTrial) -> float | None:
        if not tells_delays(trial) or not router.generated_frames:
            return None
        # Where none arrived, all were lost.
        return math.inf if router.delay is None else pick(router.delay)

    return of


def _cpu(trial: Trial, router: RouterTrial) -> float | None:
    if not tells_cpu(trial):
        return None
    return router.cpu_caused_ns_per_frame or router.cpu_ns_per_frame


FIGURES: Final = (
    Figure(
        "throughput",
        lambda _, router: router.received_pps if router.generated_frames else None,
        more_is_better=True,
        noise="throughput",
    ),
    Figure("loss", lambda _, router: router.loss_ratio, relative=False, noise="delivered"),
    Figure("p50", _delay(lambda delay: delay.p50_ns)),
    Figure("p99", _delay(lambda delay: delay.p99_ns), noise="delay_p99"),
    Figure("CPU per frame", _cpu),
)


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
    """Return what a router was sent, frames/s: the median over the trials."""
    return median(router.generated_pps for _, router in runs)


def routers_of(trials: Sequence[Trial]) -> Mapping[str, Runs]:
    """Return each router's results with their trials, in the order of the first trial."""
    found: dict[str, Runs] = {}
    for trial in trials:
        for router in trial.routers:
            found.setdefault(router.router, []).append((trial, router))
    return found

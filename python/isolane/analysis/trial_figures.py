"""The figures that have one value per trial and router, and that runs and arms are compared by."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from isolane.analysis.delivery import tells_cpu, tells_delays
from isolane.results.arm_test_models import FigureName
from isolane.results.results import Delay, RouterTrial, Trial


@dataclass(frozen=True)
class Figure:
    """One of them."""

    name: FigureName
    pick: Callable[[Trial, RouterTrial], float | None]
    """Its value in a trial; None where the trial does not tell it."""
    more_is_better: bool = False
    relative: bool = True
    """Whether a change is a part of the first value; else it is the difference."""


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
    ),
    Figure("loss", lambda _, router: router.loss_ratio, relative=False),
    Figure("p50", _delay(lambda delay: delay.p50_ns)),
    Figure("p99", _delay(lambda delay: delay.p99_ns)),
    Figure("CPU per frame", _cpu),
)

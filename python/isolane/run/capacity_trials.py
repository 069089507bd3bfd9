"""The capacity trials of a run: one router alone, in each arm, at loads that rise from below."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from isolane.analysis.capacities import OTHER_WIDTH, arm_capacities, one_x, readings
from isolane.analysis.maximum_rate import Span, next_load
from isolane.analysis.wording import plural
from isolane.errors import MeasurementError
from isolane.results.results import ArmCapacity, Capacity, Trial
from isolane.run.schedule import Task
from isolane.spec import Arm, Experiment, Point, PointRouter, format_pps
from isolane.spec.demands import Demand
from isolane.spec.patterns import PLAIN
from isolane.spec.work_models import NO_WORK
from isolane.trials.backend import BackEnd, Bench

EXPECTED: Final = 12
"""Trials that one arm takes, for the progress bar."""
OTHER_CONFIRM: Final = 2
"""Fresh trials at the best load in these arms."""
WINDOW_NS: Final = 100_000_000
"""Longest measuring window of a capacity trial, ns."""
WARMUP_NS: Final = 50_000_000
"""Longest time before the window, ns."""
GIVE_UP_AFTER: Final = 3
"""Failed trials in a row after which the run ends: the next would fail as well."""


@dataclass(frozen=True)
class CapacityTrials:
    """Carries out the capacity trials that a run still lacks.

    Parameters
    ----------
    experiment
        Its loads in x are multiples of what is found in one of its arms.
    back_end
        Carries out the trials.
    trials
        All trials of the run; each new one is there when `one` returns.
    one
        Carries out one trial on a bench and keeps it.
    tell
        Called before each trial with what is being done.
    """

    experiment: Experiment
    back_end: BackEnd
    trials: Sequence[Trial]
    one: Callable[[Bench, Task, Demand], None]
    tell: Callable[[str], None]

    def execute(self) -> Capacity:
        """Measure what 1x is, and the capacity of every other arm.

        Raises
        ------
        MeasurementError
            If the arm that 1x names has no capacity that could be measured, or trials keep failing.
        """
        reference = self.experiment.capacity_reference()
        for arm in self.experiment.arms_with_capacity:
            self._arm(arm)
            if arm.name == reference.arm.name:
                self._refuse_unknown(arm.name)
        found = self._found(reference.arm.name)
        assert found is not None  # _refuse_unknown() has looked at it
        return one_x(found)

    def _found(self, arm: str) -> ArmCapacity | None:
        return next((one for one in arm_capacities(self.trials) if one.arm == arm), None)

    def _refuse_unknown(self, arm: str) -> None:
        if self._found(arm) is not None:
            return
        reasons = [
            trial.reason
            for trial in self.trials
            if trial.purpose == "capacity"
            and trial.arm == arm
            and trial.status != "ok"
            and trial.reason
        ]
        why = "no trial gave a verdict"
        if reasons:
            why = f"{plural(len(reasons), 'trial')} gave no verdict, the last one because "
            why += reasons[-1]
        raise MeasurementError(
            "the capacity of one router could not be measured, so loads in x have no meaning "
            f"here: {why}"
        )

    def _arm(self, arm: Arm) -> None:
        """Do the trials of one arm; after a failed one the bench is built anew."""
        span = Span(self.back_end.overload_pps(arm))
        if arm.name != self.experiment.capacity_reference().arm.name:
            span = replace(span, width=OTHER_WIDTH, confirm=OTHER_CONFIRM)
        router, failed = self._router(), 0
        while self._next(arm, span) is not None:
            with self.back_end.bench(arm, (router,)) as bench:
                while (load := self._next(arm, span)) is not None:
                    self.tell(f"capacity of {arm.name}")
                    self.one(bench, self._task(arm, router, load), Demand(router, load, None))
                    if self.trials[-1].status == "failed":
                        failed += 1
                        break
                    failed = 0
            if failed >= GIVE_UP_AFTER:
                raise MeasurementError(
                    f"{failed} trials failed in a row, the last one because: "
                    f"{self.trials[-1].reason}"
                )

    def _next(self, arm: Arm, span: Span) -> float | None:
        return next_load(readings(self.trials, arm.name), span)

    def _router(self) -> PointRouter:
        name = self.experiment.capacity_reference().router
        routers = self.experiment.points()[0].routers
        found = next(router for router in routers if name in (router.name, router.group))
        return replace(found, pattern=PLAIN, work=NO_WORK)  # 1x is that of ordinary frames

    def _task(self, arm: Arm, router: PointRouter, load_pps: float) -> Task:
        label = f"{router.group} alone, {format_pps(load_pps)}"
        done = sum(trial.purpose == "capacity" and trial.arm == arm.name for trial in self.trials)
        return Task(arm, Point(-1, label, (router,)), done, "capacity")


def expected(experiment: Experiment) -> int:
    """Return how many capacity trials a run is likely to take, for its progress."""
    return EXPECTED * len(experiment.arms_with_capacity)


def counted(experiment: Experiment, trials: Sequence[Trial]) -> int:
    """Return the capacity trials that are done, at most as many in each arm as are expected."""
    done = [trial.arm for trial in trials if trial.purpose == "capacity"]
    return sum(min(EXPECTED, done.count(arm.name)) for arm in experiment.arms_with_capacity)

"""Carries out single trials of a search, and keeps each at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from isolane.errors import MeasurementError
from isolane.results.error_budget import ErrorBudget
from isolane.results.folder import RunFolder
from isolane.results.priming import Priming
from isolane.results.quality_models import CoreProbe
from isolane.results.results import Purpose
from isolane.run.schedule import Task
from isolane.run.search.subjects import Subject
from isolane.run.trial_record import Attempt
from isolane.spec import Experiment, Point, format_pps
from isolane.spec.demands import Demand
from isolane.trials.backend import Bench, Observation, Probing, Setting


@dataclass
class TrialMaker:
    """Carries out trials for all subjects of a search.

    Parameters
    ----------
    experiment
        Says how long each trial warms up.
    folder
        Gets each trial.
    date
        When a trial begins, Unix time in s.
    """

    experiment: Experiment
    folder: RunFolder
    date: Callable[[], float]
    probes: list[tuple[CoreProbe, ...]] = field(default_factory=list)
    """By trial: the DUT's cores just before, where they are probed."""
    _done: int = 0

    def trial(
        self,
        bench: Bench,
        subject: Subject,
        load_pps: float,
        window_ns: int,
        purpose: Purpose = "search",
        priming: Priming | None = None,
    ) -> tuple[Observation, str | None]:
        """Carry out one trial and keep it.

        Parameters
        ----------
        bench
            The subject's device under test.
        subject
            Which routers are loaded, with equal shares.
        load_pps
            Offered load of all of them, frames/s.
        window_ns
            Measuring window, ns.
        purpose
            What it is for.
        priming
            What is offered before the warm-up; None: nothing.

        Returns
        -------
        observation
            What was observed.
        reason
            Why it gives no verdict; None if it does.

        Raises
        ------
        MeasurementError
            If the trial fails, or cannot be kept.
        """
        plan = self.experiment.trial
        share, arm = load_pps / len(subject.routers), subject.arm
        demands = tuple(Demand(router, share, None) for router in subject.routers)
        label = f"search/{arm.name}/{subject.label}/{self._done}"
        primed_ns = priming.duration_ns if priming else 0
        setting = Setting(
            demands, primed_ns + plan.warmup_ns, window_ns, label, ErrorBudget(plan.threshold),
            priming=priming,
        )  # fmt: skip
        point = Point(-1, f"{subject.label}, {format_pps(load_pps)}", subject.routers)
        task, started = Task(arm, point, self._done, purpose), self.date()
        observation: Observation | None = None
        failure: str | None = None
        probed: tuple[CoreProbe, ...] = ()
        try:
            if isinstance(bench, Probing):
                probed = bench.probe()
                self.probes.append(probed)
            observation = bench.trial(setting)
        except MeasurementError as error:
            failure = str(error)
        attempt = Attempt(
            self._done, task, started, window_ns, observation, failure, probed, priming
        )
        self._done += 1
        self.folder.append_trial(attempt.trial())
        if observation is None:
            raise MeasurementError(failure or "the trial failed")
        return observation, None if attempt.status == "ok" else attempt.reason

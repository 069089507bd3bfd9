"""A run: it measures the capacity, then does all rounds; each result goes to disk at once."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

from isolane.analysis import generator_maximum
from isolane.analysis.arm_profiles import with_profiles
from isolane.analysis.attempts import Attempts, Key, key_of
from isolane.analysis.first_findings import first_findings, is_told
from isolane.analysis.null_dut import PURPOSE
from isolane.analysis.summary import summarise
from isolane.analysis.work_effects import with_work_effect
from isolane.errors import MeasurementError
from isolane.results.folder import RunFolder
from isolane.results.quality_models import CoreProbe
from isolane.results.results import (
    Capacity,
    Drawing,
    NotMeasured,
    Summary,
    Trial,
)
from isolane.run import generator_search
from isolane.run.capacity_trials import CapacityTrials, counted, expected
from isolane.run.null_blocks import null_blocks
from isolane.run.rounds_in_time import RoundsInTime
from isolane.run.schedule import Block, Task, blocks
from isolane.run.trial_record import Attempt
from isolane.run.trial_setting import setting_of
from isolane.spec import Arm, Experiment
from isolane.spec.demands import Demand, Scale, demands_of, highest_pps
from isolane.trials.backend import (
    BackEnd,
    Bench,
    Expected,
    Foreseeing,
    Observation,
    Probing,
    Setting,
    WithGenerator,
    WithNullDut,
)

GIVE_UP_AFTER = 3
"""Failed trials in a row after which the run ends: the next would fail as well."""

log = logging.getLogger("isolane.run")


@dataclass(frozen=True)
class Step:
    """How far the run is, for a progress bar."""

    done: int
    total: int
    label: str
    news: str | None = None
    """What the rounds so far have shown, once after some of them."""


@dataclass
class Run:
    """One run of an experiment into a folder.

    Parameters
    ----------
    experiment
        The experiment to run.
    back_end
        Carries out the trials.
    folder
        The run folder; trials that it holds already are not done again.
    watch
        Called at every step.
    """

    experiment: Experiment
    back_end: BackEnd
    folder: RunFolder
    watch: Callable[[Step], None] = lambda _step: None
    clock: Callable[[], float] = time.time
    """When a trial began, Unix time in s; a simulation writes the same bytes every time."""
    capacity: Capacity | None = None
    """What 1x is, where it is given; else it is measured if a load needs it."""
    invocations: int = 1
    """How often all rounds are done: each time is an invocation."""
    in_time: RoundsInTime | None = None
    """Says how many rounds there are, in place of the experiment's repeats; one invocation only."""
    _trials: list[Trial] = field(default_factory=list)
    _drawings: dict[str, Drawing] = field(default_factory=dict)
    _described: set[str] = field(default_factory=set)
    _limits: list[NotMeasured] = field(default_factory=list)
    _capacity: Capacity | None = None
    _peak_pps: float = 0.0
    """Highest offered load of all points and arms, frames/s; 0 before it is known."""
    _failed_in_a_row: int = 0
    _next: int = 0

    def __post_init__(self) -> None:
        # A simulated trial would come out the same again.
        retries = 0 if self.folder.host().simulated else self.experiment.trial.retries
        self._attempts = Attempts(retries, len(self.experiment.points()))

    def execute(self) -> Summary:
        """Do the remaining trials; the summary is written however the run ends.

        Raises
        ------
        MeasurementError
            If the capacity cannot be measured, results cannot be kept, or trials keep failing.
        """
        started = time.time()
        earlier_trials = self.folder.trials()
        self._next = max((trial.trial for trial in earlier_trials), default=-1) + 1
        self._trials = [t for t in earlier_trials if t.status != "failed"]
        self._attempts.add(self._trials)
        earlier = self.folder.summary()
        if earlier:
            started = earlier.started_unix_s
            self._drawings = {drawing.arm: drawing for drawing in earlier.drawings}
            self._limits = list(earlier.told_by_beds)
        try:
            if self.capacity is not None:
                self._capacity = self.capacity
            elif self.experiment.needs_capacity:
                self._measure_capacity()
            self._measure_generator()
            self._peak_pps = highest_pps(self.experiment, self._scale())
            self._measure_null_dut()
            self._measure()
        except BaseException:
            with contextlib.suppress(MeasurementError):
                self._forget_what_was_not_kept(earlier_trials)
                self._keep(self._summarise(started, complete=False))
            raise
        summary = self._summarise(started, complete=True)
        self._keep(summary)
        return summary

    def _forget_what_was_not_kept(self, earlier: Sequence[Trial]) -> None:
        """Go by the disk: a signal may have come just before a trial was written, or just after."""
        before = {trial.trial for trial in earlier if trial.status == "failed"}
        self._trials = [trial for trial in self.folder.trials() if trial.trial not in before]

    def _keep(self, summary: Summary) -> None:
        """Write the summary; a full disk must not hide what ended the run."""
        try:
            self.folder.write_summary(summary)
            self.folder.write_parquet()
        except MeasurementError as error:
            log.error("the summary could not be written: %s", error)  # noqa: TRY400 - one line
            raise

    def _summarise(self, started: float, *, complete: bool) -> Summary:
        order = [arm.name for arm in self.experiment.resolved_arms()]
        drawings = [self._drawings[name] for name in order if name in self._drawings]
        summary = summarise(
            self.experiment,
            self._trials,
            drawings,
            started,
            time.time(),
            complete,
            capacity=self._capacity,
            not_measured=(told := tuple(dict.fromkeys(self._limits))),
            simulated=self.folder.host().simulated,
        )
        summary = with_profiles(summary, self._trials, self.folder.profiles())
        summary = summary.model_copy(update={"told_by_beds": told})
        return with_work_effect(summary, self.experiment, self._trials, self.folder.series)

    @cached_property
    def _total(self) -> int:
        measured_here = self.experiment.needs_capacity and self.capacity is None
        capacity = expected(self.experiment) if measured_here else 0
        wired = self.experiment.trial.null_dut and isinstance(self.back_end, WithNullDut)
        wires = sum(len(b.tasks) for b in null_blocks(self.experiment, set())) if wired else 0
        return capacity + wires + sum(len(block.tasks) for block in self._blocks(lambda _key: True))

    def _tell(self, label: str, news: str | None = None) -> None:
        trials = [t for t in self._trials if t.status != "failed"]
        ahead = ("capacity", generator_maximum.PURPOSE)
        done = len({key_of(trial) for trial in trials if trial.purpose not in ahead})
        known = self._capacity is not None and self.capacity is None
        done += expected(self.experiment) if known else counted(self.experiment, trials)
        self.watch(Step(min(done, self._total), self._total, label, news))

    def _measure_capacity(self) -> None:
        """Measure what 1x is, and the capacity of every arm."""

        def one(bench: Bench, task: Task, demand: Demand) -> None:
            self._one(bench, task, (demand,))

        trials = CapacityTrials(self.experiment, self.back_end, self._trials, one, self._tell)
        self._capacity = trials.execute()

    def _measure_generator(self) -> None:
        """Learn what can be sent, so that no point asks for more."""
        if not isinstance(self.back_end, WithGenerator):
            return
        if not generator_search.is_needed(self.experiment, self._capacity):
            return
        first_pps = self.back_end.flood_pps()
        routers = generator_search.heaviest(self.experiment, self._capacity).routers
        for arm in self.experiment.resolved_arms():
            if self._next_flood(arm) is None:
                continue
            with self.back_end.bench(arm, routers) as bench:
                while task := self._next_flood(arm):
                    self._tell(f"what can be sent on {arm.name}")
                    demands = generator_search.next_demands(
                        self.experiment, arm, self._trials, self._capacity, first_pps
                    )
                    self._one(bench, task, demands)
                    if self._trials[-1].status == "failed":
                        raise MeasurementError(
                            f"what can be sent on {arm.name} could not be measured: "
                            f"{self._trials[-1].reason}"
                        )

    def _next_flood(self, arm: Arm) -> Task | None:
        return generator_search.next_task(self.experiment, arm, self._trials, self._capacity)

    def _measure_null_dut(self) -> None:
        """Measure each point once with the wire alone, where the back end can."""
        if not self.experiment.trial.null_dut or not isinstance(self.back_end, WithNullDut):
            return
        done = {trial.point for trial in self._trials if trial.purpose == PURPOSE}
        for block in null_blocks(self.experiment, done):
            with self.back_end.null_dut(block.arm, block.routers) as bench:
                for task in block.tasks:
                    self._tell(f"{task.arm.name}, {task.point.label}")
                    self._one(bench, task, self._demands(task))
                    if self._trials[-1].status == "failed":
                        break

    def _measure(self) -> None:
        if self.in_time is not None:
            is_left = any(self._blocks(self._attempts.open))
            self._change(self.in_time.begin_rounds(self.experiment, is_left=is_left))
        while self._rounds():
            pass

    def _rounds(self) -> bool:
        """Do the rounds that are left; True if there are to be more, or fewer, after one."""
        todo = list(self._blocks(self._attempts.open))
        if isinstance(self.back_end, Foreseeing):
            self.back_end.foresee(
                [
                    Expected(block.arm, block.routers, self._setting(task))
                    for block in todo
                    for task in block.tasks
                ]
            )
        for repeat, own in groupby(todo, key=lambda block: block.tasks[0].repeat):
            for block in own:
                self._block(block)
            # Where a trial of an early round is made again, later ones are done already.
            measured = (trial.repeat for trial in self._trials if trial.purpose == "measure")
            rounds = 1 + max([repeat, *measured])
            if self._fit_into_time(rounds):
                return True
            self._tell_findings(rounds)
        return False

    def _fit_into_time(self, rounds: int) -> bool:
        """Tell whether the number of rounds was changed."""
        fitting = self.in_time.fitting(self.experiment, rounds) if self.in_time else None
        if fitting is None:
            return False
        self._change(fitting)
        self._tell_findings(rounds)
        return True

    def _change(self, experiment: Experiment) -> None:
        """Go on with another number of rounds; it is kept for a resumed run."""
        if experiment is not self.experiment:
            self.experiment = experiment
            self.folder.keep_options({**self.folder.options(), "repeats": experiment.trial.repeats})
            self.__dict__.pop("_total", None)

    def _tell_findings(self, rounds: int) -> None:
        every = self.experiment.trial.repeats * self.invocations
        if rounds == every or not is_told(rounds):
            return  # after the last round comes the answer
        arms = [arm.name for arm in self.experiment.resolved_arms()]
        found = first_findings(self._trials, arms, rounds, every)
        if found is not None:
            self._tell(f"round {rounds} is done", found)

    def _blocks(self, is_open: Callable[[Key], bool]) -> Iterator[Block]:
        return blocks(self.experiment, is_open, self.invocations)

    def _setting(self, task: Task, demands: tuple[Demand, ...] | None = None) -> Setting:
        asked = self._demands(task) if demands is None else demands
        return setting_of(self.experiment.trial, task, asked, self._peak_pps)

    def _block(self, block: Block) -> None:
        """Do a block's trials; after a failed one the bench is built anew for the rest."""
        left: Sequence[Task] = block.tasks
        while left:
            with self.back_end.bench(block.arm, block.routers) as bench:
                self._draw(bench, block.arm.name)
                while left:
                    task, left = left[0], left[1:]
                    self._try(bench, task)
                    if self._trials[-1].status == "failed":
                        break
            if self._failed_in_a_row >= GIVE_UP_AFTER:
                raise MeasurementError(
                    f"{GIVE_UP_AFTER} trials failed in a row, the last one because: "
                    f"{self._trials[-1].reason}"
                )

    def _try(self, bench: Bench, task: Task) -> None:
        """Do a trial; repeat it at once while it is invalid, as often as in any other arm."""
        while self._attempts.open(task.key):
            self._tell(f"{task.arm.name}, {task.point.label}")
            self._one(bench, task, self._demands(task))
            if self._trials[-1].status == "failed":
                return

    def _draw(self, bench: Bench, arm: str) -> None:
        """Keep the largest set-up of each arm, and what its interfaces are."""
        if arm not in self._described:
            self._described.add(arm)
            self.folder.add_nics(bench.nics())
            self._limits.extend(bench.limits())
        drawing, known = bench.drawing(), self._drawings.get(arm)
        if known is None or len(known.nodes) < len(drawing.nodes):
            self._drawings[arm] = drawing

    def _demands(self, task: Task) -> tuple[Demand, ...]:
        return demands_of(self.experiment, task.point, self._scale(), task.arm.name)

    def _scale(self) -> Scale:
        return generator_maximum.scale_of(self.experiment, self._trials, self._capacity)

    def _one(self, bench: Bench, task: Task, demands: tuple[Demand, ...]) -> None:
        """Carry out a trial and keep its result, good or bad."""
        setting = self._setting(task, demands)
        started = self.clock()
        observation: Observation | None = None
        reason: str | None = None
        probed: tuple[CoreProbe, ...] = ()
        try:
            if isinstance(bench, Probing):
                probed = bench.probe()
            observation = bench.trial(setting)
        except MeasurementError as error:
            reason = str(error)
        attempt = Attempt(
            self._next,
            task,
            started,
            setting.window_ns,
            observation,
            reason,
            probed,
            repeatable=task.purpose == "measure" and self._attempts.may_repeat(task.key),
        )
        trial = attempt.trial(self._attempts.made(task.key))
        self._failed_in_a_row = self._failed_in_a_row + 1 if trial.status == "failed" else 0
        self._next += 1
        self._trials.append(trial)
        self._attempts.add([trial])
        if observation and observation.series:
            numbered = observation.series.model_copy(update={"trial": trial.trial})
            self.folder.append_series(numbered)
        if observation and observation.profile and trial.purpose == "measure":
            profile = observation.profile.model_copy(update={"trial": trial.trial})
            self.folder.append_profile(profile)
        if setting.capture:
            self.folder.write_capture(trial.trial, observation.capture if observation else None)
        self.folder.append_trial(trial)
        log.info(
            "trial %d: %s, %s, round %d: %s%s",
            trial.trial,
            trial.arm,
            trial.point_label,
            trial.repeat + 1,
            trial.status,
            f" ({trial.reason})" if trial.reason else "",
        )

"""``isolane run``: carries out an experiment."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from isolane.cli import run_options as opt
from isolane.cli import signals
from isolane.cli.objective_lines import judge_objectives
from isolane.cli.progress import progress
from isolane.cli.run_options import On
from isolane.cli.run_output import Shown, present
from isolane.cli.runlog import logged, resumable

if TYPE_CHECKING:
    from pydantic import BaseModel

    from isolane.results.folder import RunFolder
    from isolane.results.results import Capacity, HostFacts, Summary
    from isolane.run.runner import Step
    from isolane.spec import Experiment

EPILOG = """Examples:

\b
  isolane run experiments/noisy-neighbour.yaml
  isolane run experiments/papers/rathore2013/scenario1.yaml --output runs/scenario1
  isolane run EXPERIMENT.yaml --time-limit 5min        as many repeats as fit
  isolane run EXPERIMENT.yaml --arms direct,bridge     leaves the others out
  isolane run --resume runs/scenario1          finishes an interrupted run
  isolane run EXPERIMENT.yaml --dry-run        checks everything, sends nothing
  isolane run EXPERIMENT.yaml --on sim         simulates it, without root
  isolane run EXPERIMENT.yaml --cpu-profile 99 --details    what CPU time is spent on
  isolane run EXPERIMENT.yaml --json | jq .verdict
"""


Watch = Callable[["Step"], None]


def command(
    experiment: opt.Experiment = None,
    output: opt.Output = None,
    resume: opt.Resume = None,
    arms: opt.Arms = None,
    repeats: opt.Repeats = None,
    time_limit: opt.Limit = None,
    invocations: opt.Invocations = None,
    dry_run: opt.DryRun = False,
    json: opt.Json = False,
    on: opt.Where = None,
    profile: opt.Profile = None,
    capacity_from: opt.CapacityFrom = None,
    details: opt.Details = False,
    cpu_profile: opt.CpuProfile = None,
) -> None:
    """Measure an experiment on this host, or simulate it.

    Use it to see what one overloaded router does to the others. The command builds a test bed out
    of network namespaces, sends real frames through its routers, and prints what it found: a row
    for each arm, the best first, and what to do. Everything else is in the report, an HTML page in
    the run folder, or printed with --details. It checks everything before the first frame, and
    leaves the host as it was. Each trial is stored as soon as it ends: after an interruption
    --resume measures the rest. Needs root, except with --on sim.
    """
    from isolane.spec import load_experiment

    folder, source = _source(experiment, resume)
    given, kept = load_experiment(source), _kept(folder)
    given = given if arms is None else _reduced(given, arms, resumed=folder is not None)
    sampled = _number(kept.get("cpu_profile")) if cpu_profile is None else cpu_profile
    spec = _changed(given, repeats or _number(kept.get("repeats")), sampled)
    target = folder or output or Path("runs") / f"{spec.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    capacity = _capacity(capacity_from, given, folder)
    several = invocations or _number(kept.get("invocations")) or 1
    resumed = folder is not None
    where = on or On(str(kept.get("on", On.LIVE)))
    limit_s = _limit_s(time_limit, repeats, several, where)
    plan = _Plan(spec, source, target, resumed, dry_run, given, capacity, several, limit_s)
    if cpu_profile and where is On.SIM:
        message = "--cpu-profile samples real cores; leave out --on sim"
        raise typer.BadParameter(message)
    if where is On.SIM:
        summary = _simulate(plan, _text(kept.get("profile")) if profile is None else profile)
    elif profile is not None:
        message = "--profile names the profile of a simulated host; add --on sim"
        raise typer.BadParameter(message)
    else:
        summary = _measure(plan)
    if summary is None:
        host = "this host" if where is On.LIVE else "a simulated host"
        typer.echo(f"{source}: the experiment is valid and {host} can run it", err=True)
        return
    present(summary, target, Shown(json, details))
    if summary.trials_failed:
        raise typer.Exit(1)
    judge_objectives(summary.objectives)


def _limit_s(text: str | None, repeats: int | None, invocations: int, where: On) -> float | None:
    """Return the time limit in s; refuse it beside options that say how much is done, too."""
    from isolane.spec import parse_duration_within

    if text is None:
        return None
    others = {
        "--repeats": repeats is not None,
        "--invocations": invocations > 1,
        "--on sim (simulated time costs nothing, and its repeats must not depend on it)": where
        is On.SIM,
    }
    for name, given in others.items():
        if given:
            message = f"--time-limit cannot be used with {name}: give one of them"
            raise typer.BadParameter(message)
    return parse_duration_within("--time-limit", text, "1s", "24h") / 1e9


def _reduced(spec: Experiment, arms: str, *, resumed: bool) -> Experiment:
    """Return the experiment with these arms alone, which is what a run folder then keeps."""
    if resumed:
        message = "--arms belongs to the beginning of a run; --resume goes on with the same"
        raise typer.BadParameter(message)
    from isolane.spec import only_arms

    return only_arms(spec, [name.strip() for name in arms.split(",")])


def _changed(spec: Experiment, repeats: int | None, cpu_profile: int | None) -> Experiment:
    """Return the experiment with the repeats and the sampling of the command line, if any."""
    asked = {"repeats": repeats, "cpu_profile": cpu_profile}
    changes = {key: value for key, value in asked.items() if value is not None}
    trial = spec.trial.model_copy(update=changes)
    return spec.model_copy(update={"trial": trial}) if changes else spec


def _source(experiment: Path | None, resume: Path | None) -> tuple[Path | None, Path]:
    if (experiment is None) == (resume is None):
        message = "give either an EXPERIMENT file or --resume DIR"
        raise typer.BadParameter(message)
    if resume is None:
        assert experiment is not None
        return None, experiment
    from isolane.results.folder import EXPERIMENT, RunFolder

    RunFolder.open(resume)
    return resume, resume / EXPERIMENT


def _kept(folder: Path | None) -> dict[str, int | str]:
    """Return the options that a resumed run was started with; none for a new run."""
    if folder is None:
        return {}
    from isolane.results.folder import RunFolder

    return RunFolder.open(folder).options()


def _capacity(text: str | None, spec: Experiment, folder: Path | None) -> Capacity | None:
    """Return the capacity (1x) that was given on the command line, now or when the run began."""
    if text is None and folder is None:
        return None  # and nothing to import: a dry run answers at once
    from isolane.analysis.capacity import given_capacity, kept_capacity
    from isolane.results.folder import RunFolder

    if text is not None:
        return given_capacity(text, spec)
    return None if folder is None else kept_capacity(RunFolder.open(folder))


def _number(value: int | str | None) -> int | None:
    return value if isinstance(value, int) else None


def _text(value: int | str | None) -> str | None:
    return value if isinstance(value, str) else None


@dataclass(frozen=True)
class _Plan:
    """What to run, from which file, and where the results go."""

    spec: Experiment
    source: Path
    target: Path
    resumed: bool
    dry_run: bool
    given: Experiment
    """The experiment of the file, without changes by the command line."""
    capacity: Capacity | None
    """The given capacity, which 1x stands for; None: measured."""
    invocations: int
    limit_s: float | None
    """Time for the whole run; None: as many rounds as the experiment says."""

    def _text(self) -> bytes:
        """Return the experiment file that the run folder keeps: the user's own, if it is whole."""
        from isolane.spec import load_experiment

        whole = self.given == load_experiment(self.source)
        return self.source.read_bytes() if whole else self.given.to_yaml().encode()

    def settings(
        self, host: HostFacts, on: On, simulated: Mapping[str, BaseModel]
    ) -> dict[str, str]:
        """Return all settings that the trials depend on; a resumed run must have the same."""
        from isolane.results.resume import settings_of

        options = {"--on": on.value}
        if self.spec.trial.cpu_profile != self.given.trial.cpu_profile:
            options["--cpu-profile"] = str(self.spec.trial.cpu_profile)
        if self.capacity is not None:
            options["--capacity-from"] = f"{self.capacity.pps.median:g}pps"
        return settings_of(self.given, host, options, simulated)

    def refuse_changes(self, settings: Mapping[str, str]) -> None:
        """Refuse to continue a run whose trials were made with other settings."""
        from isolane.results.folder import RunFolder
        from isolane.results.resume import refuse_changes

        repeats = self.spec.trial.repeats
        refuse_changes(RunFolder.open(self.target), settings, repeats, self.invocations)

    def folder(
        self, host: HostFacts, settings: Mapping[str, str], **options: int | str
    ) -> RunFolder:
        """Open or make the run folder; options are kept for a resumed run."""
        from isolane.analysis.capacity import KEPT
        from isolane.results.folder import RunFolder

        if self.capacity is not None:
            options[KEPT] = self.capacity.model_dump_json()
        kept = {
            "repeats": self.spec.trial.repeats,
            "invocations": self.invocations,
            "cpu_profile": self.spec.trial.cpu_profile,
            **options,
        }
        if self.resumed:
            found = RunFolder.open(self.target)
            found.keep_options(kept)
            return found
        with _whole(self.target):
            found = RunFolder.create(self.target, self._text(), host, settings)
            found.keep_options(kept)
        return found


@contextmanager
def _whole(target: Path) -> Iterator[None]:
    """Remove a half-written run folder, which could neither be resumed nor written again."""
    from isolane.errors import MeasurementError

    try:
        before = set(target.iterdir()) if target.is_dir() else None
    except OSError as error:
        raise MeasurementError(f"{target}: cannot be written: {error.strerror}") from error
    try:
        yield
    except MeasurementError:
        with suppress(OSError):
            for file in set(target.iterdir()) - (before or set()):
                file.unlink()
            if before is None:
                target.rmdir()
        raise


def _measure(plan: _Plan) -> Summary | None:
    """Run live, with the exclusive right to change the host; None for a dry run."""
    from isolane.cli.rights import need_root
    from isolane.run.rounds_in_time import RoundsInTime
    from isolane.testbed import clean, exclusive
    from isolane.trials.limits import refuse_beyond
    from isolane.trials.live.host_check import check_host, refuse_simulated

    refuse_simulated(plan.spec)
    refuse_beyond(plan.source, plan.spec, plan.capacity)
    need_root(
        "a live run needs root (namespaces, BPF, thread settings)", ", or simulate it: --on sim"
    )
    in_time = RoundsInTime(plan.limit_s) if plan.limit_s is not None else None
    if plan.resumed:
        from isolane.trials.live.host import host_facts

        plan.refuse_changes(plan.settings(host_facts(), On.LIVE, {}))
    with exclusive() as journal:
        for left in clean():
            typer.echo(f"isolane: removed what a killed run left behind: {left}", err=True)
        check_host(plan.spec, plan.spec.resolved_arms(), sending=not plan.dry_run)
        if plan.dry_run:
            return None
        from isolane.run.runner import Run
        from isolane.trials.live.host import host_facts
        from isolane.trials.live.live_backend import LiveBackEnd

        host = host_facts()
        folder = plan.folder(host, plan.settings(host, On.LIVE, {}))
        with (
            closing(LiveBackEnd(plan.spec, journal)) as back_end,
            resumable(folder),
            logged(folder),
            _progress() as watch,
        ):
            return Run(
                plan.spec,
                back_end,
                folder,
                watch,
                capacity=plan.capacity,
                invocations=plan.invocations,
                in_time=in_time,
            ).execute()


def _simulate(plan: _Plan, profile: str | None) -> Summary | None:
    """Run on a simulated host; None for a dry run."""
    from isolane.trials.limits import refuse_beyond
    from isolane.trials.sim.sim_backend import SimBackEnd

    with closing(SimBackEnd(plan.spec, profile)) as back_end:
        refuse_beyond(plan.source, plan.spec, plan.capacity, back_end.sim_host.profile)
        back_end.check(plan.spec.resolved_arms())
        settings = plan.settings(back_end.host(), On.SIM, back_end.made_of())
        if plan.resumed:
            plan.refuse_changes(settings)
        if plan.dry_run:
            return None
        from isolane.run.runner import Run

        kept = {"on": "sim"} if profile is None else {"on": "sim", "profile": profile}
        folder = plan.folder(back_end.host(), settings, **kept)
        with resumable(folder), logged(folder), _progress() as watch:
            # A simulated trial has no date, so that the same seed gives the same bytes.
            run = Run(
                plan.spec,
                back_end,
                folder,
                watch,
                lambda: 0.0,
                plan.capacity,
                plan.invocations,
            )
            return run.execute()


@contextmanager
def _progress() -> Iterator[Watch]:
    with progress("trials") as tell:

        def watch(step: Step) -> None:
            signals.heed()
            tell(step.done, step.total, step.label)
            if step.news is not None:  # a bar moves down for it
                print(f"isolane: {step.news}", file=sys.stderr)

        yield watch

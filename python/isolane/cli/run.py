"""``isolane run``: carries out an experiment."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isolane.cli.progress import by_tenths

if TYPE_CHECKING:
    from isolane.run.folder import RunFolder
    from isolane.run.results import HostFacts, Summary
    from isolane.run.runner import Step
    from isolane.spec import Experiment

EPILOG = """Examples:

\b
  isolane run experiments/noisy-neighbour.yaml
  isolane run experiments/papers/rathore2013/scenario1.yaml --output runs/scenario1
  isolane run --resume runs/scenario1          goes on with what an interruption left
  isolane run EXPERIMENT.yaml --dry-run        checks everything, sends nothing
  isolane run EXPERIMENT.yaml --on sim         predicts it on a simulated host, without root
  isolane run EXPERIMENT.yaml --json | jq .verdict
"""


class On(StrEnum):
    """Where trials are carried out."""

    LIVE = "live"
    SIM = "sim"


Watch = Callable[["Step"], None]


def command(
    experiment: Annotated[
        Path | None,
        typer.Argument(metavar="EXPERIMENT", help="An experiment file; see `isolane schema`."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Run folder; default runs/NAME-TIME."),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option("--resume", metavar="DIR", help="Go on with the run in this folder."),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option("--repeats", min=1, max=1000, help="Trials of each point, not the file's."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the experiment and this host, then stop.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON instead of the table.")
    ] = False,
    on: Annotated[
        On | None, typer.Option("--on", help="Real frames here, or a simulated host.")
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option("--profile", metavar="NAME|FILE", help="The simulated host's profile."),
    ] = None,
) -> None:
    """Measure what an experiment file says, or predict it.

    Checks everything before the first frame. Each trial's result is on disk as soon as the trial
    ends; after an interruption --resume goes on. Needs root, except with --on sim. Leaves the
    host as it was.
    """
    from isolane.spec import load_experiment

    folder, source = _source(experiment, resume)
    spec = load_experiment(source)
    kept = _kept(folder)
    repeats = repeats or _number(kept.get("repeats"))
    if repeats is not None:
        trial = spec.trial.model_copy(update={"repeats": repeats})
        spec = spec.model_copy(update={"trial": trial})
    target = folder or output or Path("runs") / f"{spec.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    plan = _Plan(spec, source, target, resumed=folder is not None, dry_run=dry_run)
    where = on or On(str(kept.get("on", On.LIVE)))
    if where is On.SIM:
        summary = _simulate(plan, _text(kept.get("profile")) if profile is None else profile)
    elif profile is not None:
        message = "--profile is about a simulated host: it needs --on sim"
        raise typer.BadParameter(message)
    else:
        summary = _measure(plan)
    if summary is None:
        host = "this host" if where is On.LIVE else "a simulated host"
        typer.echo(f"{source}: the experiment is valid and {host} can run it", err=True)
        return
    _present(summary, target, json=json)
    if summary.trials_failed:
        raise typer.Exit(1)


def _source(experiment: Path | None, resume: Path | None) -> tuple[Path | None, Path]:
    if (experiment is None) == (resume is None):
        message = "name either an EXPERIMENT file or --resume DIR"
        raise typer.BadParameter(message)
    if resume is None:
        assert experiment is not None
        return None, experiment
    from isolane.run.folder import EXPERIMENT, RunFolder

    RunFolder.open(resume)
    return resume, resume / EXPERIMENT


def _kept(folder: Path | None) -> dict[str, int | str]:
    """Return the options that a run to be resumed was started with; none for a new run."""
    if folder is None:
        return {}
    from isolane.run.folder import RunFolder

    return RunFolder.open(folder).options()


def _number(value: int | str | None) -> int | None:
    return value if isinstance(value, int) else None


def _text(value: int | str | None) -> str | None:
    return value if isinstance(value, str) else None


@dataclass(frozen=True)
class _Plan:
    """What is to be run, from which file, and where its results go."""

    spec: Experiment
    source: Path
    target: Path
    resumed: bool
    dry_run: bool

    def folder(self, host: HostFacts, **options: int | str) -> RunFolder:
        """Open or make the run folder; options are kept for a resumed run."""
        from isolane.run.folder import RunFolder

        found = (
            RunFolder.open(self.target)
            if self.resumed
            else RunFolder.create(self.target, self.source.read_bytes(), host)
        )
        found.keep_options({"repeats": self.spec.trial.repeats, **options})
        return found


def _measure(plan: _Plan) -> Summary | None:
    """Run live, with the exclusive right to change the host; None for a dry run."""
    from isolane.errors import NotSupported
    from isolane.run.live import LiveBackEnd
    from isolane.run.live.backend import refuse_simulated
    from isolane.run.runner import Run
    from isolane.testbed import clean, exclusive

    refuse_simulated(plan.spec)
    if os.geteuid() != 0:
        raise NotSupported(
            "not supported on this host: a live run needs root (namespaces, BPF, thread settings); "
            "run it with sudo, or predict it with --on sim"
        )
    with exclusive() as journal:
        for left in clean():
            typer.echo(f"isolane: removed what an earlier run left: {left}", err=True)
        back_end = LiveBackEnd(plan.spec, journal)
        back_end.check(plan.spec.resolved_arms())
        if plan.dry_run:
            return None
        folder = plan.folder(back_end.host())
        with _logging(folder), _progress() as watch:
            return Run(plan.spec, back_end, folder, watch).execute()


def _simulate(plan: _Plan, profile: str | None) -> Summary | None:
    """Run on a simulated host; None for a dry run."""
    from isolane.run.runner import Run
    from isolane.run.sim import SimBackEnd

    with closing(SimBackEnd(plan.spec, profile)) as back_end:
        back_end.check(plan.spec.resolved_arms())
        if plan.dry_run:
            return None
        kept = {"on": "sim"} if profile is None else {"on": "sim", "profile": profile}
        folder = plan.folder(back_end.host(), **kept)
        with _logging(folder), _progress() as watch:
            # A simulated trial has no date: the same seed gives the same bytes.
            return Run(plan.spec, back_end, folder, watch, clock=lambda: 0.0).execute()


@contextmanager
def _logging(folder: RunFolder) -> Iterator[None]:
    from isolane.run.folder import LOG

    handler = logging.FileHandler(folder.path / LOG)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("isolane")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()


@contextmanager
def _progress() -> Iterator[Watch]:
    """Show a bar with the time left on a terminal, a line per tenth elsewhere."""
    if not sys.stderr.isatty():
        tell = by_tenths("trials")
        yield lambda step: tell(step.done, step.total)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("starting", total=None)

        def watch(step: Step) -> None:
            progress.update(bar, total=step.total, completed=step.done, description=step.label)

        yield watch


def _present(summary: Summary, target: Path, *, json: bool) -> None:
    from isolane.report import render

    report = render(target, "html", None)
    if json:
        typer.echo(summary.model_dump_json(indent=2))
        typer.echo(f"report: {report}", err=True)
        return
    from isolane.cli.table import print_summary

    print_summary(summary)
    typer.echo(f"\nreport: {report}")

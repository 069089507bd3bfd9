"""``isolane run``: carries out an experiment."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from isolane.run.folder import RunFolder
    from isolane.run.results import Summary
    from isolane.run.runner import Step
    from isolane.spec import Experiment

EPILOG = """Examples:

\b
  isolane run experiments/noisy-neighbour.yaml
  isolane run experiments/papers/rathore2013/scenario1.yaml --output runs/scenario1
  isolane run --resume runs/scenario1          goes on with what an interruption left
  isolane run EXPERIMENT.yaml --dry-run        checks everything, sends nothing
  isolane run EXPERIMENT.yaml --json | jq .verdict
"""

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
) -> None:
    """Measure what an experiment file says, with real frames.

    Checks everything before the first frame. Each trial's result is on disk as soon as the trial
    ends; after an interruption --resume goes on. Needs root. Leaves the host as it was.
    """
    from isolane.spec import load_experiment

    folder, source = _source(experiment, resume)
    spec = load_experiment(source)
    repeats = repeats or _kept_repeats(folder)
    if repeats is not None:
        trial = spec.trial.model_copy(update={"repeats": repeats})
        spec = spec.model_copy(update={"trial": trial})
    target = folder or output or Path("runs") / f"{spec.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    summary = _execute(spec, source, target, resumed=folder is not None, dry_run=dry_run)
    if summary is None:
        typer.echo(f"{source}: the experiment is valid and this host can run it", err=True)
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


def _kept_repeats(folder: Path | None) -> int | None:
    """Return the repeats that a run to be resumed was started with; None for a new run."""
    if folder is None:
        return None
    from isolane.run.folder import RunFolder

    return RunFolder.open(folder).options().get("repeats")


def _execute(
    spec: Experiment, source: Path, target: Path, *, resumed: bool, dry_run: bool
) -> Summary | None:
    """Run, with the exclusive right to change the host; None for a dry run."""
    from isolane.errors import NotSupported
    from isolane.run.folder import RunFolder
    from isolane.run.live import LiveBackEnd
    from isolane.run.runner import Run
    from isolane.testbed import clean, exclusive

    if os.geteuid() != 0:
        raise NotSupported(
            "not supported on this host: a live run needs root (namespaces, BPF, thread settings); "
            "run it with sudo"
        )
    with exclusive() as journal:
        for left in clean():
            typer.echo(f"isolane: removed what an earlier run left: {left}", err=True)
        back_end = LiveBackEnd(spec, journal)
        back_end.check(spec.resolved_arms())
        if dry_run:
            return None
        folder = (
            RunFolder.open(target)
            if resumed
            else RunFolder.create(target, source.read_bytes(), back_end.host())
        )
        folder.keep_options({"repeats": spec.trial.repeats})
        with _logging(folder), _progress() as watch:
            return Run(spec, back_end, folder, watch).execute()


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
        yield _plain_progress()
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


def _plain_progress() -> Watch:
    started = time.monotonic()
    told = -1

    def watch(step: Step) -> None:
        nonlocal told
        tenth = 10 * step.done // max(1, step.total)
        if tenth == told:
            return
        told = tenth
        spent = time.monotonic() - started
        left = (
            f", about {spent / step.done * (step.total - step.done):.0f} s left"
            if step.done
            else ""
        )
        typer.echo(f"isolane: {step.done} of {step.total} trials{left}", err=True)

    return watch


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

"""What ``top`` commands share: a table, or a line of JSON, for each interval."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import typer

from isolane.cli import signals

if TYPE_CHECKING:
    from rich.console import RenderableType

S = TypeVar("S")


@dataclass(frozen=True)
class Form(Generic[S]):
    """How an interval is shown."""

    table: Callable[[S], RenderableType]
    data: Callable[[S], dict[str, Any]]


def ticks(interval_s: float) -> Iterator[float]:
    """Wait for one interval after the other; yields how long it was, s."""
    began = due = time.monotonic()
    while True:
        due = max(due + interval_s, time.monotonic())
        signals.pause(due - time.monotonic())
        now = time.monotonic()
        yield now - began
        began = now


def show(steps: Iterator[S], form: Form[S], *, once: bool, as_json: bool) -> None:
    """Show each interval: on a terminal in one table, else one below the other, or as JSON."""
    try:
        if as_json:
            _print_lines(steps, form)
        elif sys.stdout.isatty() and not once:
            _print_live(steps, form)
        else:
            _print_tables(steps, form)
    except KeyboardInterrupt:
        if once or not signals.by_ctrl_c():  # otherwise Ctrl-C is the normal end
            raise
        raise typer.Exit(0) from None


def _print_lines(steps: Iterator[S], form: Form[S]) -> None:
    from isolane.cli.enforcing import print_json

    for step in steps:
        print_json({"at": time.time(), **form.data(step)}, indent=None)


def _print_tables(steps: Iterator[S], form: Form[S]) -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = 160  # a file has no width: print whole cells
    for step in steps:
        console.print(form.table(step))
        sys.stdout.flush()


def _print_live(steps: Iterator[S], form: Form[S]) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False, markup=False)
    first = Text("measuring the first interval ...")
    with Live(first, console=console, auto_refresh=False, vertical_overflow="crop") as live:
        for step in steps:
            live.update(form.table(step), refresh=True)

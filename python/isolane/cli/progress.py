"""Progress of long work: a bar with the time left on a terminal, else a line for each tenth."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

Tell = Callable[[int, int, str], None]
"""Called with the number of things done, the number of all things, and what is being done."""


@contextmanager
def progress(things: str, *, by_part: bool = False) -> Iterator[Tell]:
    """Show progress on standard error while the work is done.

    Parameters
    ----------
    things
        Name of the things that are counted, such as ``trials``, for the lines; ``{label}`` stands
        for what is being done.
    by_part
        Count each label by itself and estimate the time left for it alone.
    """
    if not sys.stderr.isatty():
        yield lines(things, by_part=by_part)
        return
    from rich.console import Console

    with bar(Console(stderr=True), by_part=by_part) as tell:
        yield tell


class _Parts:
    """Notices when another part of the work begins, whose speed may differ."""

    def __init__(self, *, by_part: bool) -> None:
        self._by_part = by_part
        self._last: tuple[int, int, str] | None = None

    def begins(self, done: int, total: int, label: str) -> bool:
        last, self._last = self._last, (done, total, label)
        if last is None:
            return True
        return done < last[0] or total != last[1] or (self._by_part and label != last[2])


def lines(
    things: str, *, by_part: bool = False, clock: Callable[[], float] = time.monotonic
) -> Tell:
    """Return a function that prints a line for each new tenth, with the time left."""
    parts = _Parts(by_part=by_part)
    first, started, told = 0, clock(), -1

    def tell(done: int, total: int, label: str) -> None:
        nonlocal first, started, told
        fresh = told < 0
        if parts.begins(done, total, label):
            told = -1
            # The time since progress() was called belongs to what is done by the first call.
            first, started = (0, started) if fresh else (done, clock())
        tenth = 10 * done // max(1, total)
        if tenth == told:
            return
        told = tenth
        left = ""
        if done > first:
            seconds = (clock() - started) / (done - first) * (total - done)
            left = f", about {seconds:.0f} s left"
        what = things.format(label=label)
        print(f"isolane: {done} of {total} {what}{left}", file=sys.stderr)

    return tell


@contextmanager
def bar(console: Console, *, by_part: bool = False) -> Iterator[Tell]:
    """Draw a bar, and remove it at the end."""
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
    parts = _Parts(by_part=by_part)
    # A trial may take long: average the speed over an hour, not over rich's 30 s.
    with Progress(*columns, console=console, transient=True, speed_estimate_period=3600) as drawn:
        task = drawn.add_task("starting", total=None)

        def tell(done: int, total: int, label: str) -> None:
            if parts.begins(done, total, label):
                drawn.reset(task, total=total, completed=done)
            drawn.update(task, completed=done, description=label)

        yield tell


TellWhole = Callable[[float, float, str], None]
"""Called with the part that is done (0 to 1), the time left in s, and what is being done."""


@contextmanager
def whole(of: str) -> Iterator[TellWhole]:
    """Show the progress of work that itself knows how much time is left.

    Parameters
    ----------
    of
        Name of the work, for the lines: ``of the verification``.
    """
    if not sys.stderr.isatty():
        yield whole_lines(of)
        return
    from rich.console import Console

    with whole_bar(Console(stderr=True)) as tell:
        yield tell


def whole_lines(of: str) -> TellWhole:
    """Return a function that prints a line for each new tenth."""
    told = -1

    def tell(fraction: float, left_s: float, label: str) -> None:  # noqa: ARG001 - for the bar
        nonlocal told
        if int(10 * fraction) > told:
            told = int(10 * fraction)
            print(f"isolane: {10 * told} % {of}, about {left_s:.0f} s left", file=sys.stderr)

    return tell


@contextmanager
def whole_bar(console: Console) -> Iterator[TellWhole]:
    """Draw a bar, and remove it at the end."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("about {task.fields[left]:.0f} s left"),
    )
    with Progress(*columns, console=console, transient=True) as drawn:
        task = drawn.add_task("starting", total=1.0, left=0.0)
        yield lambda fraction, left_s, label: drawn.update(
            task, completed=fraction, description=label, left=left_s
        )

"""The parts of a cell's frames' way, over the repeats."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

from isolane.analysis.delivery import Runs, interval
from isolane.results.parts import PART_WORDS, WHOLE, PartCell, PartTime


def part_cells(runs: Runs) -> tuple[PartCell, ...]:
    """Return each part, in the order of the way, over the trials in which some frame took it."""
    found = []
    for name in (*PART_WORDS, WHOLE):
        each = [
            (part, trial.invocation)
            for trial, router in runs
            for part in router.parts or ()
            if part.part == name and part.frames
        ]
        if not each:
            continue
        times, origins = [part for part, _ in each], [origin for _, origin in each]
        mean_ns = interval([part.mean_ns for part in times], origins)
        assert mean_ns is not None
        longest = [part.max_ns for part in times if part.max_ns is not None]
        found.append(
            PartCell(
                part=name,
                frames=fmean(part.frames for part in times),
                mean_ns=mean_ns,
                p50_ns=interval(_each(times, lambda part: part.p50_ns), origins),
                p99_ns=interval(_each(times, lambda part: part.p99_ns), origins),
                max_ns=max(longest, default=None),
            )
        )
    return tuple(found)


def _each(times: list[PartTime], pick: Callable[[PartTime], float | None]) -> list[float | None]:
    return [pick(part) for part in times]

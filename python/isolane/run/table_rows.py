"""The rows of a results table: measured and missing points in one order."""

from __future__ import annotations

from dataclasses import dataclass

from isolane.run.missing import MissingPoint, MissingRouter
from isolane.run.results import Cell, Summary

NO_VERDICT = "no verdict"


@dataclass(frozen=True)
class MissingRow:
    """One router at a missing point."""

    point: MissingPoint
    router: MissingRouter


def arms_of(summary: Summary) -> list[str]:
    """Return the names of all arms, in the order of the experiment."""
    gaps = (point.arm for point in summary.missing or ())
    return list(dict.fromkeys([*summary.arms, *(cell.arm for cell in summary.cells), *gaps]))


def rows_of(summary: Summary) -> list[Cell | MissingRow]:
    """Return every router at every point of every arm, by arm and point."""
    rank = {arm: number for number, arm in enumerate(arms_of(summary))}
    found: list[tuple[int, int, Cell | MissingRow]] = [
        (rank[cell.arm], cell.point, cell) for cell in summary.cells
    ]
    found += [
        (rank[point.arm], point.point, MissingRow(point, router))
        for point in summary.missing or ()
        for router in point.routers
    ]
    return [row for _, _, row in sorted(found, key=lambda entry: entry[:2])]

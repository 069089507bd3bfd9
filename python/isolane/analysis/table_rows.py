"""The rows of a results table: measured and missing points in one order."""

from __future__ import annotations

from dataclasses import dataclass

from isolane.analysis.wording import listing
from isolane.results.method import marking
from isolane.results.missing import MissingPoint, MissingRouter
from isolane.results.results import Cell, Summary

NO_VERDICT = "no verdict"
REFUSED = "refused"
"""In place of a ratio to a reference point that loses frames itself."""


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


def refusals(summary: Summary) -> list[tuple[str, str]]:
    """Return the arms on which a victim's reference point is refused, and why."""
    found: dict[str, dict[str, None]] = {}
    for cell in summary.cells:
        if cell.retained_reason is not None:
            found.setdefault(f"of {cell.router}, {cell.retained_reason}", {})[cell.arm] = None
    return [(listing(list(arms)), why.removeprefix("of victim, ")) for why, arms in found.items()]


def older_method(summary: Summary) -> str | None:
    """Return what to tell of a run by an older method; None for one by the present method."""
    anew = any(cell.delivered is not None for cell in summary.cells)
    return marking(summary.method, anew=anew)

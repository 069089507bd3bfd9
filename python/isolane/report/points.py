"""Where the points of a run stand on the horizontal axis of its plots."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from isolane.report.chart import Axis
from isolane.run.results import Cell, Summary

Kind = Literal["load", "routers", "point"]

_MULTIPLE = "format(datum.value, '~g') + 'x'"
_RATE = "format(datum.value, '~s')"


@dataclass(frozen=True)
class Across:
    """The horizontal axis that fits a run, and where each point stands on it."""

    kind: Kind
    axis: Axis
    at: Mapping[int, float]
    """Point to its place."""


def across(summary: Summary) -> Across:
    """Choose what the points differ in: number of routers, aggressors' load, or offered load.

    Where two points would stand in the same place, the points themselves are the axis.
    """
    points = {index: _cells(summary, index) for index in sorted({c.point for c in summary.cells})}
    counts = {index: float(len(cells)) for index, cells in points.items()}
    if len(set(counts.values())) > 1 and _distinct(counts):
        return _across("routers", "number of routers", "format(datum.value, 'd')", counts)
    attacked = any(cell.aggressor_pps is not None for cell in summary.cells)
    noun = "aggressor's load" if attacked else "offered load"
    multiples = _places(points, _aggressor_x if attacked else _total_x)
    if multiples is not None and _distinct(multiples):
        return _across("load", f"{noun} (x capacity)", _MULTIPLE, multiples)
    rates = _places(points, _aggressor_pps if attacked else _total_pps)
    if multiples is None and rates is not None and _distinct(rates):
        return _across("load", f"{noun} (pps)", _RATE, rates)
    labels = json.dumps([cells[0].point_label for cells in points.values()])
    numbers = {index: float(rank) for rank, index in enumerate(points)}
    return _across("point", "point", f"{labels}[datum.value]", numbers)


def _across(kind: Kind, title: str, expr: str, at: Mapping[int, float]) -> Across:
    return Across(kind, Axis(title, expr, ticks=tuple(sorted(set(at.values())))), at)


def _cells(summary: Summary, point: int) -> list[Cell]:
    """Cells of a point in the first arm that has it: the load is the same in all arms."""
    found = [cell for cell in summary.cells if cell.point == point]
    return [cell for cell in found if cell.arm == found[0].arm]


def _distinct(at: Mapping[int, float]) -> bool:
    return len(set(at.values())) == len(at)


def _places(
    points: Mapping[int, Sequence[Cell]], place: Callable[[Sequence[Cell]], float | None]
) -> dict[int, float] | None:
    found = {index: place(cells) for index, cells in points.items()}
    known = {index: value for index, value in found.items() if value is not None}
    return known if len(known) == len(points) else None


def _aggressor_x(cells: Sequence[Cell]) -> float | None:
    return cells[0].aggressor_x


def _aggressor_pps(cells: Sequence[Cell]) -> float | None:
    return cells[0].aggressor_pps


def _total_x(cells: Sequence[Cell]) -> float | None:
    loads = [cell.load_x for cell in cells if cell.load_x is not None]
    return round(sum(loads), 9) if len(loads) == len(cells) else None


def _total_pps(cells: Sequence[Cell]) -> float | None:
    return sum(cell.offered_pps.median for cell in cells)

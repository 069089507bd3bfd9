"""The positions of a run's points on the horizontal axis of its plots."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from isolane.report.chart import Axis
from isolane.run.missing import MissingPoint
from isolane.run.results import Cell, Summary

Kind = Literal["load", "routers", "point"]

_MULTIPLE = "format(datum.value, '~g') + 'x'"
_RATE = "format(datum.value, '~s')"


@dataclass(frozen=True)
class Across:
    """The horizontal axis that fits a run, and each point's position on it."""

    kind: Kind
    axis: Axis
    at: Mapping[int, float]
    """Position of each point."""


@dataclass(frozen=True)
class _Setting:
    """What is offered at a point, whether it gave a result or not."""

    label: str
    routers: int
    aggressor_x: float | None
    aggressor_pps: float | None
    total_x: float | None
    total_pps: float | None


def across(summary: Summary) -> Across:
    """Choose what the points differ in: number of routers, aggressors' load, or offered load.

    Where two points would have the same position, the points themselves are the axis. Points
    that gave nothing have a position, too.
    """
    points = _settings(summary)
    counts = {index: float(point.routers) for index, point in points.items()}
    if len(set(counts.values())) > 1 and _distinct(counts):
        return _across("routers", "number of routers", "format(datum.value, 'd')", counts)
    attacked = any(point.aggressor_pps is not None for point in points.values())
    noun = "aggressor's load" if attacked else "offered load"
    multiples = _positions(points, lambda p: p.aggressor_x if attacked else p.total_x)
    if multiples is not None and _distinct(multiples):
        return _across("load", f"{noun} (x capacity)", _MULTIPLE, multiples)
    rates = _positions(points, lambda p: p.aggressor_pps if attacked else p.total_pps)
    if multiples is None and rates is not None and _distinct(rates):
        return _across("load", f"{noun} (pps)", _RATE, rates)
    labels = json.dumps([point.label for point in points.values()])
    numbers = {index: float(rank) for rank, index in enumerate(points)}
    return _across("point", "point", f"{labels}[datum.value]", numbers)


def _across(kind: Kind, title: str, expr: str, at: Mapping[int, float]) -> Across:
    return Across(kind, Axis(title, expr, ticks=tuple(sorted(set(at.values())))), at)


def _settings(summary: Summary) -> dict[int, _Setting]:
    """Return every point by its number: the load is the same in all arms."""
    found = {point.point: _of_missing(point) for point in summary.missing or ()}
    for index in {cell.point for cell in summary.cells}:
        cells = [cell for cell in summary.cells if cell.point == index]
        found[index] = _of_cells([cell for cell in cells if cell.arm == cells[0].arm])
    return dict(sorted(found.items()))


def _of_cells(cells: Sequence[Cell]) -> _Setting:
    return _Setting(
        cells[0].point_label,
        len(cells),
        cells[0].aggressor_x,
        cells[0].aggressor_pps,
        _sum(cell.load_x for cell in cells),
        sum(cell.offered_pps.median for cell in cells),
    )


def _of_missing(point: MissingPoint) -> _Setting:
    return _Setting(
        point.point_label,
        len(point.routers),
        point.aggressor_x,
        point.aggressor_pps,
        _sum(router.load_x for router in point.routers),
        _sum(router.offered_pps for router in point.routers),
    )


def _sum(values: Iterable[float | None]) -> float | None:
    found = list(values)
    known = [value for value in found if value is not None]
    return round(sum(known), 9) if len(known) == len(found) else None


def _distinct(at: Mapping[int, float]) -> bool:
    return len(set(at.values())) == len(at)


def _positions(
    points: Mapping[int, _Setting], value_of: Callable[[_Setting], float | None]
) -> dict[int, float] | None:
    found = {index: value_of(point) for index, point in points.items()}
    known = {index: value for index, value in found.items() if value is not None}
    return known if len(known) == len(points) else None

"""The positions of a run's points on the horizontal axis of its plots."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from isolane.analysis.flow_words import flow_in
from isolane.report.chart import Axis
from isolane.results.missing import MissingPoint
from isolane.results.results import Cell, Summary

Kind = Literal["load", "routers", "object", "point"]

_MULTIPLE = "format(datum.value, '.3~g') + 'x'"
_RATE = "format(datum.value, '.3~s')"


@dataclass(frozen=True)
class Across:
    """The horizontal axis that fits a run, and each point's position on it."""

    kind: Kind
    axis: Axis
    at: Mapping[int, float]
    """Position of each point, in arms that offer the whole of its load."""
    of_arm: Mapping[tuple[str, int], float]
    """Position of each point in each arm."""

    def of(self, arm: str, point: int) -> float:
        """Return the position of a point in an arm."""
        return self.of_arm.get((arm, point), self.at[point])


@dataclass(frozen=True)
class _Setting:
    """What is offered at a point, whether it gave a result or not."""

    label: str
    routers: int
    aggressor_x: float | None
    aggressor_pps: float | None
    total_x: float | None
    total_pps: float | None
    working: int
    """Aggressors that work besides."""


def across(summary: Summary) -> Across:
    """Choose what the points differ in: number of routers, aggressors' load, or offered load.

    Where two points would have the same position, the points themselves are the axis. Points
    that gave nothing have a position, too.
    """
    settings = _settings(summary)
    points = _whole(settings)
    counts = {index: float(point.routers) for index, point in points.items()}
    if len(set(counts.values())) > 1 and _distinct(counts):
        return _across("routers", "number of routers", "format(datum.value, 'd')", counts)
    if (sizes := _sizes(summary)) is not None and set(sizes) == set(points):
        return _across("object", "object (bytes)", _RATE, sizes)
    if len({point.working for point in points.values()}) > 1:
        return _by_number(points)
    attacked = any(point.aggressor_pps is not None for point in points.values())
    noun = "aggressor's load" if attacked else "offered load"

    def in_x(setting: _Setting) -> float | None:
        return _rounded(setting.aggressor_x if attacked else setting.total_x)

    def in_pps(setting: _Setting) -> float | None:
        return _rounded(setting.aggressor_pps if attacked else setting.total_pps)

    multiples = _positions(points, in_x)
    if multiples is not None and _distinct(multiples):
        of_arm = _known(settings, in_x)
        return _across("load", f"{noun} (x capacity)", _MULTIPLE, multiples, of_arm)
    rates = _positions(points, in_pps)
    if multiples is None and rates is not None and _distinct(rates):
        of_arm = _known(settings, in_pps)
        return _across("load", f"{noun} ({flow_in(summary).unit})", _RATE, rates, of_arm)
    return _by_number(points)


def _by_number(points: Mapping[int, _Setting]) -> Across:
    labels = json.dumps([point.label for point in points.values()])
    numbers = {index: float(rank) for rank, index in enumerate(points)}
    return _across("point", "point", f"{labels}[datum.value]", numbers)


def _sizes(summary: Summary) -> dict[int, float] | None:
    """Return the size of what a load balancer is asked for at each point, where that differs."""
    for router in dict.fromkeys(cell.router for cell in summary.cells):
        own = [cell for cell in summary.cells if cell.router == router]
        sizes = {
            cell.point: float(cell.object_bytes) for cell in own if cell.object_bytes is not None
        }
        if len(sizes) > 1 and _distinct(sizes):
            return sizes
    return None


def _across(
    kind: Kind,
    title: str,
    expr: str,
    at: Mapping[int, float],
    of_arm: Mapping[tuple[str, int], float] | None = None,
) -> Across:
    axis = Axis(title, expr, ticks=tuple(sorted(set(at.values()))))
    return Across(kind, axis, at, of_arm or {})


def _settings(summary: Summary) -> dict[tuple[str, int], _Setting]:
    """Return every point of every arm."""
    found = {(point.arm, point.point): _of_missing(point) for point in summary.missing or ()}
    cells: dict[tuple[str, int], list[Cell]] = {}
    for cell in summary.cells:
        cells.setdefault((cell.arm, cell.point), []).append(cell)
    return {**found, **{key: _of_cells(own) for key, own in cells.items()}}


def _whole(settings: Mapping[tuple[str, int], _Setting]) -> dict[int, _Setting]:
    """Return every point by its number, as in the arm that was offered the highest load there.

    The load is the same in all arms, unless the generator could not send the whole of it.
    """
    found: dict[int, _Setting] = {}
    for (_, point), setting in settings.items():
        known = found.get(point)
        if known is None or (setting.total_pps or 0) > (known.total_pps or 0):
            found[point] = setting
    return dict(sorted(found.items()))


def _of_cells(cells: Sequence[Cell]) -> _Setting:
    return _Setting(
        cells[0].point_label,
        len(cells),
        cells[0].aggressor_x,
        cells[0].aggressor_pps,
        _sum(cell.load_x for cell in cells),
        sum(cell.offered_pps.median for cell in cells),
        cells[0].working,
    )


def _of_missing(point: MissingPoint) -> _Setting:
    return _Setting(
        point.point_label,
        len(point.routers),
        point.aggressor_x,
        point.aggressor_pps,
        _sum(router.load_x for router in point.routers),
        _sum(router.offered_pps for router in point.routers),
        point.attack[0],
    )


def _sum(values: Iterable[float | None]) -> float | None:
    found = list(values)
    known = [value for value in found if value is not None]
    return round(sum(known), 9) if len(known) == len(found) else None


def _distinct(at: Mapping[int, float]) -> bool:
    return len(set(at.values())) == len(at)


def _rounded(value: float | None) -> float | None:
    """Let loads be equal that were worked out in different ways."""
    return None if value is None else float(f"{value:.9g}")


Key = TypeVar("Key")


def _positions(
    points: Mapping[Key, _Setting], value_of: Callable[[_Setting], float | None]
) -> dict[Key, float] | None:
    known = _known(points, value_of)
    return known if len(known) == len(points) else None


def _known(
    points: Mapping[Key, _Setting], value_of: Callable[[_Setting], float | None]
) -> dict[Key, float]:
    found = {index: value_of(point) for index, point in points.items()}
    return {index: value for index, value in found.items() if value is not None}

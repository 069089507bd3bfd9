"""Plots like the paper's, from the same rows as the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from isolane.reproduce.model import Plot, PlotPoint, Row
from isolane.reproduce.rathore2013 import figure_rows
from isolane.reproduce.trials import Trials

_X = {
    "figure 4": "offered load (kpps)",
    "figure 5": "offered load (kpps)",
    "figure 6": "configuration",
    "figure 7": "virtual routers",
    "figure 8": "virtual routers",
    "table 1": "offered load of VR1 (kpps)",
    "table 2": "offered load of VR1 (kpps)",
    "scenario II": "offered load of VR2 (kpps)",
}
_TITLES = {
    "figure 4": "Figure 4: throughput, one router",
    "figure 5": "Figure 5: CPU utilization of a virtual machine",
    "figure 6": "Figure 6: median latency at line rate",
    "figure 7": "Figure 7: throughput and number of routers, one core",
    "figure 8": "Figure 8: throughput and number of routers, two cores",
    "table 1": "Table 1: scenario I, containers",
    "table 2": "Table 2: scenario I, virtual machines",
    "scenario II": "Scenario II, predicted: throughput of VR1 and VR2",
}


def of(found: Trials, figures: Sequence[str]) -> tuple[Plot, ...]:
    """Return a plot of each of the figures."""
    plots = []
    for figure in figures:
        rows = figure_rows.of(found, [figure], fitted=False)
        own = [row for row in rows if row.simulated is not None]
        if own:
            plots.append(_plot(own))
    return tuple(plots)


def _plot(own: Sequence[Row]) -> Plot:
    figure_name = own[0].figure
    shown = [row for row in own if figure_name in {"figure 5", "figure 6"} or row.unit == "kpps"]
    points = [
        point for row in shown for point in _points(row, _series(figure_name), _x(figure_name))
    ]
    return Plot(
        figure=figure_name,
        title=_TITLES[figure_name],
        kind="bars" if figure_name == "figure 6" else "lines",
        x_title=_X[figure_name],
        y_title={"kpps": "throughput (kpps)", "%": "CPU (%)", "µs": "latency (µs)"}[shown[0].unit],
        points=tuple(points),
        caption="Hollow markers are the paper's figures."
        if any(point.published for point in points)
        else "The paper's text gives no number here.",
    )


def _points(
    row: Row, series: Callable[[Row], str], x: Callable[[Row], float | str]
) -> Iterator[PlotPoint]:
    assert row.simulated is not None
    yield PlotPoint(series=series(row), x=x(row), y=row.simulated)
    if row.published is not None:
        yield PlotPoint(series=series(row), x=x(row), y=row.published, published=True)


def _series(figure_name: str) -> Callable[[Row], str]:
    if figure_name == "figure 6":
        return lambda _: "median latency"
    if figure_name in {"figure 4", "figure 7", "figure 8"}:
        return lambda row: row.configuration
    if figure_name == "figure 5":
        return lambda row: f"{row.configuration}: {row.quantity}"
    if figure_name == "scenario II":
        return lambda row: f"{row.quantity.removeprefix('throughput ')}, {row.configuration}"
    return lambda row: row.quantity.removeprefix("throughput ")


def _x(figure_name: str) -> Callable[[Row], float | str]:
    if figure_name == "figure 6":
        return lambda row: row.configuration
    if figure_name in {"figure 7", "figure 8"}:
        return lambda row: float(next(iter(row.offered)).split()[0])
    if figure_name == "scenario II":
        return lambda row: row.offered["vr2"]
    return lambda row: next(iter(row.offered.values()))

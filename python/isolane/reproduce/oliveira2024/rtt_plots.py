"""Plots like the paper's: a figure against the number of background VMs, a line a configuration."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from isolane.reproduce.model import Plot, PlotPoint
from isolane.reproduce.oliveira2024 import published_times
from isolane.reproduce.oliveira2024.echo_rows import QUANTITIES
from isolane.reproduce.oliveira2024.echo_trials import Found
from isolane.reproduce.oliveira2024.load_cells import (
    FIGURES,
    LOADS,
    LoadType,
    cells_of,
    figure_words,
)
from isolane.stats.intervals import estimate


def of(found: Found, figures: Sequence[str]) -> tuple[Plot, ...]:
    """Return a plot for each figure and load; none of what was not simulated."""
    plots = (
        _plot(found, figure, load)
        for figure in figures
        if figure not in {"4.3", "table3"}
        for load in LOADS
    )
    return tuple(plot for plot in plots if plot.points)


def _plot(found: Found, figure: str, load: LoadType) -> Plot:
    shown, words = FIGURES[figure], figure_words(figure)
    name, unit = QUANTITIES[shown.quantity]
    points = (*_simulated(found, figure, load), *_published(figure, load))
    told = any(point.published for point in points)
    return Plot(
        figure=words,
        title=f"{words.capitalize()}: {shown.title}, {load} load",
        kind="lines",
        x_title="background VMs",
        y_title=f"{name} ({unit})",
        points=points if any(not point.published for point in points) else (),
        caption="Echoes at 1 kpps. Hollow markers are the paper's figures."
        if told
        else "Echoes at 1 kpps. The paper's text gives no number here.",
    )


def _simulated(found: Found, figure: str, load: LoadType) -> Iterator[PlotPoint]:
    for cell in cells_of(figure):
        if cell.load != load or cell not in found.trials:
            continue
        values = found.values(cell, FIGURES[figure].quantity)
        middle = estimate(values) if all(map(math.isfinite, values)) else None
        if middle is not None:
            yield PlotPoint(
                series=cell.configuration,
                x=float(cell.vms),
                y=middle.median,
                low=middle.low,
                high=middle.high,
            )


def _published(figure: str, load: LoadType) -> Iterator[PlotPoint]:
    """Yield the published medians of the figure's configurations."""
    shown = FIGURES[figure]
    if shown.quantity != "rtt":
        return
    for time in published_times.times():
        here = time.load == load and time.location in shown.locations
        if (
            here
            and time.metric == "rtt_median"
            and time.vms is not None
            and time.driver in shown.configurations
        ):
            yield PlotPoint(series=time.driver, x=float(time.vms), y=time.value_ms, published=True)

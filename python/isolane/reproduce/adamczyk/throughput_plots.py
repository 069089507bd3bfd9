"""Plots of the same kind as the paper's: throughput in time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from isolane.reproduce.adamczyk.guest_rows import Found
from isolane.reproduce.adamczyk.live_runs import FINE_BIN_S
from isolane.reproduce.adamczyk.runs import Repeats, interval
from isolane.reproduce.model import Plot, PlotPoint

SAMPLES = ("no-rate", "no-rate-improved", "connections", "priorities")
"""Experiments of which the paper shows one run, not the mean of several."""


def of(found: Found, names: Sequence[str]) -> tuple[Plot, ...]:
    """Return a plot for each variant."""
    return tuple(_plot(repeats) for name in names for repeats in found.get(name, {}).values())


def with_live(plots: Sequence[Plot], live: Sequence[Plot]) -> tuple[Plot, ...]:
    """Draw what was measured into the plots of what was simulated."""
    known = {(plot.figure, plot.title): plot for plot in live}
    return tuple(
        _both(plot, known[plot.figure, plot.title]) if (plot.figure, plot.title) in known else plot
        for plot in plots
    )


def _both(plot: Plot, live: Plot) -> Plot:
    points = tuple(
        point.model_copy(update={"series": f"{point.series}, live"}) for point in live.points
    )
    what = live.caption.partition(".")[0].replace("Simulated", f"Live in bins of {FINE_BIN_S:g} s")
    caption = f"{plot.caption} {what}."
    return plot.model_copy(update={"points": (*plot.points, *points), "caption": caption})


def _plot(repeats: Repeats) -> Plot:
    sample = repeats.experiment.name in SAMPLES or len(repeats.courses) < 2
    what = "one run" if sample else f"mean of {len(repeats.courses)} runs, 95 % confidence"
    return Plot(
        figure=repeats.experiment.figure,
        title=f"{repeats.experiment.title}: {repeats.variant.title}",
        kind="lines",
        x_title="time, s",
        y_title="UDP payload received, Mbit/s",
        points=tuple(_points(repeats, sample=sample)),
        caption=f"Simulated, {what}. The paper gives curves, no numbers.",
    )


def _points(repeats: Repeats, *, sample: bool) -> Iterator[PlotPoint]:
    width = repeats.experiment.bin
    for vm, guest in repeats.variant.guests.items():
        for i, column in enumerate(repeats.series(vm).T):
            if (i + 1) * width <= guest.start:
                continue
            found = interval(column[:1] if sample else column)
            yield PlotPoint(
                series=vm, x=(i + 0.5) * width, y=found.mean, low=found.low, high=found.high
            )

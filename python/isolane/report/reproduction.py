"""A reproduction as one HTML page: claims, plots, and every figure beside the published one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from isolane.report.assets import environment, with_plots
from isolane.report.chart import Axis, Figure, Panel, Swatch, line_panel, stacked_panel
from isolane.report.chart import Row as Drawn
from isolane.report.words import cells, headings, sentence
from isolane.reproduce.model import Claim, Plot, PlotPoint, Reproduction, Row


def page(found: Reproduction) -> str:
    """Write the whole page; it opens offline."""
    shown = [_figure(plot, number) for number, plot in enumerate(found.plots)]
    held = sum(claim.reproduced for claim in found.claims)
    level = "good" if held == len(found.claims) else "neutral" if held else "bad"
    return (
        environment()
        .get_template("reproduction.html.j2")
        .render(
            found=found,
            level=level if found.claims else "none",
            sentence=sentence(found),
            headings=headings(live=found.live is not None),
            tables=_tables(found.rows, live=found.live is not None),
            claims=_claims(found),
            **with_plots(shown),
        )
    )


def _claims(found: Reproduction) -> list[tuple[Claim, list[tuple[str, Claim]]]]:
    """Return each claim with what simulation and runs make of it, those of the former first."""
    decided = [("", claim) for claim in found.claims]
    decided += [("live: ", claim) for claim in (found.live.claims if found.live else ())]
    first = {claim.text: claim for _, claim in reversed(decided)}
    texts = dict.fromkeys(claim.text for _, claim in decided)
    return [(first[text], [it for it in decided if it[1].text == text]) for text in texts]


def _tables(rows: Sequence[Row], *, live: bool) -> list[tuple[str, list[tuple[str, ...]]]]:
    figures = dict.fromkeys(row.figure for row in rows)
    return [
        (name, [cells(row, live=live) for row in rows if row.figure == name]) for name in figures
    ]


def _figure(plot: Plot, number: int) -> Figure:
    names = list(dict.fromkeys(point.series for point in plot.points))
    stacked = plot.kind != "lines"
    panel = _bars(plot, names) if stacked else _lines(plot, names)
    mark = "bar" if stacked else "line"
    legend = [Swatch(name, "series", i, mark) for i, name in enumerate(names)]
    if any(point.published for point in plot.points):
        what = "tick" if stacked else "published"
        legend.append(Swatch("published", "series", 0, what))
    return Figure(f"{number}", plot.title, plot.caption, (panel,), tuple(legend), columns=1)


def _drawn(point: PlotPoint, x: float, plot: Plot) -> Drawn:
    low = point.y if point.low is None else point.low
    high = point.y if point.high is None else point.high
    tip = {"series": point.series, plot.x_title: f"{point.x}", plot.y_title: f"{point.y:.4g}"}
    if point.published:
        tip["source"] = "published"
    return Drawn(point.series, x, point.y, low, high, published=point.published, tip=tip)


def _lines(plot: Plot, names: Sequence[str]) -> Panel:
    rows = [_drawn(point, float(point.x), plot) for point in plot.points]
    return line_panel("", rows, names, Axis(plot.x_title), Axis(plot.y_title), _words(plot))


def _bars(plot: Plot, names: Sequence[str]) -> Panel:
    categories = list(dict.fromkeys(str(point.x) for point in plot.points))
    at = {name: float(i) for i, name in enumerate(categories)}
    expr = f"{json.dumps(categories)}[datum.value]"
    x = Axis(plot.x_title, expr, tuple(at.values()))
    ours = [_drawn(p, at[str(p.x)], plot) for p in plot.points if not p.published]
    theirs = [_drawn(p, at[str(p.x)], plot) for p in plot.points if p.published]
    return stacked_panel("", ours, names, x, Axis(plot.y_title), _words(plot), marks=theirs)


def _words(plot: Plot) -> str:
    parts = [
        f"{p.series} at {p.x}: {p.y:.4g}{' (published)' if p.published else ''}"
        for p in _ends(plot.points)
    ]
    return f"{plot.title}. {plot.y_title}: {'; '.join(parts)}."


def _ends(points: Sequence[PlotPoint]) -> Iterable[PlotPoint]:
    """Describe a plot for a reader who cannot see it: first and last point of each series."""
    for name in dict.fromkeys(point.series for point in points):
        own = [point for point in points if point.series == name]
        yield own[0]
        if len(own) > 1:
            yield own[-1]

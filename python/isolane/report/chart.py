"""The two kinds of plot that the report has: lines with bands, and stacked bars."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import altair as alt
from altair.utils.schemapi import debug_mode

from isolane.report.theme import DASHES, SHAPES, PaletteName

HEIGHT, BAR_HEIGHT = 240, 180
"""Height of the drawn area, of lines and of bars, pixels."""

SHOWN = "indexof(hidden, datum.series) < 0"
"""The page sets the signal `hidden` to the series that its reader has switched off."""


_AT_THE_TOP = ("$schema", "config", "datasets")
"""What Altair gives each chart and a layer does not have; in place of its config is the theme's."""

unchecked = debug_mode(arg=False)
"""Plots are made without Altair's check of each part, half of their time; a test checks them."""


@dataclass(frozen=True)
class Swatch:
    """One entry of a legend."""

    label: str
    palette: PaletteName
    index: int
    mark: str = "line"
    """``line``, ``bar``, ``tick``, ``published`` or ``gap``."""


@dataclass(frozen=True)
class Panel:
    """One plot.

    `spec` has no width, no configuration and no legend; the page or the sheet adds them.
    """

    title: str
    alt: str
    spec: dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """Plots that belong together, with one legend."""

    id: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    legend: tuple[Swatch, ...]
    palette: PaletteName = "series"
    columns: int = 2
    """Panels side by side where the page is wide enough."""


@dataclass(frozen=True)
class Axis:
    """One axis of a plot."""

    title: str
    expr: str = "datum.label"
    """Vega expression that writes a tick; by default Vega's own."""
    ticks: tuple[float, ...] | None = None
    log: bool = False
    domain: tuple[float, float] | None = None

    def build(self) -> dict[str, Any]:
        """Return Vega-Lite's axis."""
        ticks = {"values": list(self.ticks)} if self.ticks is not None else {}
        count = {"tickCount": 5} if self.ticks is None else {}
        labels = {"labelExpr": self.expr, "labelOverlap": "greedy", "labelSeparation": 6}
        return {"title": self.title, **labels, **ticks, **count}

    def scale(self, *, zero: bool) -> alt.Scale:
        """Return Vega-Lite's scale."""
        domain: Any = list(self.domain) if self.domain else alt.Undefined
        if self.log:
            return alt.Scale(type="log", domain=domain)
        return alt.Scale(zero=zero, domain=domain, nice=self.domain is None)


@dataclass(frozen=True)
class Row:
    """One value with its interval."""

    series: str
    x: float
    y: float
    low: float
    high: float
    published: bool = False
    tip: Mapping[str, str] = field(default_factory=dict)
    """The tooltip: values by heading."""

    def values(self) -> dict[str, Any]:
        """Return the row as Vega's datum."""
        plain = {"series": self.series, "x": self.x, "y": self.y, "low": self.low}
        return {**plain, "high": self.high, "published": self.published, **self.tip}


@dataclass(frozen=True)
class Gap:
    """A point of a series that was asked for and gave nothing."""

    series: str
    x: float
    tip: Mapping[str, str]
    """The tooltip."""
    word: str = "no verdict"
    """What there is in place of a value."""

    def values(self) -> dict[str, Any]:
        """Return the gap as Vega's datum."""
        return {"series": self.series, "x": self.x, **self.tip}

    def said(self) -> str:
        """Say it, for those who cannot see the plot."""
        return f"{self.word.capitalize()} for {self.series} at {self.tip.get('point', self.x)}."


GAP_MARK = "M-1,-1L1,1M1,-1L-1,1"
"""A cross, drawn at the bottom of a plot where there is no verdict."""


def tooltip(rows: Sequence[Row | Gap]) -> list[alt.Tooltip]:
    """Return what is told of a mark that is pointed at."""
    names = dict.fromkeys(name for row in rows for name in row.tip)
    return [alt.Tooltip(field=_escape(name), type="nominal", title=name) for name in names]


def _escape(name: str) -> str:
    """Write a field's name so that Vega does not take its dots and brackets for a path."""
    return "".join(f"\\{char}" if char in ".[]\\'\"" else char for char in name)


@unchecked
def line_panel(  # noqa: PLR0913 - a plot is its data, its axes and its words
    title: str,
    rows: Sequence[Row],
    series: Sequence[str],
    x: Axis,
    y: Axis,
    words: str,
    *,
    level: float | None = None,
    gaps: Sequence[Gap] = (),
) -> Panel:
    """Lines over x with a confidence band, an interval bar and a marker at each point.

    Parameters
    ----------
    title
        Heading of the panel; may be empty.
    rows
        What is drawn. Published rows are drawn as hollow markers without a band.
    series
        All series of the figure, also those that this panel lacks: they fix colours.
    x, y
        The axes.
    words
        Description for those who cannot see the plot.
    level
        Where to draw a horizontal reference line.
    gaps
        Points without a verdict: a cross at the bottom, in the colour of the series.
    """
    colour, dash, shape = _distinct(series)
    if not rows and gaps:  # without any value Vega has no idea of the axis
        positions = [*(x.ticks or ()), *(gap.x for gap in gaps)]
        x = replace(x, domain=(min(positions), max(positions)))
    across = alt.X("x:Q", axis=alt.Axis(**x.build()), scale=x.scale(zero=False))
    vertical: dict[str, Any] = {"axis": alt.Axis(**y.build()), "scale": y.scale(zero=not y.log)}
    up, low, high = alt.Y("y:Q", **vertical), alt.Y("low:Q", **vertical), alt.Y2("high:Q")
    tips, silent = tooltip(rows), alt.TooltipValue(None)
    ours = alt.Chart().transform_filter(SHOWN).transform_filter("!datum.published")
    theirs = alt.Chart().transform_filter(SHOWN).transform_filter("datum.published")
    layers: list[alt.Chart] = []
    if level is not None:
        rule = alt.Chart(alt.InlineData(values=[{"level": level}]))
        layers.append(
            rule.mark_rule(strokeDash=[4, 4], opacity=0.7).encode(
                alt.Y("level:Q", **vertical), tooltip=silent
            )
        )
    layers += [
        ours.mark_area(opacity=0.18).encode(across, low, high, colour, tooltip=silent),
        ours.mark_rule(strokeWidth=1.5).encode(across, low, high, colour, tooltip=tips),
        ours.mark_line(strokeWidth=2).encode(across, up, colour, dash, tooltip=silent),
        ours.mark_point(filled=True, size=70, opacity=1).encode(
            across, up, colour, shape, tooltip=tips
        ),
    ]
    if any(row.published for row in rows):
        layers += [
            theirs.mark_line(strokeWidth=1, opacity=0.8, strokeDash=[1, 3]).encode(
                across, up, colour, tooltip=silent
            ),
            theirs.mark_point(filled=False, size=110, strokeWidth=2, opacity=1).encode(
                across, up, colour, shape, tooltip=tips
            ),
        ]
    layers += _gap_marks(gaps, series, across, colour)
    values = alt.InlineData(values=[row.values() for row in rows])
    said = " ".join([words, *(gap.said() for gap in gaps)])
    return as_panel(title, said, layers, data=values)


@dataclass(frozen=True)
class TimeMarks:
    """What is marked in a plot over time."""

    begin: float
    """Where the measuring window begins: a dashed line."""
    spans: Sequence[tuple[float, float]] = ()
    """Begin and end of what is shaded."""


@unchecked
def time_panel(
    title: str,
    rows: Sequence[Row],
    series: Sequence[str],
    axes: tuple[Axis, Axis],
    words: str,
    marks: TimeMarks,
) -> Panel:
    """Plain lines over time."""
    x, y = axes
    colour, dash, _ = _distinct(series)
    across = alt.X("x:Q", axis=alt.Axis(**x.build()), scale=x.scale(zero=False))
    up = alt.Y("y:Q", axis=alt.Axis(**y.build()), scale=y.scale(zero=not y.log))
    lines = alt.Chart(alt.InlineData(values=[row.values() for row in rows]))
    window = alt.Chart(alt.InlineData(values=[{"begin": marks.begin}]))
    shaded = alt.Chart(
        alt.InlineData(values=[{"from": low, "to": high} for low, high in marks.spans])
    )
    layers = [
        *(
            [
                shaded.mark_rect(opacity=0.12).encode(
                    alt.X("from:Q", axis=alt.Axis(**x.build()), scale=x.scale(zero=False)),
                    alt.X2("to:Q"),
                    tooltip=alt.TooltipValue(None),
                )
            ]
            if marks.spans
            else []
        ),
        window.mark_rule(strokeDash=[4, 4], opacity=0.7).encode(
            alt.X("begin:Q", axis=alt.Axis(**x.build()), scale=x.scale(zero=False)),
            tooltip=alt.TooltipValue(None),
        ),
        lines.transform_filter(SHOWN)
        .mark_line(strokeWidth=1.5)
        .encode(across, up, colour, dash, tooltip=tooltip(rows)),
    ]
    return as_panel(title, words, layers)


def _gap_marks(
    gaps: Sequence[Gap], series: Sequence[str], across: alt.X, colour: alt.Color
) -> list[alt.Chart]:
    """Draw a row of crosses for each series, one above the other at the bottom of the plot."""
    layers = []
    for number, name in enumerate(series):
        own = [gap.values() for gap in gaps if gap.series == name]
        if own:
            layers.append(
                alt.Chart(alt.InlineData(values=own))
                .transform_filter(SHOWN)
                .mark_point(shape=GAP_MARK, size=90, strokeWidth=2.5, opacity=1)
                .encode(
                    across,
                    colour,
                    y=alt.YValue(HEIGHT - 10 - 14 * number),  # type: ignore[no-untyped-call]
                    tooltip=tooltip(gaps),
                )
            )
    return layers


def _distinct(series: Sequence[str]) -> tuple[alt.Color, alt.StrokeDash, alt.Shape]:
    """Tell series apart by colour, dash and shape at once."""
    shown = list(series)
    dashes = [list(DASHES[i % len(DASHES)]) for i in range(len(shown))]
    shapes = [SHAPES[i % len(SHAPES)] for i in range(len(shown))]
    return (
        alt.Color("series:N", scale=alt.Scale(domain=shown), legend=None),
        alt.StrokeDash("series:N", scale=alt.Scale(domain=shown, range=dashes), legend=None),
        alt.Shape("series:N", scale=alt.Scale(domain=shown, range=shapes), legend=None),
    )


@unchecked
def stacked_panel(  # noqa: PLR0913 - as above
    title: str,
    rows: Sequence[Row],
    series: Sequence[str],
    x: Axis,
    y: Axis,
    words: str,
    *,
    marks: Sequence[Row] = (),
    gaps: Sequence[Gap] = (),
) -> Panel:
    """Stacked bars over x as steps of equal width; `marks` are drawn as ticks on top.

    `gaps` are positions without a bar; there the plot says that there is no verdict.

    Rows are stacked in the order of `series`; the x values are those of ``x.ticks``, in order.
    """
    order = {name: index for index, name in enumerate(series)}
    values = [{**row.values(), "order": order[row.series]} for row in rows]
    across = alt.X(
        "x:O",
        axis=alt.Axis(title=x.title, labelExpr=x.expr, labelAngle=0, labelOverlap=True),
        scale=alt.Scale(paddingInner=0.25, paddingOuter=0.15),
        sort=list(x.ticks or ()),
    )
    up = alt.Y("y:Q", stack="zero", axis=alt.Axis(**y.build()), scale=y.scale(zero=True))
    bars = (
        alt.Chart(alt.InlineData(values=values))
        .transform_filter(SHOWN)
        .mark_bar()
        .encode(
            across,
            up,
            alt.Color("series:N", scale=alt.Scale(domain=list(series)), legend=None),
            alt.Order("order:Q"),
            tooltip=tooltip(rows),
        )
    )
    layers: list[alt.Chart] = [bars]
    if marks:
        ticks = alt.Chart(alt.InlineData(values=[row.values() for row in marks]))
        layers.append(
            ticks.transform_filter(SHOWN)
            .mark_tick(thickness=3)
            .encode(across, alt.Y("y:Q", scale=y.scale(zero=True)), tooltip=tooltip(marks))
        )
    if gaps:
        told = alt.Chart(alt.InlineData(values=[gap.values() for gap in gaps]))
        layers.append(
            told.mark_text(text="no verdict", angle=270, align="left", fontSize=11).encode(
                across,
                y=alt.YValue(BAR_HEIGHT - 6),  # type: ignore[no-untyped-call]
                tooltip=tooltip(gaps),
            )
        )
    return as_panel(title, words, layers, BAR_HEIGHT)


def decades(low: float, high: float) -> tuple[float, ...]:
    """Ticks of a logarithmic axis: 1, 10, 100; in a short range also the 2s and 5s, or the 3s."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    within = sum(low <= 10.0**power <= high for power in range(first, last + 1))
    steps = (1, 2, 5) if within < 2 else (1, 3) if within < 4 else (1,)
    ticks = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    return tuple(tick for tick in ticks if low <= tick <= high)


def as_panel(
    title: str,
    words: str,
    layers: Sequence[alt.Chart],
    height: int = HEIGHT,
    data: alt.InlineData | None = None,
) -> Panel:
    """Return the finished panel: charts on top of each other; words: for those who cannot see it.

    `data` is that of all layers which have none of their own.
    """
    # alt.layer() would copy each of them several times, which takes as long as making it.
    parts = [layer.to_dict(validate=False) for layer in layers]
    for layer, part in zip(layers, parts, strict=True):
        if layer.data is alt.Undefined:
            del part["data"], part["datasets"]  # an empty one, by which Altair replaces it
    drawn = [{key: part[key] for key in part if key not in _AT_THE_TOP} for part in parts]
    if data is not None:
        parts.append(alt.Chart(data).mark_point().to_dict(validate=False))
    spec = {
        **({"data": parts[-1]["data"]} if data is not None else {}),
        "description": words,
        "height": height,
        "layer": drawn,
        "params": [{"name": "hidden", "value": []}],
        "$schema": parts[0]["$schema"],
        "datasets": {n: rows for part in parts for n, rows in part.get("datasets", {}).items()},
    }
    return Panel(title, words, spec)

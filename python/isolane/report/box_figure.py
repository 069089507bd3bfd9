"""Box plots of a run's trials: how the figures of each arm spread from trial to trial."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from isolane.analysis.arm_test_words import metric
from isolane.report.chart import SHOWN, Axis, Figure, Panel, Swatch, as_panel, decades, unchecked
from isolane.report.plot_parts import MAX_SERIES, TIME, arms
from isolane.results.arm_test_models import FigureName, Spread
from isolane.results.results import Summary
from isolane.spec.units import format_ns

_ENDS = ("lowest", "quarter", "median", "three quarters", "highest")
_TIPS = ("arm", "load", "router", *_ENDS, "trials")


def box_figure(summary: Summary) -> Figure | None:
    """Draw a box for each arm at each load, a panel for each figure; None without tests."""
    tests = summary.arm_tests
    if tests is None:
        return None
    names = arms(summary)[:MAX_SERIES]
    drawable = [box for box in tests.spreads if box.arm in names and _positive(box)]
    panels = []
    for figure in dict.fromkeys(box.figure for box in drawable):
        boxes = [box for box in drawable if box.figure == figure]
        panels.append(_panel(summary, figure, boxes, names))
    if not panels:
        return None
    caption = (
        "Each box is made of the trials of one arm at one load, one value per trial: what varies "
        "from frame to frame within a trial is not in it. The box holds the middle half of the "
        "trials, the line in it is their median; the whiskers end at the lowest and the highest. "
        "Where lost frames make a time infinite the box has no such end, or is missing."
    )
    legend = tuple(Swatch(name, "series", index, "bar") for index, name in enumerate(names))
    title = "How far trials are from each other"
    return Figure("trials", title, caption, tuple(panels), legend)


def _positive(box: Spread) -> bool:
    """Tell whether a logarithmic axis can show the box: a median that is finite, and no zero."""
    return box.minimum > 0 and math.isfinite(box.median)


@unchecked
def _panel(
    summary: Summary, figure: FigureName, boxes: Sequence[Spread], names: Sequence[str]
) -> Panel:
    points = {box.point: box.point_label for box in boxes}
    labels = [label for _, label in sorted(points.items())]
    rows = [_row(box) for box in boxes]
    low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
    limits = 0.8 * low, 1.25 * high
    name = metric(summary, figure)
    y = Axis(f"{name} (log scale)", TIME, decades(*limits), log=True, domain=limits)
    across = alt.X(
        "load:N",
        sort=labels,
        axis=alt.Axis(title=None, labelAngle=0, labelLimit=110, labelOverlap="greedy"),
        scale=alt.Scale(paddingInner=0.2),
    )
    beside = alt.XOffset("series:N", sort=list(names), scale=alt.Scale(paddingInner=0.25))
    colour = alt.Color("series:N", scale=alt.Scale(domain=list(names)), legend=None)
    vertical: dict[str, Any] = {"axis": alt.Axis(**y.build()), "scale": y.scale(zero=False)}
    tips = [alt.Tooltip(field=name, type="nominal", title=name) for name in _TIPS]
    drawn = alt.Chart(alt.InlineData(values=rows)).transform_filter(SHOWN)
    layers = [
        drawn.mark_rule(strokeWidth=1.5).encode(
            across, beside, alt.Y("low:Q", **vertical), alt.Y2("high:Q"), colour, tooltip=tips
        ),
        drawn.mark_bar(fillOpacity=0.35, strokeWidth=1.5, minBandSize=4).encode(
            across, beside, alt.Y("p25:Q", **vertical), alt.Y2("p75:Q"), colour,
            alt.Stroke("series:N", scale=alt.Scale(domain=list(names)), legend=None), tooltip=tips,
        ),
        drawn.mark_tick(thickness=2.5, orient="horizontal").encode(
            across, beside, alt.Y("p50:Q", **vertical), tooltip=tips
        ),
    ]  # fmt: skip
    return as_panel(name, f"Trials, {name}: {_said(boxes)}.", layers)


def _row(box: Spread) -> dict[str, Any]:
    """Return a box as Vega's datum; an end that is infinite is left out."""
    p75 = box.p75 if math.isfinite(box.p75) else box.median
    ends = (box.minimum, box.p25, box.median, box.p75, box.maximum)
    return {
        "series": box.arm,
        "load": box.point_label,
        "low": box.minimum,
        "p25": box.p25,
        "p50": box.median,
        "p75": p75,
        "high": box.maximum if math.isfinite(box.maximum) else p75,
        "arm": box.arm,
        "router": box.router,
        "trials": str(box.trials),
        **{name: format_ns(value) for name, value in zip(_ENDS, ends, strict=True)},
    }


def _said(boxes: Sequence[Spread]) -> str:
    parts = []
    for arm in dict.fromkeys(box.arm for box in boxes):
        last = [box for box in boxes if box.arm == arm][-1]
        parts.append(
            f"{arm} at {last.point_label} from {format_ns(last.minimum)} to "
            f"{format_ns(last.maximum)}, median {format_ns(last.median)}"
        )
    return "; ".join(parts)

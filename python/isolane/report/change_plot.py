"""A plot of changes: a line for each figure, with its interval; a rule where nothing changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import altair as alt

from isolane.report.chart import SHOWN, Panel, Row, as_panel, tooltip, unchecked

LINE: Final = 19
"""Height of a line, pixels."""


@unchecked
def change_panel(
    rows: Sequence[tuple[str, Row]], series: Sequence[str], x_title: str, words: str
) -> Panel:
    """Draw changes below each other, each as a point in its interval.

    Parameters
    ----------
    rows
        Name of the line, and the change as `x` with `low` and `high`, in per cent.
    series
        All series of the figure: they fix colours.
    x_title
        Title of the axis.
    words
        Description for those who cannot see the plot.
    """
    values = [{**row.values(), "line": name} for name, row in rows]
    names = list(dict.fromkeys(name for name, _ in rows))
    tips = tooltip([row for _, row in rows])
    up = alt.Y("line:N", sort=names, axis=alt.Axis(title=None, labelLimit=320))
    across, colour = (
        alt.Axis(title=x_title, tickCount=5),
        alt.Color("series:N", scale=alt.Scale(domain=list(series)), legend=None),
    )
    drawn = alt.Chart(alt.InlineData(values=values)).transform_filter(SHOWN)
    same = alt.Chart(alt.InlineData(values=[{"x": 0.0}]))
    layers = [
        same.mark_rule(strokeDash=[4, 4], opacity=0.7).encode(
            alt.X("x:Q", axis=across), tooltip=alt.TooltipValue(None)
        ),
        drawn.mark_rule(strokeWidth=2).encode(
            alt.X("low:Q", axis=across), alt.X2("high:Q"), up, colour, tooltip=tips
        ),
        drawn.mark_point(filled=True, size=60, opacity=1).encode(
            alt.X("x:Q", axis=across), up, colour, tooltip=tips
        ),
    ]
    return as_panel("", words, layers, LINE * len(names))

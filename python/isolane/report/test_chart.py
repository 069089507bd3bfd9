"""Plots are valid Vega-Lite, which nothing checks when a report is written."""

from __future__ import annotations

from pathlib import Path

import altair as alt
import pytest
from altair.utils import schemapi
from jsonschema import ValidationError  # type: ignore[import-untyped]

from isolane.report import test_data as data
from isolane.report.box_figure import box_figure
from isolane.report.change_plot import change_panel
from isolane.report.chart import (
    Axis,
    Gap,
    Panel,
    Row,
    TimeMarks,
    line_panel,
    stacked_panel,
    time_panel,
)
from isolane.report.figures import figures

X, Y = Axis("x", ticks=(1.0, 2.0)), Axis("y", log=True, domain=(1.0, 9.0))
ROWS = (
    Row("a", 1.0, 2.0, 1.0, 3.0, tip={"a.b [c]": "1"}),
    Row("b", 2.0, 2.0, 1.0, 3.0, published=True, tip={"point": "it's"}),
)
GAPS = (Gap("a", 2.0, {"point": "the second"}),)


def panels() -> list[Panel]:
    return [
        line_panel("lines", ROWS, "ab", X, Y, "words", level=1.0, gaps=GAPS),
        line_panel("nothing but gaps", (), "ab", X, Y, "words", gaps=GAPS),
        time_panel("over time", ROWS, "ab", (X, Y), "words", TimeMarks(1.5, [(2.0, 3.0)])),
        stacked_panel("bars", ROWS, "ab", X, Y, "words", marks=ROWS, gaps=GAPS),
        change_panel([("line", ROWS[0])], "ab", "change", "words"),
    ]


@pytest.mark.parametrize("text", [data.NOISY, data.SWEEP])
def test_every_plot_of_a_report_is_what_vega_lite_takes(text: str, tmp_path: Path) -> None:
    summary = data.run_folder(tmp_path / "run", text, 2).summary()
    assert summary is not None
    boxes = box_figure(summary)
    assert boxes is not None
    shown = [panel for figure in (*figures(summary), boxes) for panel in figure.panels]
    for panel in (*shown, *panels()):
        alt.LayerChart.validate(panel.spec)
    broken = {**shown[0].spec, "layer": [{"mark": "line", "encoding": {"x": {"field": 1}}}]}
    with pytest.raises(ValidationError):
        alt.LayerChart.validate(broken)
    assert schemapi.DEBUG_MODE, "nobody else's plots are left unchecked"

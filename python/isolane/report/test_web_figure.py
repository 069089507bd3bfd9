"""Reports of web requests: what their plots are of, and over what."""

from __future__ import annotations

from pathlib import Path

import pytest

from isolane.analysis.answer_words import headings
from isolane.report import test_data as data
from isolane.report.figures import figures
from isolane.report.points import across
from isolane.report.tables import results
from isolane.results.interval import Interval
from isolane.results.results import Summary


@pytest.fixture
def web(tmp_path: Path) -> Summary:
    """A run of frames as one of web requests, asked for another object at each point."""
    found = data.run_folder(tmp_path / "run").summary()
    assert found is not None
    bits = Interval(median=5e8, low=4e8, high=6e8, n=5)
    cells = [
        cell.model_copy(
            update={"mode": "http", "object_bytes": 1024 * cell.point, "content_bps": bits}
        )
        for cell in found.cells
    ]
    assert found.answer is not None
    rows = tuple(row.model_copy(update={"mode": "http"}) for row in found.answer.rows)
    answer = found.answer.model_copy(update={"rows": rows})
    return found.model_copy(update={"cells": tuple(cells), "capacity": None, "answer": answer})


def test_objects_are_the_axis_and_content_is_drawn(web: Summary) -> None:
    positions = across(web)
    assert positions.axis.title == "object (bytes)"
    assert positions.at[2] == 2048
    drawn = {figure.id: figure for figure in figures(web)}
    assert drawn["content"].panels
    for name in ("throughput", "content", "delay"):
        assert "frames" not in f"{drawn[name].title} {drawn[name].caption}".lower()


def test_frames_have_no_content(tmp_path: Path) -> None:
    found = data.run_folder(tmp_path / "run").summary()
    assert found is not None
    assert "content" not in {figure.id for figure in figures(found)}


def test_tables_and_answer_are_in_requests(web: Summary) -> None:
    table = results(web)
    assert "Content" in table.headings
    offered = table.rows[0][table.headings.index("Offered")].text
    assert offered.endswith("rps")
    hints = dict(zip(table.headings, table.hints, strict=True))
    assert "requests" in hints["Offered"]
    assert "requests" in hints["Delivered"]
    assert web.answer is not None
    assert "p99 (alone)" in headings(web.answer)

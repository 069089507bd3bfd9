"""Tests of arms and loads in a report; the data is synthetic (see test_data)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from isolane.analysis.test_cells import summary_of
from isolane.report import arm_tables, render
from isolane.report import test_data as data
from isolane.report.box_figure import box_figure
from isolane.report.chart import Figure
from isolane.results.results import Summary


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    return summary_of(tmp_path_factory.mktemp("found"))


def values_of(drawn: Figure) -> list[dict[str, Any]]:
    (values,) = drawn.panels[0].spec["datasets"].values()
    found: list[dict[str, Any]] = values
    return found


def test_the_tables_have_a_line_for_each_two_arms_and_each_arm(found: Summary) -> None:
    compared, trends = arm_tables.differences(found), arm_tables.trends(found)
    assert compared.headings == (
        "Metric", "Arm a", "Arm b", "Rounds", "b - a", "Effect", "P, corrected", "Verdict",
    )  # fmt: skip
    assert len(compared.rows) == len(trends.rows) == 9
    cpu = next(row for row in compared.rows if row[0].text == "CPU per frame")
    assert [value.text for value in cpu] == [
        "CPU per frame", "direct", "bridge", "5 + 5", "+300 ns (+26 % [+26, +26])", "+1", "0.024",
        "different",
    ]  # fmt: skip
    assert [heading for heading, _ in arm_tables.meanings((compared, trends))] == [
        "Rounds", "b - a", "Effect", "P, corrected", "Verdict", "Tau-b",
    ]  # fmt: skip
    assert arm_tables.notes(found) == [
        "Are the arms different? (victim)",
        "Does the aggressor's load matter? (victim)",
    ]


def test_a_box_is_drawn_for_each_arm_at_each_load(found: Summary) -> None:
    drawn = box_figure(found)
    assert drawn is not None
    assert [panel.title for panel in drawn.panels] == [
        "delay, median",
        "delay, p99",
        "CPU per frame",
    ]
    rows = values_of(drawn)
    assert len(rows) == 3 * 5
    assert "bridge at aggressor 4x from " in drawn.panels[0].alt
    assert "one value per trial" in drawn.caption


def test_an_end_that_is_infinite_is_not_drawn(found: Summary) -> None:
    tests = found.arm_tests
    assert tests is not None
    cut = tests.spreads[0].model_copy(update={"p75": math.inf, "maximum": math.inf})
    lost = tests.spreads[1].model_copy(
        update=dict.fromkeys(("minimum", "p25", "median", "p75", "maximum"), math.inf)
    )
    only = tests.model_copy(update={"spreads": (cut, lost)})
    drawn = box_figure(found.model_copy(update={"arm_tests": only}))
    assert drawn is not None
    (row,) = values_of(drawn)
    assert row["p75"] == row["high"] == cut.median
    assert row["highest"] == "inf"
    none = tests.model_copy(update={"spreads": (lost,)})
    assert box_figure(found.model_copy(update={"arm_tests": none})) is None


def test_the_page_has_a_folded_section_and_markdown_the_tables(tmp_path: Path) -> None:
    folder = data.run_folder(tmp_path / "run")
    page = render(folder.path).read_text()
    section = page[page.index('id="arm-tests"') : page.index('id="setup"')]
    assert "Are the arms different?" in section
    assert section.index("<details>") < section.index("+300 ns")
    assert section.count('class="plot"') == 3
    text = render(folder.path, "md", tmp_path / "r.md").read_text()
    assert "## Are the arms different?" in text
    assert "| CPU per frame | direct | bridge | 5 + 5 | +300 ns" in text


def test_a_run_with_nothing_to_compare_has_no_section(tmp_path: Path) -> None:
    text = data.LADDER.replace("[0.2x, 0.4x, 0.6x, 0.8x, 1x, 1.2x]", "0.2x")
    text = text.replace("  - {name: bridge, path: bridge}\n", "")
    folder = data.run_folder(tmp_path / "run", text[: text.index("published")], 2)
    assert 'id="arm-tests"' not in render(folder.path).read_text()
    assert "different?" not in render(folder.path, "md", tmp_path / "r.md").read_text()


def test_a_run_of_an_older_version_has_no_section(tmp_path: Path) -> None:
    folder = data.run_folder(tmp_path / "run", repeats=2)
    summary = folder.summary()
    assert summary is not None
    folder.write_summary(summary.model_copy(update={"arm_tests": None}))
    assert 'id="arm-tests"' not in render(folder.path).read_text()

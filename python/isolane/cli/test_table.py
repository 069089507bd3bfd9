"""The table that a run prints, on a run that lacks a point in one arm."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from isolane.analysis.test_missing import isolated
from isolane.cli.table import print_summary


def printed(folder: Path, arms: set[str]) -> str:
    out = io.StringIO()
    found = isolated(folder, lambda trial: trial.point == 4 and trial.arm in arms)
    print_summary(found, Console(file=out, width=160))
    return out.getvalue()


def test_a_missing_point_has_its_rows_and_its_arm_no_verdict(tmp_path: Path) -> None:
    shown = printed(tmp_path, {"bridge"})
    rows = [line.split() for line in shown.splitlines() if line.startswith("bridge   aggressor 4x")]
    assert [row[3] for row in rows] == ["victim", "aggressor"]
    assert all(row[-2:] == ["no", "verdict"] for row in rows)
    assert "isolated: direct and macvlan\nno verdict: bridge\nNo verdict at aggr" in shown
    assert shown.count("3 of 3 trials invalid") == 1, "the reason once is enough"


def test_a_run_that_lacks_nothing_says_nothing_of_it(tmp_path: Path) -> None:
    shown = printed(tmp_path, set())
    assert "no verdict" not in shown
    assert "isolated: direct, bridge and macvlan\n" in shown


def test_arms_and_loads_are_tested_in_the_form_of_a_table(tmp_path: Path) -> None:
    shown = printed(tmp_path, set())
    assert "Are the arms different? (victim)" in shown
    rows = [line.split() for line in shown.splitlines() if line.startswith("CPU per frame")]
    assert rows[0][3:8] == ["direct", "bridge", "3", "+", "3"]
    assert rows[0][-3:] == ["too", "few", "rounds"]
    assert "5 of each arm that tell the figure can (--repeats)" in shown
    assert "Does the aggressor's load matter? (victim)" in shown
    assert rows[1][3:] == ["direct", "5", "0", "1.000", "no", "trend", "shown"]
    delays = [line.split() for line in shown.splitlines() if line.startswith("delay, p99")]
    assert delays[1][2:4] == ["direct", "5"]
    assert delays[1][-1] == "rises"

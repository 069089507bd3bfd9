"""The table that a run prints, on a run that lacks a point in one arm."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from isolane.cli.table import print_summary
from isolane.run.test_missing import isolated


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

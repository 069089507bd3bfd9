from __future__ import annotations

from pathlib import Path

import pytest

from isolane.cli.test_app import isolane
from isolane.report.test_data import run_folder
from tests.live import in_process


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report") / "run"
    run_folder(folder, repeats=2)
    return folder


def test_writes_beside_the_run_and_prints_the_path(run: Path) -> None:
    shown = in_process("report", str(run), "--format", "md")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout == f"{run / 'report.md'}\n"
    assert (run / "report.md").stat().st_size > 0


def test_to_stdout_and_to_a_file_is_the_same(run: Path, tmp_path: Path) -> None:
    target = tmp_path / "cells.csv"
    to_file = in_process("report", str(run), "--format", "csv", "--output", str(target))
    to_stdout = isolane("report", str(run), "--format", "csv", "--output", "-")
    assert to_file.returncode == to_stdout.returncode == 0
    assert to_stdout.stdout.splitlines() == target.read_text().splitlines()
    assert not (run / "report.csv").exists()


def test_no_run_is_a_usage_error(tmp_path: Path) -> None:
    shown = in_process("report", str(tmp_path / "absent"))
    assert shown.returncode == 2
    assert str(tmp_path / "absent") in shown.stderr

from __future__ import annotations

import json
from pathlib import Path

import pytest

from isolane.report import test_data as data
from tests.live import in_process

REPEATS = 5


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two runs; in the second one everything takes twice the processor time."""
    folder = tmp_path_factory.mktemp("runs")
    first = data.run_folder(folder / "first" / "run", repeats=REPEATS)
    dear = []
    for trial in first.trials():
        routers = [
            router.model_copy(
                update={"cpu_caused_ns_per_frame": 2 * (router.cpu_caused_ns_per_frame or 0.0)}
            )
            for router in trial.routers
        ]
        dear.append(trial.model_copy(update={"routers": tuple(routers)}))
    second = data.run_folder(folder / "second" / "run", repeats=REPEATS, trials=dear)
    return first.path, second.path


def test_twelve_lines_say_what_is_worse_and_the_status_is_four(runs: tuple[Path, Path]) -> None:
    done = in_process("compare", *runs)
    assert done.returncode == 4
    lines = done.stdout.splitlines()
    assert len(lines) <= 12
    assert max(map(len, lines)) <= 100
    number = next(i for i, line in enumerate(lines) if line.startswith("arm "))
    assert lines[number].split() == [
        "arm", "load", "router", "figure", "before", "after", "change", "outcome",
    ]  # fmt: skip
    assert "+100 % [+100, +100]" in lines[number + 1]
    assert lines[number + 1].rstrip().endswith("worse")
    assert any("more figures: --details" in line for line in lines)
    assert "27 figures worse by more than 1 % (--tolerance)" in done.stderr


def test_all_figures_are_told_when_asked_for(runs: tuple[Path, Path]) -> None:
    done = in_process("compare", *runs, "--details")
    assert sum("no difference shown" in line for line in done.stdout.splitlines()) > 100
    found = json.loads(in_process("compare", *runs, "--json").stdout)
    assert len(found["differences"]) == 135
    assert sum(each["beyond_tolerance"] for each in found["differences"]) == 27


def test_nothing_worse_is_status_zero(runs: tuple[Path, Path]) -> None:
    first, second = runs
    assert in_process("compare", first, first).returncode == 0
    assert in_process("compare", second, first).returncode == 0, "all is better"
    assert in_process("compare", first, second, "--tolerance", "100%").returncode == 0


def test_a_report_is_written(runs: tuple[Path, Path], tmp_path: Path) -> None:
    page = tmp_path / "changes.html"
    done = in_process("compare", *runs, "--output", page)
    assert f"report: {page}" in done.stderr
    assert len(done.stdout.splitlines()) <= 11
    text = page.read_text()
    assert "27 figures worse by more than 1 %" in text
    assert "CPU time per frame" in text
    refused = in_process("compare", *runs, "--output", tmp_path)
    assert refused.returncode == 1
    assert "it is a directory" in refused.stderr

from __future__ import annotations

import io
from itertools import count

import pytest
from rich.console import Console

from isolane.cli.progress import bar, lines, progress, whole, whole_bar


def test_a_line_for_each_tenth_with_the_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    seconds = iter(range(0, 1000, 2))  # two seconds between two looks at the clock
    tell = lines("trials", clock=lambda: float(next(seconds)))
    for done in range(41):
        tell(done, 40, "any")
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 11
    assert said[0] == "isolane: 0 of 40 trials"
    assert said[1] == "isolane: 4 of 40 trials, about 18 s left"
    assert said[-1] == "isolane: 40 of 40 trials, about 0 s left"


def test_each_part_is_counted_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    seconds = count(0.0, 10.0)
    tell = lines("simulations of {label}", by_part=True, clock=lambda: next(seconds))
    for label in ("figure 7", "figure 8"):
        for done in (1, 2):
            tell(done, 2, label)
    assert capsys.readouterr().err.splitlines() == [
        "isolane: 1 of 2 simulations of figure 7, about 10 s left",
        "isolane: 2 of 2 simulations of figure 7, about 0 s left",
        "isolane: 1 of 2 simulations of figure 8",
        "isolane: 2 of 2 simulations of figure 8, about 0 s left",
    ]


def test_going_back_or_another_total_begins_anew(capsys: pytest.CaptureFixture[str]) -> None:
    tell = lines("trials")
    for done, total in ((9, 10), (9, 10), (0, 10), (0, 30), (1, 30)):
        tell(done, total, "any")
    said = [line.partition(",")[0] for line in capsys.readouterr().err.splitlines()]
    assert said == [
        "isolane: 9 of 10 trials",
        "isolane: 0 of 10 trials",
        "isolane: 0 of 30 trials",
    ]


def test_without_a_terminal_there_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("trials") as tell:
        tell(1, 2, "any")
    found = capsys.readouterr()
    assert found.err.startswith("isolane: 1 of 2 trials, about ")
    assert found.out == ""


def test_a_bar_says_what_is_done_and_how_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100)
    with bar(console) as tell:
        tell(3, 12, "attack:[vr1]")
        tell(0, 5, "alone:vr1")
        console.print("between")
    assert "0/5" in out.getvalue()
    assert "alone:vr1" in out.getvalue()


def test_work_that_knows_its_time_tells_each_tenth(capsys: pytest.CaptureFixture[str]) -> None:
    with whole("of the verification") as tell:
        for step in range(100):
            tell(step / 100, 120.0 - step, "everyone")
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 10
    assert said[0] == "isolane: 0 % of the verification, about 120 s left"
    assert said[9] == "isolane: 90 % of the verification, about 30 s left"


def test_the_bar_of_work_that_knows_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    out = io.StringIO()
    with whole_bar(Console(file=out, force_terminal=True, width=100)) as tell:
        tell(0.25, 90.0, "attack:gold")
    shown = out.getvalue()
    assert "attack:gold" in shown
    assert "25%" in shown
    assert "about 90 s left" in shown

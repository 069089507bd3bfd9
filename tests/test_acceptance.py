"""The course of an acceptance, on a clock that stands still unless something is measured."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from isolane.errors import MeasurementError
from isolane.stats.promises import Bar

from acceptance.__main__ import main
from acceptance.disturbance import Watch
from acceptance.judging import Course
from acceptance.results import Finding, Report
from acceptance.subject import Attempt, Command, Decided, Figures, Promise, Subject
from acceptance.subjects import ALL
from acceptance.table import show

NAME = "kept"
BAR = Bar(1.0, 0.1)


class Quiet(Watch):
    def begin(self) -> None:
        pass

    def end(self) -> None:
        self.found.steal.append(0.25)


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def subject(
    clock: Clock,
    values: Iterator[float],
    name: str = "one",
    *,
    opened: list[str] | None = None,
) -> Subject:
    @contextmanager
    def opening(folder: Path) -> Iterator[Attempt]:
        assert folder.is_dir()
        if opened is not None:
            opened.append(folder.name)

        def attempt() -> Figures:
            clock.now_s += 1.0
            return {NAME: [next(values)]}

        yield attempt

    return Subject(name, (Promise(NAME, BAR),), opening, 1.0)


def course(
    clock: Clock, folder: Path, subjects: Sequence[Subject | Command], limit_s: float = 1000.0
) -> Report:
    return Course(subjects, folder, limit_s, clock=clock, watching=Quiet).run()


@pytest.mark.parametrize(
    ("value", "answer"), [(1.0, "held"), (0.91, "held"), (0.89, "broken"), (0.0, "broken")]
)
def test_it_measures_until_all_is_decided(value: float, answer: str, tmp_path: Path) -> None:
    clock = Clock()
    report = course(clock, tmp_path, [subject(clock, itertools.repeat(value))])
    (found,) = report.findings
    assert found.answer == answer
    assert found.error_bound is not None
    assert found.error_bound <= 0.05
    assert 5 <= len(found.values) == clock.now_s < 12, "as many as are needed, and no more"
    assert report.disturbances["one"].steal == [0.25] * len(found.values)


def test_more_promises_need_more_values(tmp_path: Path) -> None:
    def needed(promises: int) -> int:
        clock = Clock()
        subjects = [subject(clock, itertools.repeat(1.0), f"no {n}") for n in range(promises)]
        report = course(clock, tmp_path / str(promises), subjects)
        assert {found.answer for found in report.findings} == {"held"}
        return max(len(found.values) for found in report.findings)

    assert needed(1) < needed(30)


def test_what_goes_to_and_fro_is_undecided_and_gets_the_time_that_is_left(tmp_path: Path) -> None:
    clock, opened = Clock(), list[str]()
    wavering = subject(clock, itertools.cycle([0.0, 1.0]), "wavering", opened=opened)
    steady = subject(clock, itertools.repeat(1.0), "steady", opened=opened)
    report = course(clock, tmp_path, [wavering, steady], limit_s=100.0)
    first, second = report.findings
    assert (first.answer, second.answer) == ("undecided", "held")
    assert first.why == f"kept in {sum(first.values):.0f} of {len(first.values)} by the end"
    assert len(first.values) > 60
    assert 100 <= report.took_s < 102
    assert opened[:3] == ["0-wavering", "0-steady", "1-wavering"]


def test_a_subject_that_fails_says_why_and_the_others_go_on(tmp_path: Path) -> None:
    clock = Clock()

    def fails(_folder: Path) -> AbstractContextManager[Attempt]:
        raise MeasurementError("the wire is gone\nand more")

    bad = Subject("bad", (Promise(NAME, BAR),), fails, 1.0)
    report = course(clock, tmp_path, [bad, subject(clock, itertools.repeat(1.0))])
    assert [(found.answer, found.why) for found in report.findings] == [
        ("undecided", "the wire is gone"), ("held", None),
    ]  # fmt: skip


def test_an_attempt_that_says_nothing_counts_for_nothing(tmp_path: Path) -> None:
    clock = Clock()

    @contextmanager
    def silent(_folder: Path) -> Iterator[Attempt]:
        def attempt() -> Figures:
            clock.now_s += 1
            return {}

        yield attempt

    report = course(clock, tmp_path, [Subject("s", (Promise(NAME, BAR),), silent, 1.0)], 20.0)
    assert [(found.answer, found.values) for found in report.findings] == [("undecided", ())]


def command(run: Callable[[Path], Sequence[Decided]]) -> Command:
    return Command("verify", ("first", "second"), run, 10.0)


def test_a_command_decides_by_itself_and_what_it_left_out_is_told(tmp_path: Path) -> None:
    told = [Decided("first", "broken", "0.5 of 0.8"), Decided("third", "not measured", "no NIC")]
    report = course(Clock(), tmp_path, [command(lambda _: told)])
    assert [(found.promise, found.answer, found.why) for found in report.findings] == [
        ("first", "broken", "0.5 of 0.8"),
        ("second", "undecided", "the time ended before it was measured"),
        ("third", "not measured", "no NIC"),
    ]


def test_a_command_that_fails_leaves_its_promises_undecided(tmp_path: Path) -> None:
    def fails(_folder: Path) -> Sequence[Decided]:
        raise OSError("no such program")

    report = course(Clock(), tmp_path, [command(fails)])
    assert {(found.answer, found.why) for found in report.findings} == {
        ("undecided", "no such program")
    }


def test_the_table_has_what_is_broken_first_and_json_has_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock()
    subjects = [
        subject(clock, itertools.repeat(1.0), "good"), subject(clock, itertools.repeat(0.5), "bad"),
    ]  # fmt: skip
    report = course(clock, tmp_path, subjects)
    show(report)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("bad")
    assert ">= 0.9" in lines[1]
    assert "broken" in lines[1]
    assert lines[2].startswith("good")
    assert any(line.startswith("1 broken, 0 undecided, 1 held") for line in lines)
    assert any("the hypervisor had 25.0 %" in line for line in lines)
    whole = json.loads(json.dumps(report.as_json({"cores": 2})))
    good, bad = whole["findings"]
    assert (good["verdict"], bad["verdict"]) == ("held", "broken")
    assert bad["measured"] == 0.5
    assert bad["interval"] == [0.5, 0.5]
    assert (bad["kept"], bad["number"]) == (0, len(bad["values"]))
    assert whole["disturbances"]["bad"]["worst_steal"] == 0.25
    json.dumps(Finding("s", "p", "held").as_json())


def test_commands_end_by_signals_that_its_own_shell_ignores(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job in the background: the commands that it runs would not end by SIGINT."""
    monkeypatch.setattr("sys.argv", ["acceptance", "--list"])
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert main() == 0
        told = "import signal; print(signal.getsignal(signal.SIGINT) == signal.SIG_IGN)"
        asked = subprocess.run([sys.executable, "-c", told], capture_output=True, check=True)
    finally:
        signal.signal(signal.SIGINT, before)
    assert asked.stdout == b"False\n"
    assert capsys.readouterr().out.splitlines() == [each.name for each in ALL]


def test_names_are_unique() -> None:
    names = [each.name for each in ALL]
    assert len(set(names)) == len(names)
    for each in ALL:
        if isinstance(each, Subject):
            assert len({promise.name for promise in each.promises}) == len(each.promises)

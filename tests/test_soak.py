"""What the soak says of failures, and that its busy processes are busy and end."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from isolane.procfs import named_processes, words_of

from tests import soak
from tests.live import LIMIT_S

REPORT = """\
<testsuites><testsuite>
<testcase classname="tests.test_a" name="test_good" />
<testcase classname="tests.test_a" name="test_bad[4]"><failure message="no" /></testcase>
<testcase classname="tests.test_b" name="test_leaves"><error message="left" /></testcase>
<testcase classname="tests.test_b" name="test_not_here"><skipped message="no root" /></testcase>
</testsuite></testsuites>
"""


def test_failures_and_errors_count_skips_do_not() -> None:
    assert soak.failures(REPORT) == ["tests.test_a::test_bad[4]", "tests.test_b::test_leaves"]
    told = soak.details(REPORT)
    assert [each.partition("\n")[0] for each in told] == [
        "--- tests.test_a::test_bad[4]", "--- tests.test_b::test_leaves",
    ]  # fmt: skip
    counts = Counter({"a": 1, "b": 3})
    assert soak.told(counts, 4) == "3 of 4: b\n1 of 4: a"
    assert soak.told(Counter(), 4) == "soak: no failure in 4 turns"


@pytest.mark.parametrize("status", [0, 1])
def test_a_turn_without_a_report_or_with_a_bad_end_has_failed(status: int, tmp_path: Path) -> None:
    report, other = tmp_path / "report.xml", tmp_path / "other.xml"
    good = "<testsuite><testcase classname='a' name='b'/></testsuite>"

    def writing(path: Path, status: int = 0) -> list[str]:
        words = f"open({str(path)!r}, 'w').write({good!r}); raise SystemExit({status})"
        return [sys.executable, "-c", words]

    report.write_text(good)  # of the turn before
    ends = [sys.executable, "-c", f"raise SystemExit({status})"]
    (told,) = soak.turn({report: ends, other: writing(other)})
    assert told.startswith("no report: ")
    found = soak.turn({other: writing(other), report: writing(report, status)})
    assert found == (["report: pytest ended with 1"] if status else [])


def test_busy_processes_end() -> None:
    mine = f"os.getppid() == {os.getpid()}".encode()

    def hogs() -> list[int]:
        return [pid for pid, _ in named_processes() if mine in b"\0".join(words_of(pid))]

    with soak.disturbed({min(os.sched_getaffinity(0))}, soak.BUSY):
        assert len(hogs()) == 1
    assert hogs() == []


@pytest.mark.root
@pytest.mark.usefixtures("needs_root")
def test_a_core_is_taken_from_all_others() -> None:
    core = max(os.sched_getaffinity(0))
    with soak.disturbed({core}, soak.TAKEN) as (process,):
        deadline = time.monotonic() + LIMIT_S
        while os.sched_getscheduler(process.pid) != os.SCHED_FIFO:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert os.sched_getaffinity(process.pid) == {core}
    assert process.returncode == -signal.SIGKILL


def test_a_disturbance_that_was_none_is_told() -> None:
    none = soak.Disturbance(", beside nothing", "raise SystemExit(%d - %d)")
    with (
        pytest.raises(RuntimeError, match="were not, beside nothing"),
        soak.disturbed({0}, none) as (process,),
    ):
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)


def test_half_of_the_turns_are_undisturbed() -> None:
    assert [how.program is None for how in soak.TURNS] == [True, False, True, False]

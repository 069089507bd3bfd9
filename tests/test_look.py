"""What a look at the host must see, whatever moment it comes at."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest
from isolane.procfs import thread_name
from isolane.trials.live.cores import staying_on

from tests.look import MARK, environment_of

AT_ONCE = 30


@pytest.fixture
def one_core() -> Iterator[None]:
    """One core for this process and its children: a child goes on after what asks for it.

    Not as tools/harmless has it, either: of SCHED_IDLE nobody preempts a child.
    """
    policy = os.sched_getscheduler(0)
    with staying_on((max(os.sched_getaffinity(0)),)):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        yield
        os.sched_setscheduler(0, policy, os.sched_param(0))


@pytest.mark.usefixtures("one_core")
def test_a_process_is_known_as_soon_as_it_has_been_started() -> None:
    """The kernel has neither its environment nor its name yet, in nearly every start here."""
    for number in range(AT_ONCE):
        made = {**os.environ, MARK: str(number)}
        with subprocess.Popen(["sleep", "600"], env=made) as process:
            found, name = environment_of(process.pid), thread_name(process.pid)
            process.kill()
        assert f"{MARK}={number}".encode() in found.split(b"\0")
        assert name == "sleep"


def test_an_empty_environment_is_not_waited_for() -> None:
    with subprocess.Popen(["sleep", "600"], env={}) as process:
        found = environment_of(process.pid)
        process.kill()
    assert found == b""


def test_what_has_no_program_has_no_environment() -> None:
    """A kernel thread, and a process that has ended and that nobody has waited for yet."""
    with subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        for number in (2, ended.pid):
            with pytest.raises(OSError, match=f"/proc/{number}/e"):
                environment_of(number)

"""Guests that really boot: ready, asked through their kernel, ended whatever happens."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from isolane.errors import TestbedError

from tests.guests import booting
from tests.guests.booting import LIMIT_S, Starter, await_none, processes_of

pytestmark = [pytest.mark.root, pytest.mark.beside]


@pytest.fixture(params=["uml", "qemu"])
def start(request: pytest.FixtureRequest) -> Starter:
    """Make a guest of each sort that this host can run."""
    fixture = {"uml": "needs_guest_kernel", "qemu": "needs_qemu_guests"}[request.param]
    request.getfixturevalue(fixture)
    made: Starter = getattr(booting, request.param)
    return made


LONG = """\
sh -c 'sleep 86400; :' x "$(seq 20000)" &
until grep -q 20000 "/proc/$!/cmdline"; do :; done
echo "its number is $!"
"""
"""Starts a process whose command line is 108,894 bytes long."""


def test_a_guest_boots_is_asked_and_ends(start: Starter, tmp_path: Path) -> None:
    setup = "ip link set lo up; ip address add 198.18.0.1/24 dev lo"
    with start(tmp_path, script=f"{setup}\n{LONG}") as one:
        told = re.search(r"its number is (\d+)", one.last_lines)
        assert told is not None, one.last_lines
        assert one.is_running
        assert "lo:" in one.proc("net/dev")
        assert one.proc("sys/kernel/ostype").strip() == "Linux"
        assert one.proc("version") != Path("/proc/version").read_text()
        lines = one.proc(f"{told[1]}/cmdline").split("\0")[-2].split()
        assert lines == [str(number) for number in range(1, 20_001)], "many, and all of them"
        for name, words in (("nothing", "has no /proc/nothing"), ("../etc/passwd", "cannot be")):
            with pytest.raises(TestbedError, match=words):
                one.proc(name)
        assert processes_of(tmp_path)
    await_none(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_it_has_its_core_and_its_name_alone_and_is_missed_when_it_dies(
    start: Starter, tmp_path: Path
) -> None:
    cores = os.sched_getaffinity(0)
    guest = start(tmp_path, core=max(cores))
    guest.start()
    try:
        assert os.sched_getaffinity(guest.process) == cores
        while not guest.is_ready(0.1):
            pass
        assert any(cores_of(thread) for thread in guest.threads())
        assert all(cores_of(thread) <= {max(cores)} for thread in guest.threads())
        with pytest.raises(TestbedError, match="a guest named one is there"):
            start(tmp_path).__enter__()
        assert guest.is_running
        for process in processes_of(tmp_path):
            with contextlib.suppress(ProcessLookupError):  # it went with the one before it
                os.kill(process, signal.SIGKILL)
        with pytest.raises(TestbedError, match="has ended"):
            guest.proc("net/dev")
    finally:
        guest.close()


def cores_of(thread: int) -> set[int]:
    """Cores that a thread may use."""
    with contextlib.suppress(ProcessLookupError):  # threads come and go
        return os.sched_getaffinity(thread)
    return set()


def test_a_guest_that_gives_up_is_told_with_its_last_words(start: Starter, tmp_path: Path) -> None:
    with pytest.raises(TestbedError, match="guest one was not ready and has ended") as raised:
        start(tmp_path, script="echo 'no such luck'; exit 1").__enter__()
    assert "no such luck" in str(raised.value)
    await_none(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_one_that_is_never_ready_is_ended_after_the_limit(start: Starter, tmp_path: Path) -> None:
    with pytest.raises(TestbedError, match="guest slow was not ready within 1 s"):
        start(tmp_path, "slow", "sleep 86400", limit_s=1.0).__enter__()
    await_none(tmp_path)


CHILD = """\
import sys, time
from pathlib import Path
from tests.guests import booting
with booting.{start}(Path(sys.argv[1]), "orphan"):
    print("ready", flush=True)
    time.sleep(3600)
"""


def test_a_guest_ends_with_whoever_started_it(start: Starter, tmp_path: Path) -> None:
    words = [sys.executable, "-c", CHILD.format(start=start.__name__), str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        assert len(processes_of(tmp_path)) > 1
        child.kill()
        child.wait(LIMIT_S)
    await_none(tmp_path)

"""The pacemaker as a setting: it is found by any command, replaced, and ended."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from isolane.enforce.host_access import Host
from isolane.enforce.settings import pacemaking
from isolane.enforce.settings.pacemaking import Pacemaker, running
from isolane.errors import TestbedError
from isolane.testbed import kernel
from isolane.testbed.namespace_thread import run_in_thread

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: real-time threads"),
]
GROUP = f"isolane-test-pacemaker-{os.getpid()}"


def _work(thread: int) -> dict[str, object]:
    routers = [{"threads": [thread], "queues": []}]
    core = {"core": 0, "nic_threads": [], "routers": routers, "machines": []}
    return {"table": None, "cores": [core]}


@pytest.fixture
def host() -> Iterator[Host]:
    host = Host(group=GROUP)
    yield host
    Pacemaker(GROUP).write(host, None)
    host.close()


def test_it_is_found_replaced_and_ended(host: Host) -> None:
    setting, work = Pacemaker(GROUP), _work(os.getpid())
    assert setting.read(host) is None
    setting.write(host, work)
    assert setting.read(host) == work
    (first,) = [process for process, _ in running(GROUP)]
    threads = Path(f"/proc/{first}/task").iterdir()
    assert {os.sched_getscheduler(int(thread.name)) for thread in threads} == {
        os.SCHED_OTHER,
        os.SCHED_FIFO,
    }
    other = _work(os.getppid())
    setting.write(host, other)
    assert setting.read(host) == other
    assert [process for process, _ in running(GROUP)] != [first]
    setting.write(host, None)
    assert setting.read(host) is None
    assert list(running(GROUP)) == []


def test_it_ends_with_the_threads_that_it_looks_after(host: Host) -> None:
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    try:
        Pacemaker(GROUP).write(host, _work(child))
        ((process, _),) = running(GROUP)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    deadline = time.monotonic() + 300
    while list(running(GROUP)) or process in pacemaking._children:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with pytest.raises(ChildProcessError):  # it was asked after
        os.waitpid(process, 0)


def test_it_keeps_no_file_of_whoever_started_it(host: Host, tmp_path: Path) -> None:
    file = tmp_path / "lock"
    descriptor = os.open(file, os.O_CREAT | os.O_RDWR)
    os.set_inheritable(descriptor, True)  # as flock(1) hands its lock on to its command
    try:
        Pacemaker(GROUP).write(host, _work(os.getpid()))
        ((process, _),) = running(GROUP)
        opened = {str(path.readlink()) for path in Path(f"/proc/{process}/fd").iterdir()}
        assert str(file) not in opened
    finally:
        os.close(descriptor)


def test_it_is_in_the_namespace_that_the_command_began_in() -> None:
    def elsewhere() -> None:
        host = Host(group=GROUP)
        home = Path("/proc/thread-self/ns/net").stat().st_ino
        kernel.unshare_net()  # as in a router's, whose interfaces the command has just changed
        try:
            Pacemaker(GROUP).write(host, _work(os.getpid()))
            ((process, _),) = running(GROUP)
            assert Path(f"/proc/{process}/ns/net").stat().st_ino == home
            Pacemaker(GROUP).write(host, None)
        finally:
            host.close()

    run_in_thread(elsewhere)


def test_one_that_does_not_start_says_why(host: Host) -> None:
    work = _work(os.getpid())
    work["table"] = "no number"
    with pytest.raises(TestbedError, match=r"the pacemaker did not start: .*u32"):
        Pacemaker(GROUP).write(host, work)
    assert list(running(GROUP)) == []


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ("echo 'a long way'; sleep 0.3; echo 'no, this'", "no, this"),  # as a traceback is written
        ("echo 'it is not ready'; sleep 0.3; exit 1", "it is not ready"),
        ("exit 1", "it says nothing"),
    ],
)
def test_all_that_one_says_is_heard(
    host: Host, says: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{says}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    with pytest.raises(TestbedError, match=f"the pacemaker did not start: {why}$"):
        Pacemaker(GROUP).write(host, _work(os.getpid()))
    assert list(running(GROUP)) == []

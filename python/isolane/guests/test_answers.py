"""What a guest answers is taken apart, whatever else its console says."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from isolane.errors import TestbedError
from isolane.guests.guest import Guest, GuestPlan
from isolane.guests.guest_answers import ANSWERING, GO_ON, STOP, in_time
from isolane.procfs import children, thread_name


class Shell(Guest):
    """A shell of this host that answers as a guest does."""

    PROGRAM = "sh"

    def __init__(self, before: str = "") -> None:
        super().__init__(GuestPlan("shell"), 300.0)
        self.before = before
        script = f"{before}\n{ANSWERING}".replace("; do\n", f"; do\n    {NOISE}\n")
        self._process = subprocess.Popen(
            ["sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)

    @staticmethod
    def mark(folder: Path) -> str:
        return str(folder)

    def _check(self) -> None: ...

    def _prepare(self) -> None: ...

    def _mounts(self) -> list[str]:
        return []

    def _command(self) -> list[str]:
        return []

    def _processors(self, emulator: int) -> list[int]:
        return [emulator]

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


NOISE = "printf 'a message of the kernel\\r\\n'"


def test_several_files_are_one_question() -> None:
    names = ("version", "sys/kernel/ostype", "cmdline")
    shell = Shell()
    try:
        for _ in range(12):  # of two digits, too
            shell.ask(*names)
            told = shell.answer()
            assert told == {name: Path("/proc", name).read_text() for name in names}
        assert shell.proc("version") == Path("/proc/version").read_text()
    finally:
        shell.close()


def test_an_answer_that_nobody_waited_for_is_not_that_to_the_next_question() -> None:
    shell = Shell("sleep 0.2")
    try:
        shell.ask("version")
        shell.ask("sys/kernel/ostype")
        assert shell.answer() == {"sys/kernel/ostype": "Linux\n"}
    finally:
        shell.close()


@pytest.mark.parametrize(
    ("name", "reason"),
    [("nothing", "guest shell has no /proc/nothing"), ("../etc/passwd", "cannot be asked for")],
)
def test_files_that_are_not_there(name: str, reason: str) -> None:
    shell = Shell()
    try:
        with pytest.raises(TestbedError, match=reason):
            shell.proc(name)
        assert shell.proc("version") == Path("/proc/version").read_text()
    finally:
        shell.close()


def test_its_work_goes_on_and_stops_and_is_missed_when_it_has_ended() -> None:
    shell = Shell("sleep 1000 & work_cpu=$!")
    try:
        for order in (GO_ON, STOP, GO_ON):
            shell.tell_work({"cpu": order})
            shell.await_work()
        (worker,) = sleepers(shell)
        os.kill(worker, signal.SIGKILL)
        until(lambda: has_ended(worker), "it ends")
        assert shell.proc("version") == Path("/proc/version").read_text()  # and hears of it
        shell.tell_work({"cpu": GO_ON})
        with pytest.raises(TestbedError, match="the work of guest shell has ended: cpu"):
            shell.await_work()
    finally:
        shell.close()


def test_a_guest_without_work_says_so() -> None:
    shell = Shell()
    try:
        shell.tell_work({"cpu": GO_ON})
        with pytest.raises(TestbedError, match="the work of guest shell has ended: cpu"):
            shell.await_work()
    finally:
        shell.close()


def test_each_work_has_its_own_order() -> None:
    shell = Shell("sleep 1000 & work_cpu=$!; sleep 2000 & work_disk=$!")
    try:
        cpu, disk = sleepers(shell)
        for orders in ((GO_ON, STOP), (STOP, GO_ON), (STOP, STOP)):
            shell.tell_work(dict(zip(("cpu", "disk"), orders, strict=True)))
            shell.await_work()
            for worker, order in zip((cpu, disk), orders, strict=True):
                until(lambda: (letter(worker) == "T") == (order == STOP), order)  # noqa: B023
    finally:
        shell.close()


def test_a_work_rests_works_and_stops_in_time() -> None:
    shell = Shell("sleep 1000 & work_cpu=$!")
    try:
        (worker,) = sleepers(shell)

        def seen() -> bool:  # unless this process had no core meanwhile
            shell.tell_work({"cpu": in_time(0.1, 0.3)})
            shell.await_work()
            until(lambda: letter(worker) == "T", "it rests")
            end = time.monotonic() + 0.4
            letters = set()
            while time.monotonic() < end:
                letters.add(letter(worker))
            return letters > {"T"}

        until(seen, "it works")
        until(lambda: letter(worker) == "T", "it has stopped")
    finally:
        shell.close()


def test_times_that_were_told_are_forgotten_with_the_next_order() -> None:
    shell = Shell("sleep 1000 & work_cpu=$!")
    try:
        (worker,) = sleepers(shell)
        shell.tell_work({"cpu": in_time(0.2, 1000.0)})
        shell.await_work()
        shell.tell_work({"cpu": STOP})
        shell.await_work()
        time.sleep(0.5)
        until(lambda: letter(worker) == "T", "it rests")
    finally:
        shell.close()


def sleepers(shell: Shell) -> list[int]:
    """Return the programs that it has started, in order, once they are what they are to be."""
    count = 2 if "work_disk" in shell.before else 1

    def found() -> list[int]:
        return [one for one in children(shell.process) if thread_name(one) == "sleep"]

    until(lambda: len(found()) == count, "they start")
    return sorted(found())


def letter(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def has_ended(process: int) -> bool:
    try:
        return letter(process) == "Z"
    except (FileNotFoundError, ProcessLookupError):  # and whoever started it knows
        return True


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 120.0
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)

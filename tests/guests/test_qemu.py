"""QEMU guests: what they are kept from, and what their kernel is."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from isolane.errors import NotSupported
from isolane.guests import GuestKernel
from isolane.guests.qemu import EMULATOR
from isolane.procfs import thread_name, threads_of

from tests.guests.booting import processes_of, qemu

pytestmark = [pytest.mark.root, pytest.mark.beside, pytest.mark.usefixtures("needs_qemu_guests")]

TRIES = 5


def program_of(process: int) -> str | None:
    with suppress(OSError):  # processes come and go
        return Path(f"/proc/{process}/exe").readlink().name
    return None


def test_it_has_programs_of_its_own_and_no_rights_on_this_host_and_no_network(
    tmp_path: Path,
) -> None:
    script = "ls / | tr '\\n' ' '; echo; echo kernel $(uname -r)"
    with qemu(tmp_path, script=script) as one:
        lines = one.last_lines
        assert "bin dev etc init lib" in lines
        assert f"kernel {GuestKernel.installed().version}" in lines
        (emulator,) = (one for one in processes_of(tmp_path) if program_of(one) == EMULATOR)
        status = Path(f"/proc/{emulator}/status").read_text()
        assert re.search(r"^CapEff:\t0+$", status, re.MULTILINE)
        assert re.search(r"^NoNewPrivs:\t1$", status, re.MULTILINE)
        assert re.search(r"^Seccomp:\t2$", status, re.MULTILINE)
        devices = Path(f"/proc/{emulator}/net/dev").read_text().splitlines()[2:]
        assert [line.split(":")[0].strip() for line in devices] == ["lo"]
        for folder in ("/", "/usr", "/run", "/dev", "/dev/shm", "/tmp", str(tmp_path)):
            file = Path(folder, "isolane-was-here")
            inside = ["nsenter", f"--mount=/proc/{emulator}/ns/mnt", "touch", str(file)]
            told = subprocess.run(inside, check=False, capture_output=True, text=True).stderr
            assert "Read-only file system" in told, folder
            assert not file.exists()


@contextmanager
def keeping_its_core_to_itself(folder: Path) -> Iterator[list[int]]:
    """Have the guest's processor let no other thread of QEMU run, 0.7 s of 0.72 s.

    Yields emulators that this was done to. QEMU sends a guest its timer's ticks from another
    thread; 160 ms without one are a broken timer to a kernel that checks it.
    """
    core, done, found = max(os.sched_getaffinity(0)), threading.Event(), list[int]()

    def keep() -> None:
        while not done.is_set():
            for emulator in (one for one in processes_of(folder) if program_of(one) == EMULATOR):
                with suppress(OSError):  # it ends with the test
                    keep_from_core(emulator)
            done.wait(0.001)

    def keep_from_core(emulator: int) -> None:
        for thread in threads_of(emulator):
            os.sched_setaffinity(thread, {core})
        for thread in threads_of(emulator):
            if thread_name(thread).startswith("CPU "):
                os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(1))
                found.append(emulator)
                done.wait(0.7)
                os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))
                done.wait(0.02)

    keeper = threading.Thread(target=keep)
    keeper.start()
    try:
        yield found
    finally:
        done.set()
        keeper.join()


def test_it_boots_though_its_timer_is_late(tmp_path: Path) -> None:
    for _ in range(TRIES):  # who keeps the core may come to it too late
        with (
            keeping_its_core_to_itself(tmp_path) as kept,
            qemu(tmp_path, script="echo here") as one,
        ):
            assert "here" in one.last_lines
            assert "timer not connected" not in one.last_lines
        if kept:
            return
    pytest.fail(f"its core was its own in none of {TRIES} boots")


def test_a_host_without_qemu_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotSupported, match="apt-get install qemu-system-x86"):
        qemu(tmp_path).__enter__()


def test_a_host_without_a_kernel_for_them_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GuestKernel, "installed", lambda: GuestKernel(tmp_path / "nowhere"))
    with pytest.raises(NotSupported, match="isolane guest-kernel fetches"):
        qemu(tmp_path).__enter__()

"""A guest under User-Mode Linux: a whole kernel in a process, which needs no hardware for it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from isolane.errors import MeasurementError, TestbedError
from isolane.testbed.guests.guest_counters import END, GuestLosses, parse_losses
from isolane.testbed.guests.guest_group import GuestGroup
from isolane.testbed.guests.hypervisors import GUEST_MEMORY_BYTES, UML
from isolane.testbed.journal import RUN_DIR
from isolane.testbed.layout import RouterLayout

BOOT_S = 30.0
"""How long a guest may take to be ready: 1.2 s are usual, eight on one core take 8 s."""
ANSWER_S = 10.0
_MOMENT_S = 0.1
_CONSOLE_LINES = 6
_HERE = Path(__file__).parent
_DEPTH = 128
"""Frames that the guest's driver takes off a tap, or sends, at once."""


class UmlGuest:
    """One guest, from start to end.

    Parameters
    ----------
    router
        What it is to be: its addresses, neighbours, and the taps that are its wires.
    """

    def __init__(self, router: RouterLayout, group: GuestGroup) -> None:
        self.name = router.name
        self._router = router
        self._group = group
        self._console = os.memfd_create(f"console-{router.name}", os.MFD_CLOEXEC)
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._heard = b""

    def start(self) -> None:
        """Start it in the calling thread's network namespace."""
        mine, theirs = socket.socketpair()
        with theirs:
            order = {
                "group": str(self._group.add(self.name)),
                "root": str(RUN_DIR),
                "init": (_HERE / "guest_init.sh").read_text(),
                "memory_bytes": GUEST_MEMORY_BYTES,
                "command": self._command(theirs.fileno()),
            }
            self._line = mine
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_HERE / "guest_launcher.py"), json.dumps(order)],
                stdin=subprocess.DEVNULL,
                stdout=self._console,
                stderr=self._console,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for Isolane, which then ends its guests
            )

    def _command(self, line: int) -> list[str]:
        router = self._router
        nics = ((router.in_ifname, router.in_mac), (router.out_ifname, router.out_mac))
        return [
            str(UML),
            f"mem={GUEST_MEMORY_BYTES >> 20}M",
            *("root=/dev/root", "rootfstype=hostfs", "rootflags=/guest", "ro", "init=/init"),
            *("con=null", "con0=null,fd:1", "ssl=null", f"ssl0=fd:{line},fd:{line}", "quiet"),
            *(
                f"vec{i}:transport=tap,ifname={ifname},depth={_DEPTH},mac={mac}"
                for i, (ifname, mac) in enumerate(nics)
            ),
            f"ISL_IN={router.in_address}",
            f"ISL_OUT={router.out_address}",
            f"ISL_FROM={router.src_ip},{router.src_mac}",
            f"ISL_TO={router.dst_ip},{router.dst_mac}",
        ]

    def ready(self, deadline: float) -> bool:
        """Tell whether the guest forwards; waits for that for a moment.

        Raises
        ------
        TestbedError
            When it does not by ``deadline`` (monotonic, s), with the last lines of its console.
        """
        try:
            text = self._hear(b"\n", min(deadline, time.monotonic() + _MOMENT_S))
        except TimeoutError:
            if time.monotonic() > deadline:
                raise TestbedError(self._dead(f"was not ready after {BOOT_S:g} s")) from None
            return False
        except EOFError:
            raise TestbedError(self._dead("did not boot")) from None
        said = text.decode(errors="replace").strip()
        if said != "ready":
            raise TestbedError(self._dead(f"did not become a router: it says {said!r}"))
        return True

    def ask(self) -> None:
        """Ask for its counters; :meth:`losses` waits for the answer."""
        self.check()
        assert self._line is not None
        with contextlib.suppress(OSError):  # losses() says so
            self._line.send(b"\n")

    def losses(self) -> GuestLosses:
        """Return what it has lost so far.

        Raises
        ------
        MeasurementError
            When it does not answer, with the last lines of its console.
        """
        try:
            text = self._hear(END, time.monotonic() + ANSWER_S)
            return parse_losses(text.decode(errors="replace"))
        except (TimeoutError, EOFError, ValueError) as error:
            why = f"does not tell its counters ({error})" if str(error) else "does not answer"
            raise MeasurementError(self._dead(why)) from None

    def _hear(self, last: bytes, deadline: float) -> bytes:
        """Read what the guest says up to ``last``."""
        assert self._line is not None
        while last not in self._heard:
            self._line.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                heard = self._line.recv(65536)
            except ConnectionError:
                heard = b""
            if not heard:
                raise EOFError
            self._heard += heard.replace(b"\r", b"")
        said, _, self._heard = self._heard.partition(last)
        return said

    def check(self) -> None:
        """Raise MeasurementError, with the last lines of its console, if it has ended."""
        if self._process is None or self._process.poll() is not None:
            raise MeasurementError(self._dead("has ended"))

    def threads(self) -> list[int]:
        """Return all threads that work for it, those of children included."""
        return self._group.threads(self.name)

    def pin(self, cores: Sequence[int]) -> None:
        """Keep it on cores; children that it starts later inherit that."""
        for thread in self.threads():
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(thread, cores)

    def end(self) -> None:
        """End it; children that it leaves behind end with its cgroup."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._line is not None:
            self._line.close()
        os.close(self._console)

    def _dead(self, what: str) -> str:
        size = os.fstat(self._console).st_size
        text = os.pread(self._console, 16384, max(0, size - 16384)).decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        said = _why(lines)
        return f"virtual machine {self.name} {what}; its console: {' | '.join(said) or 'empty'}"


def _why(lines: list[str]) -> list[str]:
    """Return the lines of a console that tell most: around a panic, else the last ones."""
    at = next((i for i, line in enumerate(lines) if "Kernel panic" in line), None)
    return lines[-_CONSOLE_LINES:] if at is None else lines[max(0, at - 2) : at + 1]


def await_guests(guests: Sequence[UmlGuest], stop: threading.Event) -> None:
    """Wait until each guest forwards.

    Parameters
    ----------
    stop
        Set it to give up.

    Raises
    ------
    TestbedError
        When one does not.
    """
    deadline = time.monotonic() + BOOT_S
    for guest in guests:
        while not guest.ready(deadline):
            if stop.is_set():
                raise TestbedError("starting virtual machines was interrupted")

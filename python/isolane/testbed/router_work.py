"""The work of a test bed's routers: in a container a process that takes all time it can get."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

from isolane.errors import TestbedError
from isolane.testbed.bed_programs import READY_S, WITHOUT_RIGHTS, BedPrograms

BUSY: Final = "while :; do :; done"
"""Shell commands that never wait."""
_STOPPED: Final = f"kill -STOP $$; {BUSY}"
_LOOK_S: Final = 0.005


def work_script() -> str:
    """Return shell commands that start the work of a guest, stopped; its number is ``$work``."""
    return f"({BUSY}) &\nwork=$!\nkill -STOP $work"


class BedWorkers(BedPrograms):
    """The work of each container that has some, stopped but in trials that ask for it."""

    WHAT = "work"

    def start(self) -> None:
        """Start all of them, and wait until they are stopped.

        Raises
        ------
        TestbedError
            If one of them does not start.
        """
        for router in self._layout.routers:
            if router.works and not router.guest:
                words = [*WITHOUT_RIGHTS, "sh", "-c", _STOPPED]
                self._begin(router, words, stdout=subprocess.DEVNULL)
        for name, process in self._processes.items():
            _await_stopped(name, process)

    def work(self, routers: Collection[str]) -> None:
        """Have these routers work, and no others."""
        for name, process in self._processes.items():
            process.send_signal(signal.SIGCONT if name in routers else signal.SIGSTOP)


def _await_stopped(router: str, process: subprocess.Popen[bytes]) -> None:
    deadline_s = time.monotonic() + READY_S
    while _state(process.pid) != "T":
        if process.poll() is not None:
            raise TestbedError(f"the work of router {router} ended with {process.returncode}")
        if time.monotonic() > deadline_s:
            raise TestbedError(f"the work of router {router} did not start")
        time.sleep(_LOOK_S)


def _state(process: int) -> str:
    """Return the letter of a process's state; nothing where it is gone."""
    try:
        told = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return ""
    return told.rpartition(")")[2].split()[0]

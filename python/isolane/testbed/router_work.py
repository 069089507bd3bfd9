"""The work of a test bed's routers: in a container a process that takes all time it can get."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from isolane.children import die_with_parent
from isolane.errors import MeasurementError, TestbedError
from isolane.procfs import threads_of
from isolane.testbed.bed_devices import Layout
from isolane.testbed.netns import Namespace

BUSY: Final = "while :; do :; done"
"""Shell commands that never wait."""
_STOPPED: Final = f"kill -STOP $$; {BUSY}"
_READY_S: Final = 60.0
_LOOK_S: Final = 0.005
_WITHOUT_RIGHTS: Final = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")
_END_S: Final = 10.0


def work_script() -> str:
    """Return shell commands that start the work of a guest, stopped; its number is ``$work``."""
    return f"({BUSY}) &\nwork=$!\nkill -STOP $work"


class BedWorkers:
    """The work of each container that has some; that of guests is the guests' own.

    It is stopped but in trials whose routers are to work. All is done by the thread that enters
    namespaces: the processes end with the thread that started them.
    """

    def __init__(self, layout: Layout, namespaces: Mapping[str, Namespace]) -> None:
        self._layout = layout
        self._ns = namespaces
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start all of them, and wait until they are stopped.

        Raises
        ------
        TestbedError
            If one of them does not start.
        """
        for router in self._layout.routers:
            if not router.works or router.guest:
                continue
            self._ns[router.netns].enter()
            process = subprocess.Popen(
                [*_WITHOUT_RIGHTS, "sh", "-c", _STOPPED],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=partial(_as_worker, router.core),  # noqa: PLW1509 - two calls
            )
            self._processes[router.name] = process
        for name, process in self._processes.items():
            _await_stopped(name, process)

    def work(self, routers: Collection[str]) -> None:
        """Have these routers work, and no others."""
        for name, process in self._processes.items():
            process.send_signal(signal.SIGCONT if name in routers else signal.SIGSTOP)

    def threads(self) -> dict[str, list[int]]:
        """Return the threads that work, by router."""
        return {name: threads_of(process.pid) for name, process in self._processes.items()}

    def check_alive(self) -> None:
        """Raise MeasurementError, naming a router whose work has ended."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise MeasurementError(f"the work of router {name} has ended")

    def close(self) -> None:
        """End all of them."""
        while self._processes:
            _, process = self._processes.popitem()
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_S)


def _as_worker(core: int) -> None:
    die_with_parent()
    os.sched_setaffinity(0, {core})


def _await_stopped(router: str, process: subprocess.Popen[bytes]) -> None:
    deadline_s = time.monotonic() + _READY_S
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

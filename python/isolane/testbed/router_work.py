"""The work of a test bed's routers: in a container a process that takes all time it can get."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Collection, Mapping
from functools import partial
from typing import Final

from isolane.children import die_with_parent
from isolane.errors import MeasurementError
from isolane.procfs import threads_of
from isolane.testbed.bed_devices import Layout
from isolane.testbed.netns import Namespace

BUSY: Final = "while :; do :; done"
"""Shell commands that never wait."""
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
        """Start all of them, stopped."""
        for router in self._layout.routers:
            if not router.works or router.guest:
                continue
            self._ns[router.netns].enter()
            process = subprocess.Popen(
                [*_WITHOUT_RIGHTS, "sh", "-c", BUSY],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=partial(_as_worker, router.core),  # noqa: PLW1509 - two calls
            )
            process.send_signal(signal.SIGSTOP)
            self._processes[router.name] = process

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

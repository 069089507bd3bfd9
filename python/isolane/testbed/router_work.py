"""The work of a test bed's routers: programs in them that are told when to work."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from isolane.errors import TestbedError
from isolane.guests import work_variable
from isolane.spec.work_models import Work
from isolane.testbed.bed_devices import Layout
from isolane.testbed.bed_plan import WorkTime
from isolane.testbed.bed_programs import READY_S, WITHOUT_RIGHTS, BedPrograms
from isolane.testbed.netns import Namespace

BUSY: Final = "while :; do :; done"
"""Shell commands that never wait."""
REQUEST_BYTES: Final = 4096
"""What a guest reads of its disk in one request."""
_STOPPED: Final = f"kill -STOP $$; {BUSY}"
_SLEEP: Final = "setpriv --pdeathsig KILL sleep"
"""It ends with the shell that waits for it."""
_LOOK_S: Final = 0.005


def work_script(works: Iterable[Work], disk: str) -> str:
    """Return shell commands that start the work of a guest, stopped.

    The number of each process is in :func:`isolane.guests.work_variable`. One that reads the disk
    is that program before it is stopped: CPU accounting knows its threads from then on.

    Parameters
    ----------
    disk
        The guest's disk, which it reads from end to end past its caches, a request after the other.
    """
    reading = f"/bin/dd if={disk} of=/dev/null bs={REQUEST_BYTES} iflag=direct"
    lines = []
    for work in works:
        number = work_variable(work)
        if work == "disk":
            lines += [
                f"{reading} count=1 || {{ echo 'it cannot read {disk}'; exit 1; }}",
                f"{reading} &",
                f"{number}=$!",
                f'while read -r name </proc/${number}/comm && [ "$name" != dd ]; do :; done',
            ]
        else:
            lines += [f"({BUSY}) &", f"{number}=$!"]
        lines.append(f"kill -STOP ${number}")
    return "\n".join(lines)


class BedWorkers(BedPrograms):
    """The work of each container that has some, stopped but in trials that ask for it."""

    WHAT = "work"

    def __init__(self, layout: Layout, namespaces: Mapping[str, Namespace]) -> None:
        super().__init__(layout, namespaces)
        self._timers = _Timers(layout, namespaces)

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

    def work(self, works: Mapping[str, WorkTime]) -> None:
        """Have these routers work at these times, and no others, which have stopped then."""
        self._timers.close()
        for name, process in self._processes.items():
            wanted = works.get(name)
            at_once = wanted is not None and wanted.for_s is None
            process.send_signal(signal.SIGCONT if at_once else signal.SIGSTOP)
            if not at_once and process.poll() is None:  # one that ended is told by check_alive
                _await_stopped(name, process)
            if wanted is not None and wanted.for_s is not None:
                self._timers.start(name, process.pid, wanted.after_s, wanted.for_s)

    def close(self) -> None:
        """End all of them."""
        self._timers.close()
        super().close()


class _Timers(BedPrograms):
    """Programs that let the work of a container go on, and stop it, when it is time."""

    WHAT = "timer"

    def start(self, router: str, process: int, after_s: float, for_s: float) -> None:
        """Start that of one router, for a process that is stopped."""
        begin, end = f"{_SLEEP} {after_s:.3f}", f"{_SLEEP} {for_s:.3f}"
        words = f"{begin} && kill -CONT {process} && {end} && kill -STOP {process}"
        (of,) = (one for one in self._layout.routers if one.name == router)
        self._begin(of, ["sh", "-c", words], stdout=subprocess.DEVNULL)


def _await_stopped(router: str, process: subprocess.Popen[bytes]) -> None:
    deadline_s = time.monotonic() + READY_S
    while _state(process.pid) != "T":
        if process.poll() is not None:
            raise TestbedError(f"the work of router {router} ended with {process.returncode}")
        if time.monotonic() > deadline_s:
            raise TestbedError(f"the work of router {router} does not stop")
        time.sleep(_LOOK_S)


def _state(process: int) -> str:
    """Return the letter of a process's state; nothing where it is gone."""
    try:
        told = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return ""
    return told.rpartition(")")[2].split()[0]

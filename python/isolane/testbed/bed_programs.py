"""Programs in a test bed's containers, one for each router that has it."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final

from isolane.children import die_with_parent
from isolane.errors import MeasurementError
from isolane.procfs import threads_of
from isolane.testbed.bed_devices import Layout, RouterLayout
from isolane.testbed.netns import Namespace

READY_S: Final = 60.0
"""A program that has not started by then has failed."""
WITHOUT_RIGHTS: Final = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")
"""Words before those of a program that is to have no capability."""
END_S: Final = 10.0
"""What a program that is killed may take to end."""


class BedPrograms:
    """Programs of one kind; those of guests are the guests' own.

    All is done by the thread that enters namespaces: they end with the thread that started them.
    """

    WHAT: ClassVar[str]
    """What a program is to its router, for messages."""

    def __init__(self, layout: Layout, namespaces: Mapping[str, Namespace]) -> None:
        self._layout = layout
        self._ns = namespaces
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def _begin(self, router: RouterLayout, words: Sequence[str], **how: Any) -> None:
        """Start a router's program in its namespace and on its core; `how` is of Popen."""
        self._ns[router.netns].enter()
        self._processes[router.name] = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=partial(_as_program, router.core),  # noqa: PLW1509 - two calls
            **how,
        )

    def threads(self) -> dict[str, list[int]]:
        """Return the programs' threads, by router."""
        return {name: threads_of(process.pid) for name, process in self._processes.items()}

    def check_alive(self) -> None:
        """Raise MeasurementError, naming a router whose program has ended."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise MeasurementError(f"the {self.WHAT} of router {name} has ended")

    def close(self) -> None:
        """End all of them."""
        while self._processes:
            _, process = self._processes.popitem()
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_S)
            if process.stdout is not None:
                process.stdout.close()


def _as_program(core: int) -> None:
    die_with_parent()
    os.sched_setaffinity(0, {core})

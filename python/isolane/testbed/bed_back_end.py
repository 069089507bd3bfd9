"""The network back-end of a test bed: a process that serves the NICs of its virtual machines."""

from __future__ import annotations

import io
import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ruamel.yaml import YAML

from isolane.children import die_with_parent
from isolane.errors import MeasurementError, TestbedError
from isolane.guests import VhostUserNic
from isolane.netback import PortStatus, Status, Step, remove_left, set_keys, socket_of, status_of
from isolane.procfs import threads_of
from isolane.testbed.bed_devices import DUT, BackEndLayout, Layout, RouterLayout
from isolane.testbed.journal import Journal
from isolane.testbed.netns import Namespace

NAME: Final = "testbed"
_READY_S: Final = 60.0
_END_S: Final = 10.0
_SIDES: Final = ("in", "out")


@dataclass(frozen=True)
class PortChange:
    """Keys of the port that a router of the test bed sends by, and from when on they hold."""

    router: str
    keys: Mapping[str, str]
    """As `isolane set` takes them."""
    at_ns: int | None
    """Ns of the monotonic clock; None: at once."""


def change_ports(changes: Sequence[PortChange]) -> None:
    """Have the back-end of the test bed carry out changes, each in its time; no others any more.

    Raises
    ------
    MeasurementError
        If the back-end has ended, or does not answer.
    SpecError
        If it does not take them.
    """
    steps = [Step(f"{change.router}-out", change.keys, change.at_ns) for change in changes]
    try:
        set_keys(NAME, steps)
    except TestbedError as error:
        raise MeasurementError(str(error)) from None


class BedBackEnd:
    """The back-end of a test bed's virtual machines of path ``netback``, if it has such.

    All is done by the thread that enters namespaces: the process ends with the thread that started
    it.
    """

    def __init__(
        self, layout: Layout, namespaces: Mapping[str, Namespace], journal: Journal
    ) -> None:
        self._layout = layout
        self._ns = namespaces
        self._journal = journal
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def routers(self) -> tuple[str, ...]:
        """The routers that it works for."""
        return tuple(router.name for router in self._layout.routers if router.served)

    def start(self) -> None:
        """Start it, if it is needed, and wait until virtual machines can attach.

        Raises
        ------
        TestbedError
            If it does not get ready, with its last words.
        """
        back_end = self._layout.back_end
        if back_end is None:
            return
        self._journal.record("netback", name=NAME)
        self._ns[DUT].enter()
        file = os.memfd_create("isolane-netback", 0)
        try:
            os.write(file, self._file(back_end).encode())
            command = ["-P", "-m", "isolane", "netback", "start", f"/proc/self/fd/{file}"]
            self._process = subprocess.Popen(
                [sys.executable, *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                bufsize=0,  # what is waited for lies in the pipe, and nowhere else
                pass_fds=(file,),
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call
            )
        finally:
            os.close(file)
        self._await_ready(self._process)

    def _file(self, back_end: BackEndLayout) -> str:
        """Return what it is to be, as a user would write it."""
        arriving, leaving = back_end.uplinks
        ports: dict[str, Any] = {}
        for router in filter(lambda one: one.served, self._layout.routers):
            ports[f"{router.name}-in"] = {"mac": router.in_mac, "uplink": arriving}
            ports[f"{router.name}-out"] = {
                "mac": router.out_mac, "uplink": leaving, **router.port
            }  # fmt: skip
        # What arrives is for one guest at a time, so there is nothing to schedule there.
        uplinks: dict[str, Any] = {arriving: {"scheduler": "fifo"}}
        uplinks[leaving] = back_end.uplink.as_keys()
        for one in uplinks.values():
            # These wires are in the place of NICs.
            one["early_drop"] = back_end.uplink.early_drop or "driver"
            if back_end.as_packets:
                one["receive"] = "packet"
        text = io.StringIO()
        YAML().dump(
            {"isolane": 1, "name": NAME, "core": back_end.core, "uplinks": uplinks, "ports": ports},
            text,
        )
        return text.getvalue()

    @staticmethod
    def _await_ready(process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        said: list[str] = []
        while select.select([process.stdout], [], [], _READY_S)[0]:
            line = process.stdout.readline()
            if line == b"ready\n":
                return
            if not line:
                raise TestbedError(f"the network back-end did not start: {' '.join(said[-3:])}")
            said.append(line.decode(errors="replace").strip())
        raise TestbedError(f"the network back-end did not get ready within {_READY_S:.0f} s")

    def nics(self, router: RouterLayout) -> tuple[VhostUserNic, ...]:
        """Return what a guest's NICs attach to: towards the generator, towards the receiver."""
        macs = zip(_SIDES, (router.in_mac, router.out_mac), strict=True)
        return tuple(
            VhostUserNic(socket_of(NAME, f"{router.name}-{side}"), mac) for side, mac in macs
        )

    def threads(self) -> list[int]:
        """Return its threads; none where there is no back-end."""
        return threads_of(self._process.pid) if self._process is not None else []

    def ports(self, status: Status, router: str) -> tuple[PortStatus, PortStatus]:
        """Return a router's ports: towards the generator, towards the receiver."""
        found = {port.name: port for port in status.ports}
        return found[f"{router}-in"], found[f"{router}-out"]

    def status(self) -> Status | None:
        """Return its counters; None where there is no back-end.

        Raises
        ------
        MeasurementError
            If it has ended, or does not answer.
        """
        if self._process is None:
            return None
        self.check_alive()
        try:
            return status_of(NAME)
        except TestbedError as error:
            raise MeasurementError(str(error)) from None

    def check_alive(self) -> None:
        """Raise MeasurementError if it has ended by itself."""
        if self._process is not None and (status := self._process.poll()) is not None:
            raise MeasurementError(f"the network back-end has ended with status {status}")

    def close(self) -> None:
        """End it; its sockets go with it."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
        remove_left(NAME)  # it has done so itself, unless it was killed

"""The packet path: programs on interfaces, and the entries of their tables."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from isolane import _native
from isolane.enforce.host_access import Host
from isolane.enforce.setting import Setting, Value
from isolane.errors import TestbedError

OURS = {
    "nic": "isl_demux",
    "nic_tc": "isl_demux_tc",
    "router": "isl_serve",
    "leave": "isl_leave",
    "port": "isl_egress",
}
_WHAT = {
    "nic": "demultiplexer on",
    "nic_tc": "demultiplexer (tc) on",
    "router": "queue program on",
    "leave": "uplink program on",
    "port": "classifier on",
}


@contextlib.contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except _native.NativeError as error:
        raise TestbedError(str(error)) from None


@dataclass(frozen=True)
class Program(Setting):
    """A program at a hook (nic, nic_tc, router, leave, port) of an interface."""

    kind: ClassVar[str] = "program"
    hook: str
    netns: str
    ifname: str

    def __str__(self) -> str:
        """Name it for the user."""
        return f"{_WHAT[self.hook]} {self.ifname} ({self.netns})"

    def read(self, host: Host) -> Value:
        """Return ``ours``, ``stale`` (ours of another plane), or the name of somebody else's."""
        index = host.ifindex(self.netns, self.ifname)
        if index is None:
            return None
        with _told():
            found = _native.Plane.standing(self.hook, None, index)  # ifindex() has entered it
            if found is None:
                return None
            _, name, table = found
            if name != OURS[self.hook]:
                return name
            plane = host.standing_plane()
            return "ours" if plane is not None and table in plane.table_ids() else "stale"

    def write(self, host: Host, value: Value) -> None:
        """Put our program there, or take it off."""
        index = host.ifindex(self.netns, self.ifname)
        if index is None:
            return
        with _told():
            if value == "ours":
                self._at(host).attach(self.hook, None, index)
            else:
                self._at(host).detach(self.hook, None, index)

    def _at(self, host: Host) -> _native.Plane:
        """Return the plane, with the thread in the interface's namespace."""
        plane = host.plane  # looking for it leads elsewhere
        host.namespace(self.netns)
        return plane

    def owned_by_others(self, host: Host, current: Value) -> str | None:  # noqa: ARG002
        """Say whose program is there."""
        if current in (None, "ours", "stale"):
            return None
        return f"the XDP program {current!r} is there (bpftool net show)"


@dataclass(frozen=True)
class Entry(Setting):
    """An entry of a table; ``netns`` is the namespace that an interface index in it belongs to."""

    kind: ClassVar[str] = "entry"
    table: str
    entry: str
    """The key, hexadecimal."""
    netns: str | None = None

    def __str__(self) -> str:
        """Name it for the user."""
        return f"table {self.table}, {self.entry}"

    def read(self, host: Host) -> Value:
        """Return the value; None when there is none."""
        plane = host.standing_plane()
        if plane is None:
            return None
        with _told():
            return plane.get(self.table, bytes.fromhex(self.entry))

    def write(self, host: Host, value: Value) -> None:
        """Set the entry, or delete it."""
        if value is None and host.standing_plane() is None:
            return
        plane = host.plane
        if self.netns is not None:
            host.namespace(self.netns)  # an interface's number is of the namespace entered
        with _told():
            plane.put(self.table, None, bytes.fromhex(self.entry), value)


Limits = list[list[int]]


@dataclass(frozen=True)
class QueueSetting(Setting):
    """A router's queue: [room, room for bursts, by XDP, counted, budget, limits].

    Room: frames that may wait while it overflows; for bursts: when it has not lately. By XDP: who
    forwards. Counted: a program at its end counts what leaves. Budget: number of the CPU budget.
    Limits are [[frames/s, most at once], [bit/s on the wire, most at once]]; 0: none.
    """

    kind: ClassVar[str] = "queue"
    router: str
    ifname: str
    slot: int

    def __str__(self) -> str:
        """Name it for the user."""
        return f"{self.router}: queue of {self.ifname}"

    def read(self, host: Host) -> Value:
        """Return its settings; None when it is not in use."""
        plane = host.standing_plane()
        queue = plane.queue(self.slot) if plane else None
        if queue is None:
            return None
        most = [list(pair) for pair in queue["most"]]
        return [
            queue["limit"],
            queue["burst"],
            queue["xdp"],
            queue["counted"],
            queue["budget"],
            most,
        ]

    def write(self, host: Host, value: Value) -> None:
        """Set it up, or forget it."""
        if value is None:
            if host.standing_plane() is not None:
                host.plane.clear_queue(self.slot)
            return
        limit, burst, xdp, counted, budget, most = value
        modes = (xdp, counted, budget)
        host.plane.set_queue(self.slot, (limit, burst), modes, [tuple(pair) for pair in most])


@dataclass(frozen=True)
class Budget(Setting):
    """A router's budget of CPU time: [ns a second, ns at most at once]."""

    kind: ClassVar[str] = "budget"
    router: str
    number: int

    def __str__(self) -> str:
        """Name it for the user."""
        return f"{self.router}: CPU budget"

    def read(self, host: Host) -> Value:
        """Return it; None when there are no tables."""
        plane = host.standing_plane()
        return None if plane is None else list(plane.budget(self.number))

    def write(self, host: Host, value: Value) -> None:
        """Set it; None: no cap."""
        if value is None and host.standing_plane() is None:
            return
        host.plane.set_budget(self.number, *(value or (0, 0)))


@dataclass(frozen=True)
class PortSetting(Setting):
    """The host's side of a router's interface: [uplink, class, limits as of a queue]."""

    kind: ClassVar[str] = "port"
    router: str
    ifname: str
    port: int

    def __str__(self) -> str:
        """Name it for the user."""
        return f"{self.router}: way out of {self.ifname}"

    def read(self, host: Host) -> Value:
        """Return its settings; None when there are no tables."""
        plane = host.standing_plane()
        if plane is None:
            return None
        port = plane.port(self.port)
        return [port["uplink"], port["class"], [list(pair) for pair in port["most"]]]

    def write(self, host: Host, value: Value) -> None:
        """Set it up, or forget it."""
        if value is None:
            if host.standing_plane() is not None:
                host.plane.clear_port(self.port)
            return
        uplink, class_, most = value
        host.plane.set_port(self.port, uplink, class_, [tuple(pair) for pair in most])

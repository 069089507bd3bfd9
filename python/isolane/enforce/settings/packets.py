"""The packet path: programs on interfaces, and the entries of their tables."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from isolane import _native
from isolane.enforce.host_access import Host
from isolane.enforce.setting import Setting, Value
from isolane.enforce.settings.values import cpu_budget, plain, port_settings, queue_settings
from isolane.errors import TestbedError

_WHAT = {
    "nic": "demultiplexer on",
    "nic_tc": "demultiplexer (tc) on",
    "router": "queue program on",
    "egress_xdp": "uplink program on",
    "egress_tc": "classifier on",
}
_FORMER = "that of an earlier version of Isolane"
FORMER_HOOKS = {"leave": "egress_xdp", "port": "egress_tc"}
"""What earlier versions of Isolane called hooks, in the state of a policy of theirs."""
FORMER_TABLES = frozenset({"routes", "inlets", "ways", "outlets"})
"""Tables of earlier versions of Isolane: they vanish with their programs."""


@contextlib.contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except _native.NativeError as error:
        raise TestbedError(str(error)) from None


@dataclass(frozen=True)
class Program(Setting):
    """A program at a hook (nic, nic_tc, router, egress_xdp, egress_tc) of an interface."""

    kind: ClassVar[str] = "program"
    hook: str
    netns: str
    ifname: str

    @property
    def _hook(self) -> str:
        return FORMER_HOOKS.get(self.hook, self.hook)

    def __str__(self) -> str:
        """Name it for the user."""
        return f"{_WHAT[self._hook]} {self.ifname} ({self.netns})"

    def there(self, host: Host) -> bool:
        """Tell whether the interface exists."""
        return host.ifindex(self.netns, self.ifname) is not None

    def read(self, host: Host) -> Value:
        """Return ``ours``, or the name of somebody else's program.

        ``stale`` is ours of another plane. At a hook that only an earlier version had, that
        version's program is ``ours``, and no other counts.
        """
        index = host.ifindex(self.netns, self.ifname)
        if index is None:
            return None
        with _told():  # ifindex() has entered the namespace
            found = _native.Plane.attached(hook=self._hook, netns=None, ifindex=index)
            if self.hook in FORMER_HOOKS:
                return "ours" if found is not None and found.owner == "former" else None
            if found is None:
                return None
            if found.owner != "isolane":
                return found.name if found.owner == "other" else _FORMER
            plane = host.attached_plane()
            ids = None if plane is None else plane.table_ids()
            ours = ids is not None and found.table_id in (ids.queues, ids.ports)
            return "ours" if ours else "stale"

    def write(self, host: Host, value: Value) -> None:
        """Attach our program, or detach it."""
        index = host.ifindex(self.netns, self.ifname)
        if index is None:
            return
        with _told():
            if value != "ours":
                self._at(host).detach(hook=self._hook, netns=None, ifindex=index)
            elif self.hook not in FORMER_HOOKS:
                self._at(host).attach(hook=self._hook, netns=None, ifindex=index)

    def _at(self, host: Host) -> _native.Plane:
        """Return the plane, with the thread in the interface's namespace."""
        plane = host.plane  # looking for it leads elsewhere
        host.namespace(self.netns)
        return plane

    def owned_by_others(self, host: Host, current: Value) -> str | None:  # noqa: ARG002
        """Say whose program is there."""
        if current in (None, "ours", "stale", _FORMER):
            return None
        return f"the XDP program {current!r} is there (bpftool net show)"


class _InTables:
    """What is kept in the plane's tables."""

    def lost(self, host: Host) -> bool:
        """Tell whether there are none: they go with the last program that uses them."""
        return host.attached_plane() is None


@dataclass(frozen=True)
class Entry(_InTables, Setting):
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
        plane = None if self.table in FORMER_TABLES else host.attached_plane()
        if plane is None:
            return None
        with _told():
            return plane.get(table=self.table, key=bytes.fromhex(self.entry))

    def write(self, host: Host, value: Value) -> None:
        """Set the entry, or delete it."""
        if self.table in FORMER_TABLES or (value is None and host.attached_plane() is None):
            return
        plane = host.plane
        if self.netns is not None:
            host.namespace(self.netns)  # an interface's number is of the namespace entered
        with _told():
            plane.put(table=self.table, netns=None, key=bytes.fromhex(self.entry), value=value)


@dataclass(frozen=True)
class QueueSetting(_InTables, Setting):
    """A router's queue; the value is :class:`isolane._native.QueueSettings`."""

    kind: ClassVar[str] = "queue"
    router: str
    ifname: str
    slot: int

    def __str__(self) -> str:
        """Name it for the user."""
        return f"{self.router}: queue of {self.ifname}"

    def read(self, host: Host) -> Value:
        """Return its settings; None when it is not in use."""
        plane = host.attached_plane()
        return plain(plane.queue(self.slot)) if plane else None

    def write(self, host: Host, value: Value) -> None:
        """Set it up, or forget it."""
        if value is None:
            if host.attached_plane() is not None:
                host.plane.clear_queue(self.slot)
            return
        host.plane.set_queue(self.slot, queue_settings(value))


@dataclass(frozen=True)
class Budget(_InTables, Setting):
    """A router's budget of CPU time; the value is :class:`isolane._native.CpuBudget`."""

    kind: ClassVar[str] = "budget"
    router: str
    number: int

    def __str__(self) -> str:
        """Name it for the user."""
        return f"{self.router}: CPU budget"

    def read(self, host: Host) -> Value:
        """Return it; None when there are no tables."""
        plane = host.attached_plane()
        return None if plane is None else plain(plane.budget(self.number))

    def write(self, host: Host, value: Value) -> None:
        """Set it; None: no cap."""
        if value is None and host.attached_plane() is None:
            return
        host.plane.set_budget(self.number, cpu_budget(value or [0, 0]))


@dataclass(frozen=True)
class PortSetting(_InTables, Setting):
    """The host's side of a router's interface: :class:`isolane._native.PortSettings`."""

    kind: ClassVar[str] = "port"
    router: str
    ifname: str
    port: int

    def __str__(self) -> str:
        """Name it for the user."""
        return f"{self.router}: egress of {self.ifname}"

    def read(self, host: Host) -> Value:
        """Return its settings; None when there are no tables."""
        plane = host.attached_plane()
        if plane is None:
            return None
        return plain(plane.port(self.port))

    def write(self, host: Host, value: Value) -> None:
        """Set it up, or forget it."""
        if value is None:
            if host.attached_plane() is not None:
                host.plane.clear_port(self.port)
            return
        host.plane.set_port(self.port, port_settings(value))

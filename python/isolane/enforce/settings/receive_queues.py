"""What a NIC is told so that a router's frames have a receive queue of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from isolane.enforce.host_access import Host
from isolane.enforce.setting import Value
from isolane.enforce.settings.on_interface import OnInterface
from isolane.testbed import receive_filters
from isolane.testbed.netns import step


@dataclass(frozen=True)
class Filter(OnInterface):
    """The receive queue for the frames to a MAC address; None: no filter says so."""

    kind: ClassVar[str] = "receive-filter"
    mac: str
    vlan: int

    def __str__(self) -> str:
        """Name it for the user."""
        vlan = f", VLAN {self.vlan}" if self.vlan else ""
        return f"{self.ifname}: receive queue for {self.mac}{vlan}"

    def _found(self, host: Host) -> receive_filters.ReceiveFilter | None:
        namespace = host.namespace(self.netns)
        if namespace is None:
            return None
        try:
            there = receive_filters.filters(namespace.ioctl, self.ifname)
        except OSError:
            return None
        mine = (one for one in there if (one.mac, one.vlan) == (self.mac, self.vlan))
        return next(mine, None)

    def read(self, host: Host) -> Value:
        """Return the number of the queue; None where there is no such filter."""
        found = self._found(host)
        return None if found is None else found.queue

    def write(self, host: Host, value: Value) -> None:
        """Put the filter into the NIC in place of an earlier one, or take it out."""
        namespace, found = host.namespace(self.netns), self._found(host)
        if namespace is None or host.ifindex(self.netns, self.ifname) is None:
            return
        with step(f"setting {self}", f"receive filters (ethtool -N {self.ifname})"):
            if found is not None:
                receive_filters.remove(namespace.ioctl, self.ifname, found.location)
            if value is not None:
                receive_filters.add(namespace.ioctl, self.ifname, self.mac, self.vlan, value)

    def owned_by_others(self, host: Host, current: Value) -> str | None:  # noqa: ARG002
        """Say that there is one although this policy has not set it."""
        if current is None:
            return None
        return f"{self.ifname} has a filter that sends these frames to queue {current} already"


@dataclass(frozen=True)
class Spread(OnInterface):
    """The queues that frames without a filter are spread over (``ethtool -X``)."""

    kind: ClassVar[str] = "receive-spread"

    def __str__(self) -> str:
        """Name it for the user."""
        return f"{self.ifname}: queues of frames without a filter"

    def read(self, host: Host) -> Value:
        """Return the table; None where there is none."""
        namespace = host.namespace(self.netns)
        try:
            return (
                None if namespace is None else receive_filters.spread(namespace.ioctl, self.ifname)
            )
        except OSError:
            return None

    def write(self, host: Host, value: Value) -> None:
        """Write the table."""
        namespace = host.namespace(self.netns)
        if namespace is None or value is None:
            return
        with step(f"setting {self}", f"ethtool -X {self.ifname}"):
            receive_filters.set_spread(namespace.ioctl, self.ifname, value)

"""Records of the routers that were found on the host, and of their counters."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from isolane.spec.schedulers import SchedulerName

How = Literal["veth", "tap", "own", "macvlan", "port"]


@dataclass(frozen=True)
class BackEndPort:
    """A port of a running network back-end that a router is at."""

    back_end: str
    name: str
    uplink: str
    """The NIC that its frames leave by."""
    scheduler: SchedulerName
    """Of the uplink."""
    rate: str | None
    """Of the uplink, as it is written; None: as fast as the interface takes frames."""
    process: int
    """The back-end's."""
    began: int
    """When that process began, in ticks since boot."""


@dataclass(frozen=True)
class Interface:
    """One interface of a router, seen from both sides."""

    how: How
    """``veth``: a pair with one end on the host; ``tap``: of a virtual machine; ``own``: a NIC or
    virtual function that only this router uses; ``macvlan``: an interface on top of a NIC;
    ``port``: of a network back-end, whatever leads there."""
    netns: Path | None
    """Network namespace of the router's side; None: the host's (a tap, a NIC of the host)."""
    ifname: str
    ifindex: int
    mac: str
    """Destination address of frames to the router; for a tap the guest's, not the tap's own."""
    vlan: int = 0
    """VLAN that the frames carry on the NIC; 0: untagged."""
    host_ifname: str | None = None
    """The host's end of a veth, or the tap itself; None for ``own`` and ``macvlan``."""
    host_ifindex: int | None = None
    bridge: str | None = None
    """The host's bridge that ``host_ifname`` is a port of."""
    lower: str | None = None
    """The host's interface below a macvlan or VLAN."""
    mtu: int = 1500
    """MTU of ``ifname``."""
    host_mtu: int = 1500
    """MTU of ``host_ifname``."""
    port: BackEndPort | None = None
    """Of a network back-end; it has no ``ifindex`` and no ``mac``, ``ifname`` is its name there."""
    behind: Interface | None = None
    """What leads to the router from a port without a socket: its end of a veth."""

    def not_told_from(self, other: str) -> str:
        """Say why its router waits: it has the address of another interface."""
        return (
            f"{self.ifname} has the same MAC address as {other}, {self.mac}: frames for one cannot "
            "be told from frames for the other; give one of them another"
        )


@dataclass(frozen=True)
class FoundRouter:
    """A router of the policy that is running."""

    name: str
    kind: Literal["container", "vm", "interface"]
    netns: Path | None
    """File of its network namespace (``/run/netns/vr1``, ``/proc/123/ns/net``)."""
    netns_inode: int | None
    """Inode number of that file, cheap to check: when it changes, the router has restarted. The
    kernel reuses these numbers; ``netns_cookie`` is unique until the host restarts."""
    pid: int | None
    """Its first process, where it has one."""
    interfaces: tuple[Interface, ...]
    threads: tuple[int, ...] = ()
    """A virtual machine's threads: vCPUs, vhost workers, QEMU's own."""
    netns_cookie: int | None = None
    """Cookie (SO_NETNS_COOKIE) of its network namespace; 0 before Linux 5.14."""


@dataclass(frozen=True)
class MissingRouter:
    """A router of the policy that is not running."""

    name: str
    reason: str
    """A sentence for the user: what was not found, and where."""


@dataclass(frozen=True)
class RouterSample:
    """Counters of one router since the policy was applied; two samples give rates."""

    name: str
    present: bool
    offered: int = 0
    """Frames that arrived for it."""
    offered_bytes: int = 0
    """Their bytes, with the frame check sequence."""
    served: int = 0
    """Frames that it took from its queues."""
    forwarded: int = 0
    """Frames that it sent."""
    forwarded_bytes: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    """Drop point (``queue``, ``share``, ``rate_in``, ``cpu``, ``rate_out``, ``size``,
    ``redirect``, ``link``) -> frames dropped there."""
    waiting: int = 0
    """Frames in its queues now."""
    queue_limit: int = 0
    """Queue limit: frames that may wait there."""
    cpu_ns: int = 0
    """CPU time of its threads."""
    nic_cpu_ns: int | None = None
    """CPU time that its frames have cost the NICs' threads; None: it does not pay for it."""
    cores: tuple[int, ...] = ()
    """Cores that it is pinned to; empty: any."""
    cpu_fair_share: float | None = 0.0
    """Its fair share of its cores when all routers that run want more, 0..1; None where routers
    share only some of their cores, so that no single figure is right."""
    link_bytes: dict[str, int] = field(default_factory=dict)
    """NIC -> bytes on the wire, with preamble and gap, that its class sent."""
    link_fair_share: dict[str, float] = field(default_factory=dict)
    """NIC -> its fair share of the link when all routers that run want more, 0..1."""


@dataclass(frozen=True)
class Sample:
    """Counters of all routers of the policy in force."""

    at_ns: int
    """Time of the sample, ``CLOCK_MONOTONIC``."""
    routers: tuple[RouterSample, ...]
    cores: dict[int, int] = field(default_factory=dict)
    """Core of the policy -> time that it was busy since boot, ns."""
    links: dict[str, int] = field(default_factory=dict)
    """NIC whose link the routers share by class -> its rate, bytes/s."""

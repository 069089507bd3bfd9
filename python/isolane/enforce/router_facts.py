"""What is known of running routers and of what a policy does to them: plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

How = Literal["veth", "tap", "own", "macvlan"]


@dataclass(frozen=True)
class Interface:
    """One interface of a router, seen from both sides."""

    how: How
    """``veth``: a pair with one end on the host; ``tap``: of a virtual machine; ``own``: a NIC or
    virtual function that the router has to itself; ``macvlan``: a share of a NIC's queue."""
    netns: Path | None
    """Namespace of the router's side; None: the host's (a tap, a NIC of the host's)."""
    ifname: str
    ifindex: int
    mac: str
    """Address that frames to the router carry; for a tap the guest's, not the tap's own."""
    vlan: int = 0
    """VLAN that the frames carry on the NIC; 0: untagged."""
    host_ifname: str | None = None
    """The host's side of a veth, the tap itself; None where the router has the interface to
    itself."""
    host_ifindex: int | None = None
    bridge: str | None = None
    """The host's bridge that ``host_ifname`` is a port of."""
    lower: str | None = None
    """The host's interface that a macvlan or VLAN stands on."""
    mtu: int = 1500
    """Of its own; a tap's of the host's side."""
    host_mtu: int = 1500
    """Of ``host_ifname``."""


@dataclass(frozen=True)
class FoundRouter:
    """A router of the policy that is running."""

    name: str
    kind: Literal["container", "vm", "interface"]
    netns: Path | None
    """File of its network namespace (``/run/netns/vr1``, ``/proc/123/ns/net``)."""
    netns_inode: int | None
    """Number of that file, for a cheap look: another one is another incarnation of the router, but
    the kernel gives numbers out again (``netns_cookie`` is unique until the host restarts)."""
    pid: int | None
    """Its first process, where it has one."""
    interfaces: tuple[Interface, ...]
    threads: tuple[int, ...] = ()
    """A virtual machine's threads: vCPUs, vhost workers, the emulator's own."""
    netns_cookie: int | None = None
    """Identity of its network namespace; 0 before Linux 5.14."""


@dataclass(frozen=True)
class MissingRouter:
    """A router of the policy that is not running."""

    name: str
    reason: str
    """A sentence for the user: what was looked for, where."""


@dataclass(frozen=True)
class RouterSample:
    """Counters of one router since the policy was applied; two samples give rates."""

    name: str
    present: bool
    offered: int = 0
    """Frames that came for it."""
    offered_bytes: int = 0
    """Their bytes, with the frame check sequence."""
    served: int = 0
    """Frames that it took from its queues."""
    forwarded: int = 0
    """Frames that it sent."""
    forwarded_bytes: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    """Place (``queue``, ``rate_in``, ``cpu``, ``rate_out``, ``size``, ``redirect``, ``link``) ->
    frames dropped there."""
    waiting: int = 0
    """Frames in its queues now."""
    room: int = 0
    """Frames that may wait there."""
    cpu_ns: int = 0
    """CPU time of its threads."""
    cores: tuple[int, ...] = ()
    """Cores that it is bound to; empty: any."""
    cpu_entitled: float | None = 0.0
    """Its fair share of its cores when all routers that run want more, 0..1; None where routers
    share a part of their cores only: then there is no such figure."""
    link_bytes: dict[str, int] = field(default_factory=dict)
    """NIC -> bytes on the wire, with preamble and gap, that its class sent."""
    link_entitled: dict[str, float] = field(default_factory=dict)
    """NIC -> its fair share of the link when all routers that run want more, 0..1."""


@dataclass(frozen=True)
class Sample:
    """Counters of all routers of the policy in force."""

    at_ns: int
    """``CLOCK_MONOTONIC``."""
    routers: tuple[RouterSample, ...]
    cores: dict[int, int] = field(default_factory=dict)
    """Core of the policy -> its busy time since boot, ns."""
    links: dict[str, int] = field(default_factory=dict)
    """NIC whose link is shared out -> its rate, bytes/s."""

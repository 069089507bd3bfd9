"""The plan of a test bed, and the description of a built one: plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from isolane.spec.fields import Mode
from isolane.spec.schedulers import DEFAULT_UPLINK, Uplink
from isolane.spec.services_models import Services
from isolane.spec.work_models import Work

Kind = Literal["native", "container", "vm"]
Path = Literal[
    "direct", "bridge", "macvlan", "isolane", "tap", "macvtap", "netback", "none", "wire"
]
Receive = Literal["softirq", "threaded"]
Part = Literal["generator", "receiver", "dut", "router", "device"]


@dataclass(frozen=True)
class DiskImage:
    """What a virtual machine starts from, if it is the user's."""

    file: str
    ingress: str | None
    """Its address towards the generator, with the prefix's length; None: the test bed's."""
    egress: str | None
    cloud_init: str | None
    """``auto``, or a file of user data; None: it has its addresses without cloud-init."""


@dataclass(frozen=True)
class Machine:
    """What a virtual machine is: what runs it, and the model of its NICs."""

    hypervisor: Literal["uml", "kvm", "tcg"]
    """User-Mode Linux; QEMU with the processor's virtualisation (KVM) or its own translator."""
    nic: Literal["vector", "virtio", "e1000"]
    memory_mb: int | None = None
    """None: the default."""
    vcpus: int = 1
    image: DiskImage | None = None
    """None: Isolane's own guest."""


UML: Final = Machine("uml", "vector")


@dataclass(frozen=True)
class WebPlan:
    """What the web server behind a load balancer has, and how it is asked."""

    sizes: tuple[int, ...]
    """Of the objects, bytes."""
    keep_alive: bool
    """Whether the load balancer keeps its connections to that server, too."""
    configuration: str | None = None
    """Of HAProxy, as text; None: the one that is shipped."""


@dataclass(frozen=True)
class WorkTime:
    """What a router's program does, and when."""

    work: Work
    after_s: float = 0.0
    """How long it rests before, from the moment on when it is told."""
    for_s: float | None = None
    """How long it works then; None: until it is told otherwise, and it begins at once."""


@dataclass(frozen=True)
class RouterPlan:
    """One virtual router."""

    name: str
    kind: Kind
    path: Path
    """How frames get to the router and back; ``none`` for ``native``, and ``wire`` for no router at
    all: the generator's wire ends at the receiver (the null DUT)."""
    subnet: str | None
    """Ingress subnet, e.g. ``198.18.5.0/24``; None: assigned by the router's number."""
    machine: Machine = UML
    """What it is where ``kind`` is ``vm``."""
    mode: Mode = "forward"
    """Whether it passes frames on, or answers them: by a program in it (echo), or its kernel."""
    port: Mapping[str, int | str] = field(default_factory=dict)
    """On path netback: keys of the port that it sends by, as the back-end's file has them."""
    services: Services | None = None
    """What a container does with each frame besides passing it on."""
    shaped: bool = False
    """What it sends must not go past the qdisc of its interface: a policy limits it (path tap), or
    capture points are to see it."""
    web: WebPlan | None = None
    """Of a router that is a load balancer, which has mode http."""
    works: tuple[Work, ...] = ()
    """What programs in it do besides, each when it is told to."""

    @property
    def asks(self) -> bool:
        """Whether it asks for its neighbours, since Isolane has not set it up."""
        return self.kind == "vm" and self.machine.image is not None


@dataclass(frozen=True)
class BedPlan:
    """A test bed: the routers and what they share."""

    routers: tuple[RouterPlan, ...]
    receive: Receive
    """Who polls the DUT's NICs: softirq of a DUT core, or a kernel thread pinned to it."""
    moderation_ns: int
    """Interrupt moderation of the DUT's NICs, ns: the pause between polls."""
    dut_cores: tuple[int, ...]
    """Router i is served by core ``dut_cores[i % len(dut_cores)]``."""
    measure_cores: tuple[int, ...]
    """Cores of generator and receiver; the receiving threads run on the last one."""
    ip: Literal[4, 6]
    uplink: Uplink = DEFAULT_UPLINK
    """How the network back-end sends, for routers of path netback."""
    bridge_netfilter: bool | None = None
    """Whether bridges hand their frames to netfilter; None: as in this namespace."""


@dataclass(frozen=True)
class Wire:
    """What generator and receiver need to reach one router."""

    router: str
    gen_netns: str
    """Path of the generator's namespace; of a test bed's under ``/run/netns``."""
    gen_ifindex: int
    gen_ifname: str
    src_mac: str
    dst_mac: str
    src_ip: str
    """First of ``src_count`` consecutive source addresses."""
    src_count: int
    dst_ip: str
    router_ip: str
    """The router's own address towards the generator."""
    rcv_netns: str
    rcv_ifindex: int
    rcv_ifname: str


@dataclass(frozen=True)
class ImageRouter:
    """A router that asks for its neighbours, and what they have to know to answer."""

    wire: Wire
    in_address: str
    """Its address towards the generator, with the prefix's length."""
    out_address: str
    out_mac: str
    rcv_mac: str
    """The receiver's."""


@dataclass(frozen=True)
class DutInterface:
    """A receiving NIC of the device under test: where the routers' frames come in."""

    netns: str
    """Path of its namespace, under ``/run/netns``."""
    ifname: str
    ifindex: int
    router: str | None
    """The router that it belongs to; None when several share it."""
    core: int
    """The core that receives from it."""


@dataclass(frozen=True)
class Node:
    """A box of the set-up drawing."""

    id: str
    label: str
    part: Part
    inside: str | None
    """Id of the box that this one stands in."""
    cores: tuple[int, ...]


@dataclass(frozen=True)
class Edge:
    """A wire of the set-up drawing, in the direction of the frames."""

    source: str
    target: str
    label: str

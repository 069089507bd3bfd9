"""What a test bed consists of: namespaces, devices, routers with their addresses. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from isolane.spec.fields import Mode
from isolane.spec.schedulers import Uplink
from isolane.spec.services_models import Services
from isolane.spec.work_models import Work
from isolane.testbed.bed_plan import Machine, WebPlan

GEN, RCV, DUT = "isolane-gen", "isolane-rcv", "isolane-dut"


@dataclass(frozen=True)
class End:
    """One end of a veth pair."""

    netns: str
    ifname: str
    mac: str
    nic: bool = False
    """Stands for a NIC: polled by NAPI (GRO on). Else it is a default veth, as in a container."""
    master: str | None = None
    """The bridge that it is a port of."""
    floods: bool = False
    """Whether as such it sends what is for all: where somebody asks for neighbours."""


@dataclass(frozen=True)
class Veth:
    """A veth pair, in the direction of the frames."""

    tx: End
    rx: End


@dataclass(frozen=True)
class Bridge:
    """A Linux bridge with a static forwarding table."""

    netns: str
    ifname: str
    mac: str
    fdb: tuple[tuple[str, str], ...]
    """Pairs of destination MAC and port."""


@dataclass(frozen=True)
class Macvlan:
    """A macvlan (mode bridge) of ``lower`` in the DUT, that lives in a router's namespace."""

    netns: str
    ifname: str
    mac: str
    lower: str
    tap: bool = False
    """A macvtap: the emulator of a guest reads and writes its character device."""


@dataclass(frozen=True)
class Passthru:
    """A macvtap (mode passthru) that takes all frames of ``lower``, whoever they are for."""

    netns: str
    ifname: str
    lower: str


@dataclass(frozen=True)
class RouterLayout:
    """A router: where it lives, its two interfaces, its addresses, its share of the wires."""

    name: str
    netns: str
    core: int
    in_ifname: str
    out_ifname: str
    in_address: str
    out_address: str
    in_mac: str
    out_mac: str
    src_ip: str
    src_mac: str
    src_count: int
    dst_ip: str
    dst_mac: str
    gen_ifname: str
    rcv_ifname: str
    counted: dict[str, tuple[str, str]]
    """Drop point -> (namespace, device) whose ``tx_dropped`` counts this router's losses there."""
    host_side: str | None = None
    """The DUT's end of its sending interface, on path ``isolane``."""
    bare: bool = False
    """There is no router: ``netns`` is the generator's, and nothing gets an address."""
    guest: Machine | None = None
    """The router is a virtual machine: its two interfaces are what its NICs are attached to, and
    the addresses are the guest's."""
    taps: tuple[str, str] = ("", "")
    """The macvtaps that its NICs are, in and out, where it is a guest under QEMU."""

    mode: Mode = "forward"
    """Whether it passes frames on, or answers them."""
    served: bool = False
    """Its NICs are ports of the network back-end: it has no interfaces on this host."""
    port: Mapping[str, int | str] = field(default_factory=dict)
    """Keys of the port that it sends by, where it is served."""
    services: Services | None = None
    """What its kernel does with each frame besides passing it on."""
    shaped: bool = False
    """What it sends goes through the qdisc of its interface."""
    web: WebPlan | None = None
    """It is a load balancer of web requests, between generator and receiver."""
    works: tuple[Work, ...] = ()
    """What programs in it do besides, each when it is told to."""

    @property
    def answers(self) -> bool:
        """Whether it answers its frames."""
        return self.mode != "forward"

    @property
    def responder(self) -> bool:
        """Whether a program in it does."""
        return self.mode == "echo" and not self.bare

    @property
    def asks(self) -> bool:
        """Whether it asks for its neighbours, and tells nothing of what it loses: an image."""
        return self.guest is not None and self.guest.image is not None


@dataclass(frozen=True)
class DutNic:
    """A receiving NIC of the DUT and the core that serves it."""

    netns: str
    ifname: str
    mac: str
    router: str | None
    core: int
    far_ifname: str
    """The other end of its wire."""
    far_netns: str = GEN
    """The generator's, or the receiver's where frames come from there, too."""


@dataclass(frozen=True)
class SharedWire:
    """A wire of several routers; its sending end counts the losses on it in ``tx_dropped``."""

    drop_point: str
    netns: str
    ifname: str
    parts: tuple[tuple[str, str], ...]
    """(namespace, device) of routers that count their share of the same losses themselves."""


@dataclass(frozen=True)
class BackEndLayout:
    """The network back-end: its uplinks in the DUT's namespace, its core, how it shares."""

    uplinks: tuple[str, str]
    """Where frames arrive, where they leave."""
    core: int
    uplink: Uplink
    """How it sends where frames leave."""
    as_packets: bool = False
    """Frames that arrive are packets of the kernel's, as capture points need."""


@dataclass
class Layout:
    """The whole test bed."""

    ip: int
    netns: list[str] = field(default_factory=lambda: [GEN, RCV, DUT])
    bridges: list[Bridge] = field(default_factory=list)
    veths: list[Veth] = field(default_factory=list)
    macvlans: list[Macvlan] = field(default_factory=list)
    passthrus: list[Passthru] = field(default_factory=list)
    routers: list[RouterLayout] = field(default_factory=list)
    dut_nics: list[DutNic] = field(default_factory=list)
    shared: list[SharedWire] = field(default_factory=list)
    back_end: BackEndLayout | None = None
    bridge_netfilter: bool | None = None
    """Whether its bridges hand their frames to netfilter; None: as the host's."""

    @property
    def web(self) -> bool:
        """Whether its routers are load balancers: then frames go both ways."""
        return any(router.web is not None for router in self.routers)

    @property
    def of_routers(self) -> list[tuple[str, str]]:
        """(namespace, interface) of what routers send by, to either side."""
        own = [router for router in self.routers if not router.served]
        shared = self.back_end.uplinks if self.back_end is not None else ()
        return [
            *((router.netns, i) for router in own for i in (router.in_ifname, router.out_ifname)),
            *((DUT, uplink) for uplink in shared),
        ]

    @property
    def uppers(self) -> list[Macvlan | Passthru]:
        """Devices upon other ones, which therefore come after them."""
        return [*self.macvlans, *self.passthrus]

    def to_receiver(self) -> dict[str, tuple[str, str]]:
        """Return (namespace, interface) of who counts full wires to the receiver, by router.

        Either such a wire is the router's own, or macvlan passes on what the wire below refused.
        """
        wires = {(veth.tx.netns, veth.tx.ifname) for veth in self.veths if veth.rx.netns == RCV}
        wires |= {
            part for wire in self.shared if wire.drop_point == "egress" for part in wire.parts
        }
        ends = {r.name: r.counted.get("egress") for r in self.routers if not r.bare}
        return {name: end for name, end in ends.items() if end is not None and end in wires}

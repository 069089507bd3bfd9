"""Computes every namespace, device and address of a test bed from its plan. Pure.

Device names are unique over all namespaces, because a NAPI thread's only name is that of its
device. MACs are fixed and locally administered (02:15:...), so that no ARP and no neighbour
discovery is ever needed. Addresses: RFC 2544, appendix C.2.2 (198.18.0.0/15), and RFC 5180,
section 8 (2001:2::/48).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

from isolane.errors import TestbedError
from isolane.spec.host_addresses import lowest_free
from isolane.spec.kinds import LIVE, runs_live
from isolane.testbed.bed_devices import (
    DUT,
    GEN,
    RCV,
    BackEndLayout,
    Bridge,
    DutNic,
    End,
    Layout,
    Macvlan,
    Passthru,
    RouterLayout,
    SharedWire,
    Veth,
)
from isolane.testbed.bed_plan import BedPlan, RouterPlan

PREFIX = "isl-"
MAX_ROUTERS = 250
"""The router's number is an octet of its addresses."""
SOURCES = 200
"""Source addresses per router, if the subnet is large enough."""

Interface = ipaddress.IPv4Interface | ipaddress.IPv6Interface


def mac(kind: int, number: int) -> str:
    """Locally administered MAC of device class ``kind`` of router (or wire) ``number``."""
    return f"02:15:{kind:02x}:00:{number >> 8:02x}:{number & 255:02x}"


_GEN, _IN, _OUT, _RCV, _PORT_IN, _PORT_OUT, _BRIDGE, _HOST_IN, _HOST_OUT = range(1, 10)
POLICY_NICS = (f"{PREFIX}ni0", f"{PREFIX}ni1")
"""The DUT's NICs that routers of path ``isolane`` share: receiving, sending."""
SENDING_NICS: Mapping[str, str] = {"bridge": f"{PREFIX}nb1", "macvtap": f"{PREFIX}nt1"}
"""Path -> the DUT's NIC that its routers send by, where frames come as without a policy."""

_WIRE = {
    "bridge": ("b", 1000),
    "macvlan": ("m", 1001),
    "isolane": ("i", 1002),
    "macvtap": ("t", 1003),
    "netback": ("v", 1004),
}
_MACVLAN = ("macvlan", "macvtap")
_OWN_WIRE = ("direct", "none", "tap")


def make_layout(plan: BedPlan) -> Layout:
    """Compute the layout of a test bed.

    Raises
    ------
    TestbedError
        When the plan cannot be built: two native routers, a router named like one of the
        test bed's own namespaces, a subnet that does not fit.
    """
    _check(plan)
    layout = Layout(plan.ip, bridge_netfilter=plan.bridge_netfilter)
    for path in _WIRE:
        members = [i for i, router in enumerate(plan.routers) if router.path == path]
        if members:
            _shared_wire(layout, plan, path, members)
    for number, router in enumerate(plan.routers):
        _router(layout, plan, number, router)
    return layout


def _check(plan: BedPlan) -> None:
    if not plan.routers or not plan.dut_cores or not plan.measure_cores:
        raise TestbedError("a test bed needs at least one router, one DUT core, one measuring core")
    if plan.receive == "softirq" and plan.moderation_ns <= 0:
        raise TestbedError(
            f"interrupt moderation of {plan.moderation_ns} ns: softirq needs a positive one, it is "
            "what keeps the softirq on the DUT's cores"
        )
    if len(plan.routers) > MAX_ROUTERS:
        raise TestbedError(
            f"{len(plan.routers)} routers: the test bed has addresses for at most {MAX_ROUTERS}"
        )
    names = [router.name for router in plan.routers]
    for name in names:
        if names.count(name) > 1:
            raise TestbedError(f"two routers are named {name!r}; names must be unique")
        if f"isolane-{name}" in (GEN, RCV, DUT):
            raise TestbedError(
                f"a router cannot be named {name!r}: isolane-{name} is the name of a namespace "
                "of the test bed itself; any other name will do"
            )
    native = [router.name for router in plan.routers if router.kind == "native"]
    if len(native) > 1:
        raise TestbedError(
            f"routers {', '.join(native)} are native: the host has one forwarding table and so "
            "can be one native router only; use kind container for the others"
        )
    for router in plan.routers:
        if router.path != "wire" and not runs_live(router.kind, router.path):
            raise TestbedError(
                f"router {router.name!r}: kind {router.kind} with path {router.path}; it can have "
                + ", ".join(LIVE[router.kind])
            )


def _shared_wire(layout: Layout, plan: BedPlan, path: str, members: list[int]) -> None:
    """Add the wires from generator and to receiver that routers share, and their bridges."""
    letter, number = _WIRE[path]
    gen, rcv = f"{PREFIX}g{letter}", f"{PREFIX}r{letter}"
    nic_in, nic_out = f"{PREFIX}n{letter}0", f"{PREFIX}n{letter}1"
    bridges = (f"{PREFIX}br0", f"{PREFIX}br1") if path == "bridge" else (None, None)
    nic = DutNic(DUT, nic_in, mac(_IN, number), None, plan.dut_cores[0], gen)
    layout.dut_nics.append(nic)
    asking = any(plan.routers[i].asks for i in members)
    web = any(plan.routers[i].web for i in members)
    layout.veths += [
        Veth(
            End(GEN, gen, mac(_GEN, number), nic=web),
            End(DUT, nic_in, nic.mac, nic=True, master=bridges[0], floods=asking),
        ),
        Veth(
            End(DUT, nic_out, mac(_OUT, number), nic=web, master=bridges[1], floods=asking),
            End(RCV, rcv, mac(_RCV, number), nic=True),
        ),
    ]
    if web:  # what is asked for comes in there
        out = DutNic(DUT, nic_out, mac(_OUT, number), None, plan.dut_cores[0], rcv, RCV)
        layout.dut_nics.append(out)
    if path == "bridge":
        to_routers = [(mac(_IN, i), f"{PREFIX}p{i}") for i in members]
        to_receiver = [(mac(_RCV, number), nic_out)]
        if asking or web:  # and are answered
            to_routers.append((mac(_GEN, number), nic_in))
            to_receiver += [(mac(_OUT, i), f"{PREFIX}q{i}") for i in members]
        layout.bridges += [
            Bridge(DUT, f"{PREFIX}br0", mac(_BRIDGE, 0), tuple(to_routers)),
            Bridge(DUT, f"{PREFIX}br1", mac(_BRIDGE, 1), tuple(to_receiver)),
        ]
    outs: tuple[tuple[str, str], ...] = ()
    if path in _MACVLAN:  # macvlan_start_xmit() counts what the wire below refuses
        outs = tuple((f"isolane-{plan.routers[i].name}", f"{PREFIX}out{i}") for i in members)
    if path == "netback":
        as_packets = any(router.shaped for router in plan.routers)
        layout.back_end = BackEndLayout(
            (nic_in, nic_out), plan.dut_cores[0], plan.uplink, as_packets
        )
    layout.shared += [
        SharedWire("nic_queue", GEN, gen, ()),
        SharedWire("egress", DUT, nic_out, outs),
    ]


@dataclass(frozen=True)
class _Attached:
    """What a router is attached to."""

    core: int
    gen: str
    rcv: str
    wire: int
    counted: dict[str, tuple[str, str]]
    taps: tuple[str, str] = ("", "")


def _router(layout: Layout, plan: BedPlan, number: int, router: RouterPlan) -> None:
    if router.path == "wire":
        _bare_wire(layout, plan, number, router)
        return
    netns = DUT if router.kind == "native" else f"isolane-{router.name}"
    if netns != DUT:
        layout.netns.append(netns)
    guest = router.machine if router.kind == "vm" else None
    attached = _attach(layout, plan, number, router, netns)
    if guest:
        # The guest's own losses are among them: see bed_guests.
        attached.counted.pop("egress", None)
    at = _addresses(plan.ip, number, router)
    layout.routers.append(
        RouterLayout(
            name=router.name,
            netns=netns,
            core=attached.core,
            in_ifname=f"{PREFIX}in{number}",
            out_ifname=f"{PREFIX}out{number}",
            in_address=at.ingress,
            out_address=at.egress,
            in_mac=mac(_IN, number),
            out_mac=mac(_OUT, number),
            src_ip=at.source,
            src_mac=mac(_GEN, attached.wire),
            src_count=at.sources,
            dst_ip=at.destination,
            dst_mac=mac(_RCV, attached.wire),
            gen_ifname=attached.gen,
            rcv_ifname=attached.rcv,
            counted=attached.counted,
            host_side=f"{PREFIX}q{number}" if router.path == "isolane" else None,
            guest=guest,
            taps=attached.taps,
            mode=router.mode,
            served=router.path == "netback",
            port=router.port,
            services=router.services,
            shaped=router.shaped,
            web=router.web,
            works=router.works,
        )
    )


def _attach(
    layout: Layout, plan: BedPlan, number: int, router: RouterPlan, netns: str
) -> _Attached:
    """Add the router's two interfaces, and its wires where they are its own."""
    core = plan.dut_cores[number % len(plan.dut_cores)]
    if router.path == "netback":
        letter, wire = _WIRE[router.path]
        return _Attached(core, f"{PREFIX}g{letter}", f"{PREFIX}r{letter}", wire, {})
    in_if, out_if = f"{PREFIX}in{number}", f"{PREFIX}out{number}"
    # A guest's addresses are its own: the host's protocols take no frame that is for another one.
    # Under a policy frames are told apart by the interface's address, which then is the guest's.
    two = router.kind == "vm" and router.path != "isolane"
    kinds = (_HOST_IN, _HOST_OUT) if two else (_IN, _OUT)
    in_mac, out_mac = (mac(kind, number) for kind in kinds)
    counted, web = {"egress": (netns, out_if)}, router.web is not None
    taps = _taps(layout, number, router, netns)
    if router.path in _OWN_WIRE:
        gen, rcv = f"{PREFIX}g{number}", f"{PREFIX}r{number}"
        layout.veths += [
            Veth(End(GEN, gen, mac(_GEN, number), nic=web), End(netns, in_if, in_mac, nic=True)),
            Veth(End(netns, out_if, out_mac, nic=web), End(RCV, rcv, mac(_RCV, number), nic=True)),
        ]
        layout.dut_nics.append(DutNic(netns, in_if, in_mac, router.name, core, gen))
        if web:
            layout.dut_nics.append(DutNic(netns, out_if, out_mac, router.name, core, rcv, RCV))
        return _Attached(core, gen, rcv, number, {"nic_queue": (GEN, gen), **counted}, taps)
    letter, wire = _WIRE[router.path]
    if router.path in ("bridge", "isolane"):
        port_in, port_out = f"{PREFIX}p{number}", f"{PREFIX}q{number}"
        managed = router.path == "isolane"  # without a bridge: the policy says where frames go
        bridges = (None, None) if managed else (f"{PREFIX}br0", f"{PREFIX}br1")
        layout.veths += [
            Veth(
                End(DUT, port_in, mac(_PORT_IN, number), master=bridges[0], floods=router.asks),
                End(netns, in_if, in_mac),
            ),
            Veth(
                End(netns, out_if, out_mac),
                End(DUT, port_out, mac(_PORT_OUT, number), master=bridges[1], floods=router.asks),
            ),
        ]
        counted["router_queue"] = (DUT, port_in)
    else:  # a macvlan tells frames apart by its own address, which therefore is the guest's, too
        layout.macvlans += [
            Macvlan(netns, in_if, mac(_IN, number), f"{PREFIX}n{letter}0", tap=bool(taps[0])),
            Macvlan(netns, out_if, mac(_OUT, number), f"{PREFIX}n{letter}1", tap=bool(taps[1])),
        ]
    # The shared NIC has one queue, so one core serves all routers.
    gen, rcv = f"{PREFIX}g{letter}", f"{PREFIX}r{letter}"
    return _Attached(plan.dut_cores[0], gen, rcv, wire, counted, taps)


def _taps(layout: Layout, number: int, router: RouterPlan, netns: str) -> tuple[str, str]:
    """Return the macvtaps that are a guest's NICs under QEMU, after adding those that are more."""
    if router.kind != "vm" or router.machine.hypervisor == "uml":
        return "", ""
    sides = f"{PREFIX}in{number}", f"{PREFIX}out{number}"
    if router.path == "macvtap":
        return sides
    taps = f"{PREFIX}ti{number}", f"{PREFIX}to{number}"
    for tap, side in zip(taps, sides, strict=True):
        layout.passthrus.append(Passthru(netns, tap, side))
    return taps


def _bare_wire(layout: Layout, plan: BedPlan, number: int, router: RouterPlan) -> None:
    """Add a wire from generator to receiver, where a router would be."""
    gen, rcv = f"{PREFIX}g{number}", f"{PREFIX}r{number}"
    rcv_mac = mac(_RCV, number)
    layout.veths.append(Veth(End(GEN, gen, mac(_GEN, number)), End(RCV, rcv, rcv_mac, nic=True)))
    inside, outside = _subnets(plan.ip, number, router)
    layout.routers.append(
        RouterLayout(
            name=router.name,
            netns=GEN,
            core=plan.measure_cores[-1],
            in_ifname=gen,
            out_ifname=gen,
            in_address="",
            out_address="",
            in_mac=rcv_mac,
            out_mac=mac(_GEN, number),
            src_ip=str(inside.network_address + 2),
            src_mac=mac(_GEN, number),
            src_count=min(SOURCES, inside.num_addresses - 3),
            dst_ip=str(outside.network_address + 2),
            dst_mac=rcv_mac,
            gen_ifname=gen,
            rcv_ifname=rcv,
            counted={"egress": (GEN, gen)},
            bare=True,
        )
    )


@dataclass(frozen=True)
class _Addresses:
    """Addresses of a router, and of who sends to it and receives from it."""

    ingress: str
    """With the prefix's length, as `egress`."""
    egress: str
    source: str
    sources: int
    destination: str


def _addresses(ip: int, number: int, router: RouterPlan) -> _Addresses:
    image = router.machine.image
    if image is not None and image.ingress and image.egress:
        ends = [ipaddress.ip_interface(text) for text in (image.ingress, image.egress)]
        source, destination = (str(lowest_free(end)) for end in ends)
        return _Addresses(image.ingress, image.egress, source, 1, destination)
    inside, outside = _subnets(ip, number, router)
    first = inside.network_address
    return _Addresses(
        ingress=f"{first + 1}/{inside.prefixlen}",
        egress=f"{outside.network_address + 1}/{outside.prefixlen}",
        source=str(first + 2),
        # Each of them would have to be answered for.
        sources=1 if router.asks else min(SOURCES, inside.num_addresses - 3),
        destination=str(outside.network_address + 2),
    )


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _subnets(ip: int, number: int, router: RouterPlan) -> tuple[Network, Network]:
    """Subnets of the router towards the generator and towards the receiver."""
    if ip == 4:
        default, out = f"198.18.{number}.0/24", f"198.19.{number}.0/24"
    else:
        default, out = f"2001:2:0:{number:x}::/64", f"2001:2:0:{0x8000 + number:x}::/64"
    text = router.subnet or default
    try:
        inside = ipaddress.ip_network(text)
    except ValueError as error:
        raise TestbedError(f"router {router.name!r}: subnet {text!r}: {error}") from None
    outside = ipaddress.ip_network(out)
    if inside.version != ip or inside.num_addresses < 8 or inside.overlaps(outside):
        raise TestbedError(
            f"router {router.name!r}: subnet {text}: needs an IPv{ip} subnet of 8 addresses or "
            f"more that does not overlap {outside}, the subnet towards the receiver"
        )
    return inside, outside

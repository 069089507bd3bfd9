"""The set-up as a graph: boxes within boxes, and wires in the direction of the frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import PurePath
from typing import Final

from isolane.spec.kinds import HYPERVISOR_NAMES
from isolane.spec.units import format_bps, format_duration_ns
from isolane.testbed.bed_devices import DUT, GEN, RCV, BackEndLayout, Layout, RouterLayout
from isolane.testbed.bed_plan import BedPlan, Edge, Node
from isolane.testbed.layout import POLICY_NICS

_BACK_END: Final = ("netback-in", "netback-out")
"""The network back-end stands on both sides of its routers."""
NO_CORES: Final[Mapping[str, tuple[int, ...]]] = {}


def draw(
    plan: BedPlan, layout: Layout, chosen: Mapping[str, tuple[int, ...]] = NO_CORES
) -> tuple[tuple[Node, ...], tuple[Edge, ...]]:
    """Draw a layout.

    Parameters
    ----------
    chosen
        Router -> cores that a policy gave it; the others are served where their frames arrive.

    Returns
    -------
    tuple
        Nodes (containers before what stands in them) and edges.
    """
    boxes = {router.netns: f"router-{router.name}" for router in layout.routers}
    boxes |= {GEN: GEN, RCV: RCV, DUT: DUT}
    own = {i: f"router-{r.name}" for r in layout.routers for i in _chain(r)}
    cores = {nic.ifname: (nic.core,) for nic in layout.dut_nics}
    devices = [
        *((end.netns, end.ifname) for veth in layout.veths for end in (veth.tx, veth.rx)),
        *((bridge.netns, bridge.ifname) for bridge in layout.bridges),
        *((upper.netns, upper.ifname) for upper in layout.uppers),
        *((r.netns, ifname) for r in layout.routers if r.served for ifname in _chain(r)),
    ]
    nodes = [
        Node(GEN, "traffic generator", "generator", None, plan.measure_cores[:1]),
        Node(DUT, "device under test", "dut", None, plan.dut_cores),
        Node(RCV, "traffic receiver", "receiver", None, plan.measure_cores[-1:]),
        *(
            Node(f"router-{r.name}", _label(r), "router", DUT, chosen.get(r.name, (r.core,)))
            for r in layout.routers
        ),
        *(
            Node(name, name, "device", own.get(name, boxes[netns]), cores.get(name, ()))
            for netns, name in devices
        ),
        *(
            Node(side, f"network back-end ({_sharing(one)})", "device", DUT, (one.core,))
            for one in [layout.back_end]
            if one is not None
            for side in _BACK_END
        ),
    ]
    return tuple(nodes), _edges(layout)


def _sharing(back_end: BackEndLayout) -> str:
    link = back_end.uplink
    rate = "" if link.rate_bps is None else f", {format_bps(link.rate_bps)}"
    if link.burst_ns is not None:
        rate += f", burst {format_duration_ns(link.burst_ns)}"
    return f"{link.scheduler}{rate}{'' if link.back_pressure else ', no back-pressure'}"


def _label(router: RouterLayout) -> str:
    guest = router.guest
    if guest is None:
        return router.name if router.services is None else f"{router.name} ({router.services})"
    what = [HYPERVISOR_NAMES[guest.hypervisor], guest.nic]
    what += [PurePath(guest.image.file).name] if guest.image is not None else []
    return f"{router.name} ({', '.join(what)})"


def _chain(router: RouterLayout) -> tuple[str, ...]:
    """Return the devices that are a router's own, in the direction of the frames."""
    between = () if router.taps[0] in ("", router.in_ifname) else router.taps
    return (router.in_ifname, *between, router.out_ifname)


def _edges(layout: Layout) -> tuple[Edge, ...]:
    edges = []
    for veth in layout.veths:
        edges.append(Edge(veth.tx.ifname, veth.rx.ifname, "wire" if veth.rx.nic else "veth"))
        if veth.rx.master is not None:
            edges.append(Edge(veth.rx.ifname, veth.rx.master, "port"))
        if veth.tx.master is not None:
            edges.append(Edge(veth.tx.master, veth.tx.ifname, "port"))
    ingress = {router.in_ifname for router in layout.routers}
    for macvlan in layout.macvlans:
        ends = (macvlan.lower, macvlan.ifname)
        source, target = ends if macvlan.ifname in ingress else ends[::-1]
        edges.append(Edge(source, target, "macvtap" if macvlan.tap else "macvlan"))
    for router in layout.routers:
        labels = ("forwards",) if len(_chain(router)) == 2 else ("macvtap", "forwards", "macvtap")
        pairs = zip(pairwise(_chain(router)), labels, strict=True)
        edges += [Edge(source, target, label) for (source, target), label in pairs]
    # Path isolane: no device joins NIC and routers, the policy's programs redirect the frames.
    for router in layout.routers:
        if router.host_side is not None:
            port = next(v.tx.ifname for v in layout.veths if v.rx.ifname == router.in_ifname)
            edges.append(Edge(POLICY_NICS[0], port, "redirect"))
            edges.append(Edge(router.host_side, POLICY_NICS[1], "redirect"))
    return (*edges, *_of_back_end(layout))


def _of_back_end(layout: Layout) -> Iterator[Edge]:
    if layout.back_end is None:
        return
    (arrive, leave), (receiving, sending) = layout.back_end.uplinks, _BACK_END
    yield Edge(arrive, receiving, "packet socket")
    for router in layout.routers:
        if router.served:
            yield Edge(receiving, router.in_ifname, "vhost-user")
            yield Edge(router.out_ifname, sending, "vhost-user")
    yield Edge(sending, leave, "packet socket")

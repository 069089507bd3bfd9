"""Capture points: where frames are stamped on their way through a test bed. Pure.

A frame is seen where it comes in by an interface as the kernel's own (not where XDP redirects it),
and where it leaves by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from isolane import _native
from isolane.testbed import netns
from isolane.testbed.bed_devices import DUT, Layout, RouterLayout

_ORDER: Final = _native.Points.names()[:-1]
"""Of a frame's way; the last name is that of all of it."""


@dataclass(frozen=True)
class CapturePoint:
    """A point on the way of a router's frames; routers may share one."""

    router: str
    netns: str
    """File of the namespace."""
    ifindex: int
    ifname: str
    sending: bool
    """Whether frames leave by the interface."""
    name: str
    first: bool = False
    last: bool = False


def capture_points_of(
    layout: Layout, ifindex: Mapping[tuple[str, str], int]
) -> tuple[CapturePoint, ...]:
    """Return the points of all routers, each router's in the order of its frames' way.

    Parameters
    ----------
    ifindex
        (namespace, interface) -> index.
    """
    routers = layout.routers
    return tuple(point for router in routers for point in _of_router(layout, router, ifindex))


def _of_router(
    layout: Layout, router: RouterLayout, ifindex: Mapping[tuple[str, str], int]
) -> Iterator[CapturePoint]:
    found_at = dict(_points_of(layout, router))
    found = [
        CapturePoint(
            router.name,
            str(netns.NETNS_DIR / space),
            ifindex[space, ifname],
            ifname,
            name in ("port-in", "router-out", "nic-out"),
            name,
        )
        for name in _ORDER
        if name in found_at
        for space, ifname in (found_at[name],)
    ]
    if found:
        found[0] = replace(found[0], first=True)
        found[-1] = replace(found[-1], last=True)
    yield from found


def _points_of(layout: Layout, router: RouterLayout) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield name, namespace and interface of each point, in any order."""
    if router.bare:
        return
    own = router.netns, router.in_ifname
    nic = next((n for n in layout.dut_nics if n.far_ifname == router.gen_ifname), None)
    leaving = router.netns, router.out_ifname
    if router.host_side is not None:
        # XDP takes frames from the NIC to the router, and from the router to the NIC.
        yield "router-in", own
        yield "router-out", leaving
        return
    if nic is not None and (nic.netns, nic.ifname) != own:
        yield "nic-in", (nic.netns, nic.ifname)
    out = next(veth.tx for veth in layout.veths if veth.rx.ifname == router.rcv_ifname)
    if router.served:
        yield "nic-out", (out.netns, out.ifname)
        return
    if own not in {(each.netns, each.ifname) for each in layout.uppers}:
        # A macvlan's frames come in by the interface below, and by no other.
        yield "router-in", own
    yield "router-out", leaving
    if (out.netns, out.ifname) != leaving:
        yield "nic-out", (out.netns, out.ifname)
    for veth in layout.veths:
        if veth.tx.netns == DUT and (veth.rx.netns, veth.rx.ifname) == own:
            yield "port-in", (DUT, veth.tx.ifname)
        if veth.rx.netns == DUT and (veth.tx.netns, veth.tx.ifname) == leaving:
            yield "port-out", (DUT, veth.rx.ifname)

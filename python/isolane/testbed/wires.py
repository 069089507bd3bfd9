"""The wires of a test bed as generator and receiver need them. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from isolane.testbed import netns
from isolane.testbed.bed_devices import GEN, RCV, Layout
from isolane.testbed.bed_plan import Wire


def wires_of(layout: Layout, ifindex: Mapping[tuple[str, str], int]) -> tuple[Wire, ...]:
    """Return the wires, one per router, in the plan's order.

    Parameters
    ----------
    ifindex
        (namespace, interface) -> index.
    """
    return tuple(
        Wire(
            router=router.name,
            gen_netns=str(netns.NETNS_DIR / GEN),
            gen_ifindex=ifindex[GEN, router.gen_ifname],
            gen_ifname=router.gen_ifname,
            src_mac=router.src_mac,
            dst_mac=router.in_mac,
            src_ip=router.src_ip,
            src_count=router.src_count,
            dst_ip=router.dst_ip,
            router_ip=router.in_address.partition("/")[0],
            rcv_netns=str(netns.NETNS_DIR / RCV),
            rcv_ifindex=ifindex[RCV, router.rcv_ifname],
            rcv_ifname=router.rcv_ifname,
        )
        for router in layout.routers
    )

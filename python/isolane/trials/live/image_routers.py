"""Routers that start from the user's images: answered for their neighbours, and awaited."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address, ip_interface
from typing import Final

from isolane.errors import MeasurementError
from isolane.external.answering import Answering
from isolane.external.link_sockets import LinkSide
from isolane.external.router_examination import AGAIN_S, NotForwarding, There, examine
from isolane.testbed import ImageRouter, Testbed

BOOT_S: Final = 300.0
"""How long an image may take until its router forwards."""


@contextmanager
def answered(bed: Testbed) -> Iterator[None]:
    """Answer what the images of a test bed ask for, from when on each of them forwards.

    Raises
    ------
    MeasurementError
        If one of them does not, with the last lines of its console.
    """
    routers = bed.image_routers
    if not routers:
        yield
        return
    sides = {router.wire.router: _sides(router) for router in routers}
    with Answering(side.link for pair in sides.values() for side in pair):
        deadline_s = time.monotonic() + BOOT_S
        for name, pair in sides.items():
            _await(bed, name, pair, deadline_s)
        yield


def _await(bed: Testbed, name: str, sides: tuple[There, There], deadline_s: float) -> None:
    while True:
        console = bed.last_lines(name) or "-"
        try:
            examine(name, *sides)
        except NotForwarding as error:
            if time.monotonic() > deadline_s:
                raise MeasurementError(
                    f"{error}; it was started {BOOT_S:g} s ago, and says: {console}"
                ) from None
            time.sleep(AGAIN_S)  # it may have said at once that it has no route yet
        else:
            return


def _sides(router: ImageRouter) -> tuple[There, There]:
    wire = router.wire
    ends = (
        (
            LinkSide(wire.gen_netns, wire.gen_ifname, wire.gen_ifindex, wire.src_mac,
                     ip_address(wire.src_ip)),
            router.in_address, wire.dst_mac,
        ),
        (
            LinkSide(wire.rcv_netns, wire.rcv_ifname, wire.rcv_ifindex, router.rcv_mac,
                     ip_address(wire.dst_ip)),
            router.out_address, router.out_mac,
        ),
    )  # fmt: skip
    ingress, egress = (There(link, ip_interface(at).ip, mac) for link, at, mac in ends)
    return ingress, egress

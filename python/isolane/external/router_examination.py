"""Whether an external router does what the experiment says of it, before anything is measured."""

from __future__ import annotations

import secrets
import select
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from isolane.errors import MeasurementError
from isolane.external.link_sockets import (
    OUTGOING,
    LinkSide,
    listening_socket,
    neighbour_socket,
)
from isolane.external.neighbours import question, told
from isolane.external.probe_frames import Probe
from isolane.spec.host_addresses import Address

TRIES: Final = 12
AGAIN_S: Final = 0.25
"""How often, and how long after each other, a router is asked: for as long in all as neighbours
are usually asked (RFC 4861, 10). Counted in questions: this machine may stop in between."""
LIMIT_S: Final = TRIES * AGAIN_S
_FRAME_BYTES: Final = 2048


@dataclass(frozen=True)
class There:
    """One side of an external router: our interface, and the router's addresses behind it."""

    link: LinkSide
    address: Address
    mac: str


class NotForwarding(MeasurementError):  # noqa: N818 - what it is, and mostly no failure
    """A router does not answer or forward: what is still starting will do so later."""


def examine(router: str, ingress: There, egress: There) -> None:
    """Ask an external router on both sides who it is, and see it forward.

    Whoever examines has to answer for our addresses meanwhile (:class:`Answering`).

    Raises
    ------
    NotForwarding
        If it does not answer, or does not forward.
    MeasurementError
        If it has other MACs than the experiment says, or rewrites more than a router may.
    """
    for side in (ingress, egress):
        _ask(router, side)
    _see_it_forward(router, ingress, egress)


def _ask(router: str, side: There) -> None:
    """Compare the router's MAC with what the experiment says."""
    asked = question(side.address, own=side.link.own, mac=side.link.mac)
    with neighbour_socket(side.link) as opened:
        for frame, _, _ in _heard(opened, [opened], asked):
            found = told(frame)
            if found is None or found[0] != side.address:
                continue
            if found[1] == side.mac:
                return
            raise MeasurementError(
                f"router {router}: {side.address} behind {side.link.ifname} has the MAC address "
                f"{found[1]}; the experiment says {side.mac}"
            )
    by = "ARP" if side.address.version == 4 else "neighbour discovery"
    raise NotForwarding(
        f"router {router} does not answer: nobody behind {side.link.ifname} has {side.address} "
        f"(asked for {LIMIT_S:g} s by {by})"
    )


def _see_it_forward(router: str, ingress: There, egress: There) -> None:
    probe = Probe(
        source_mac=ingress.link.mac,
        router_mac=ingress.mac,
        source=ingress.link.own,
        to=egress.link.own,
        token=b"isolane " + secrets.token_bytes(16),
    )
    version = ingress.address.version
    with ExitStack() as open_:
        sending = open_.enter_context(neighbour_socket(ingress.link))
        where = {side.link.netns for side in (ingress, egress)}
        ears = [open_.enter_context(listening_socket(netns, version)) for netns in where]
        elsewhere = None
        for frame, ifname, kind in _heard(sending, ears, probe.frame()):
            if kind == OUTGOING or not probe.is_in(frame):
                continue
            if complaint := probe.complaint(frame):
                raise NotForwarding(f"router {router} does not forward: it says {complaint}")
            if probe.hops(frame) < 1:
                continue  # on its way to the router, where that is on this host
            if ifname == egress.link.ifname:
                _compare(router, probe, frame, egress)
                return
            elsewhere = ifname
    if elsewhere is not None:
        raise NotForwarding(
            f"router {router}: its frames come back by {elsewhere}, not by {egress.link.ifname}"
        )
    raise NotForwarding(
        f"router {router} does not forward: nothing sent to {egress.link.own} by "
        f"{ingress.link.ifname} came back by {egress.link.ifname} within {LIMIT_S:g} s"
    )


def _compare(router: str, probe: Probe, frame: bytes, egress: There) -> None:
    changes = probe.changes(frame, from_mac=egress.mac, to_mac=egress.link.mac)
    if changes:
        raise MeasurementError(
            f"router {router} rewrites more than a router may: {'; '.join(changes)}"
        )


def _heard(
    sending: socket.socket, ears: Sequence[socket.socket], frame: bytes
) -> Iterator[tuple[bytes, str, int]]:
    """Send a frame again and again, and yield what is heard: frame, interface, kind."""
    waiting = select.poll()
    by_descriptor = {each.fileno(): each for each in ears}
    for descriptor in by_descriptor:
        waiting.register(descriptor, select.POLLIN)
    for _ in range(TRIES):
        _send(sending, frame)
        end_s = time.monotonic() + AGAIN_S
        left_s = AGAIN_S
        while left_s > 0:
            for descriptor, _ in waiting.poll(left_s * 1e3):
                try:
                    got, where = by_descriptor[descriptor].recvfrom(_FRAME_BYTES)
                except OSError:
                    continue  # taken back, or the interface went down
                yield got, where[0], where[2]
            left_s = end_s - time.monotonic()


def _send(sending: socket.socket, frame: bytes) -> None:
    try:
        sending.send(frame)
    except OSError as error:
        name = sending.getsockname()[0]
        raise MeasurementError(f"{name} sends nothing: {error.strerror}") from None

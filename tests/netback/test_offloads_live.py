"""Streams of TCP through guests of `isolane netback`: checksums and segmentation left to others."""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from isolane.guests import UmlGuest
from isolane.netback import Status

from tests.live import LIMIT_S
from tests.netback.back_end import BackEnd, back_end, far_mac, mac
from tests.netback.far_end import Arrivals, conserved, of, ones_sum, send_merged
from tests.netback.streams import ends, of_ip

pytestmark = [
    pytest.mark.root,
    pytest.mark.beside,
    pytest.mark.native,
    pytest.mark.usefixtures("needs_root", "needs_guest_kernel"),
]

BYTES = 1_500_000
SEGMENTS = BYTES // 1448
"""As many at least: headers and options take 52 bytes and more of 1,500."""
Switch = Literal["on", "off"]
TURNS = 5


# With IPv4 and merged segments: below, through two guests. Division is the same code for both ends.
@pytest.mark.parametrize(("ip_version", "offloads"), [(4, "off"), (6, "on")])
def test_a_stream_arrives_whole(ip_version: int, offloads: Switch, tmp_path: Path) -> None:
    with (
        back_end(tmp_path, more=f", offloads: {offloads}") as one,
        one.guest(0, ip_version),
        ends(ip_version) as send,
    ):
        send(os.urandom(BYTES))
        status = one.until("all is sent", lambda s: not any(port.waiting for port in s.ports))
    conserved(status)
    arrived, left = of(status, one.port(0, 0)), of(status, one.port(1, 0))
    assert left.sent >= SEGMENTS, "merged segments are divided for the uplink"
    assert status.uplinks[0].received < SEGMENTS, "the client's kernel has merged them"
    if offloads == "on":
        assert arrived.delivered < SEGMENTS, "the guest takes them merged"
    else:
        assert arrived.delivered + arrived.ring_full >= SEGMENTS, "each is given to the guest"
    nothing_impossible(status)


@pytest.mark.parametrize("offloads", ["on", "off"])
def test_merged_segments_of_a_vlan(offloads: Switch, tmp_path: Path) -> None:
    """Longer than a slot of the uplink's ring: the tag stands beside it, the frame elsewhere."""
    with (
        back_end(tmp_path, more=f", vlan: 7, offloads: {offloads}") as one,
        one.guest(0),
        closing(Arrivals()) as arrivals,
    ):
        payload = os.urandom(3000)
        frame = merged(one.frame(0, size=54 + len(payload)), payload)
        for _ in range(TURNS):
            send_merged(struct.pack("=BBHHHH", 1, 1, 58, 1448, 38, 16), frame)
            arrivals.take(3)
        status = one.until("all is sent", lambda s: not any(port.waiting for port in s.ports))
    conserved(status)
    assert of(status, one.port(0, 0)).delivered == (1 if offloads == "on" else 3) * TURNS
    assert status.uplinks[0].received == TURNS
    assert {frame[12:18] for frame in arrivals.frames} == {b"\x81\x00\x00\x07\x08\x00"}
    assert b"".join(frame[58:] for frame in arrivals.frames) == payload * TURNS
    for frame in arrivals.frames:
        packet = frame[18:]
        assert ones_sum(packet[:20]) == 0xFFFF
        pseudo = packet[12:20] + b"\0\6" + (len(packet) - 20).to_bytes(2, "big")
        assert ones_sum(pseudo + packet[20:]) == 0xFFFF
    nothing_impossible(status)


def merged(datagram: bytes, payload: bytes) -> bytes:
    """Make a tagged frame of TCP of one that has a datagram as long, its checksum left open."""
    header = bytearray(datagram[14:34])
    header[9:12] = b"\6\0\0"
    header[10:12] = (0xFFFF - ones_sum(bytes(header))).to_bytes(2, "big")
    pseudo = ones_sum(bytes(header[12:20]) + b"\0\6" + (20 + len(payload)).to_bytes(2, "big"))
    tcp = struct.pack("!HHIIBBHHH", 1, 2, 3, 4, 0x50, 0x10, 500, pseudo, 0)
    return datagram[:12] + b"\x81\0\0\7\x08\0" + bytes(header) + tcp + payload


@pytest.mark.parametrize("second", ["on", "off"])
def test_guests_leave_work_to_each_other(second: Switch, tmp_path: Path) -> None:
    """The first one sends to the second, and that one to the server, by the same wire."""
    with back_end(tmp_path, 2, more=", offloads: on") as one:
        switch(one, f"{one.port(1, 1)}:", second)
        one.start_again()
        with through_both(one), ends(4) as send:
            send(os.urandom(BYTES))
            status = one.until("all is sent", lambda s: not any(p.waiting for p in s.ports))
    conserved(status)
    between = of(status, one.port(1, 1))
    assert status.uplinks[0].received < SEGMENTS, "the client's kernel has merged them"
    assert of(status, one.port(0, 0)).delivered < SEGMENTS, "the first guest takes them merged"
    if second == "on":
        assert between.delivered < SEGMENTS, "and so does the second one"
    else:
        assert between.delivered + between.ring_full >= SEGMENTS
    assert between.sent >= SEGMENTS, "as they are on the uplink"
    nothing_impossible(status)


def switch(one: BackEnd, port: str, offloads: Switch) -> None:
    """Change the file for one port."""
    lines = one.file.read_text().splitlines(keepends=True)
    changed = [
        line.replace("offloads: on", f"offloads: {offloads}") if port in line else line
        for line in lines
    ]
    one.file.write_text("".join(changed))


@contextlib.contextmanager
def through_both(one: BackEnd) -> Iterator[None]:
    """Have the first guest send the second one what is for the server."""
    plain = one.plan(0)
    first = replace(plain, script=plain.script.replace(far_mac(1), mac(1, 1)))
    to_server = f"ip neighbour add {of_ip(4, 1, 2)} lladdr {far_mac(1)} dev eth1 nud permanent"
    own = f"ip address add {of_ip(4, 1, 3)}/24 dev eth1"
    plain = one.plan(1)
    second = replace(plain, script=f"{plain.script}\n{own}\n{to_server}")
    assert first.script != one.plan(0).script
    with UmlGuest(first, LIMIT_S), UmlGuest(second, LIMIT_S):
        yield


def nothing_impossible(status: Status) -> None:
    assert all(port.malformed == port.too_long == 0 for port in status.ports), status
    assert all(uplink.too_long == uplink.refused == 0 for uplink in status.uplinks), status

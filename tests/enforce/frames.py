"""Frames made by hand, sent and caught by packet sockets."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import struct
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from isolane.testbed import Wire

from tests.enforce.rig import inside
from tests.live import LIMIT_S, transmit

QUIET_S = 0.15
"""Nothing more comes when nothing has come for so long."""
ETH_ALL = 3


def checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF


@dataclass(frozen=True)
class Frame:
    """A UDP frame on a wire; without the frame check sequence."""

    wire: Wire
    number: int = 0
    """Tells it from others: the source port."""
    ttl: int = 64
    dst: str | None = None
    options: bytes = b""
    flags: int = 0
    """And fragment offset, IPv4: 0x2000 more fragments, 0x4000 not to be fragmented."""
    payload: int = 26

    def data(self) -> bytes:
        src = ipaddress.ip_address(self.wire.src_ip)
        dst = ipaddress.ip_address(self.dst or self.wire.dst_ip)
        length = 8 + self.payload
        udp = struct.pack("!HHHH", 1024 + self.number, 9, length, int(src.version == 6))
        udp += bytes(self.payload)
        macs = bytes.fromhex((self.wire.dst_mac + self.wire.src_mac).replace(":", ""))
        if src.version == 6:
            head = struct.pack("!IHBB", 6 << 28, length, 17, self.ttl) + src.packed + dst.packed
            return macs + b"\x86\xdd" + head + udp
        words = 5 + len(self.options) // 4
        first = struct.pack(
            "!BBHHHBB", 0x40 | words, 0, 4 * words + length, 7, self.flags, self.ttl, 17
        )
        rest = src.packed + dst.packed + self.options
        total = checksum(first + b"\0\0" + rest)
        return macs + b"\x08\x00" + first + struct.pack("!H", total) + rest + udp


def send(wire: Wire, frames: list[Frame]) -> None:
    """Send frames one by one, slowly enough for any queue that is polled."""

    def work() -> None:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as raw:
            raw.bind((wire.gen_ifname, 0))
            for frame in frames:
                transmit(raw, frame.data())
                time.sleep(0.001)

    inside(Path(wire.gen_netns).name, work)


def _is_report(frame: bytes) -> bool:
    """Whether it tells of a multicast listener, which new interfaces do when they get to it."""
    return frame[12:14] == b"\x86\xdd" and frame[20] == 0  # options for each hop


@dataclass
class Caught:
    """What arrived on an interface, frame by frame."""

    _socket: socket.socket
    frames: list[bytes] = field(default_factory=list)

    def take(self) -> None:
        """Take what has arrived by now."""
        with contextlib.suppress(BlockingIOError):
            while True:
                data, (_, _, kind, *_) = self._socket.recvfrom(2048)
                if kind != socket.PACKET_OUTGOING and not _is_report(data):
                    self.frames.append(data)


def wait(caught: Iterable[Caught], number: int) -> None:
    """Wait until so many frames have arrived here or there, and no more come."""
    all_caught = tuple(caught)
    deadline, latest, since = time.monotonic() + LIMIT_S, 0, time.monotonic()
    while latest < number or time.monotonic() < since + QUIET_S:
        assert time.monotonic() < deadline, f"{latest} frames arrived, not {number}"
        time.sleep(0.01)
        for one in all_caught:
            one.take()
        if (count := sum(len(one.frames) for one in all_caught)) != latest:
            latest, since = count, time.monotonic()


@contextlib.contextmanager
def catching(netns: str, ifname: str) -> Iterator[Caught]:
    """Listen on an interface."""

    def work() -> socket.socket:
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_ALL))
        raw.bind((ifname, ETH_ALL))
        raw.setblocking(False)
        return raw

    with inside(Path(netns).name, work) as raw:
        yield Caught(raw)


def icmp(frame: bytes) -> tuple[int, int] | None:
    """Type and code of an ICMP message; None for anything else."""
    if frame[12:14] == b"\x08\x00" and frame[23] == 1:
        return frame[34], frame[35]
    if frame[12:14] == b"\x86\xdd" and frame[20] == 58:
        return frame[54], frame[55]
    return None

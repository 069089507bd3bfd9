"""The far ends of a back-end's wires: where frames come from, and where they arrive."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from typing import Any

from isolane.netback import PortStatus, Status
from isolane.netback.port_rates import NOT_SENT
from isolane.testbed.host_links import in_netns

from tests.live import LIMIT_S, transmit
from tests.netback.back_end import FAR, far_mac

SO_RCVBUFFORCE, _SOL_PACKET, _PACKET_AUXDATA, _PACKET_VNET_HDR = 33, 263, 8, 15
"""Not in the socket module."""
_VLAN_VALID = 0x10


def in_far(act: Callable[[], Any]) -> Any:
    """Do something in the namespace of the wires' far ends."""
    return in_netns(f"/run/netns/{FAR}", act)


def send(frames: list[bytes]) -> None:
    """Send frames by the first wire's far end; one that the wire refuses is sent again.

    It does where nobody polls its other end, as while a back-end starts, or on a machine that has
    no time for it.
    """

    def there() -> None:
        deadline = time.monotonic() + LIMIT_S
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
            raw.bind(("g0", 0))
            for frame in frames:
                while not transmit(raw, frame):
                    assert time.monotonic() < deadline, "the wire takes no frame"
                    time.sleep(0.001)

    in_far(there)


def send_merged(header: bytes, frame: bytes) -> None:
    """Send segments as one frame, behind a `struct virtio_net_hdr` that says how to divide it."""

    def there() -> None:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
            raw.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
            raw.bind(("g0", 0))
            raw.send(header + frame)

    in_far(there)


def whole(frame: bytes, beside: list[tuple[int, int, bytes]]) -> bytes:
    """Put the VLAN's tag back, which the kernel has taken out of a frame."""
    for level, kind, data in beside:
        if (level, kind) == (_SOL_PACKET, _PACKET_AUXDATA):
            status, _, _, _, _, tci, tpid = struct.unpack_from("=IIIHHHH", data)
            if status & _VLAN_VALID:
                return frame[:12] + struct.pack("!HH", tpid or 0x8100, tci) + frame[12:]
    return frame


class Arrivals:
    """Frames for the second wire's far end: what guests say to all is not among them."""

    def __init__(self) -> None:
        self._raw: socket.socket = in_far(self._open)
        self.frames: list[bytes] = []

    @staticmethod
    def _open() -> socket.socket:
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        raw.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)
        raw.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        raw.bind(("r0", 3))
        raw.settimeout(LIMIT_S)
        return raw

    def take(self, frames: int) -> None:
        """Wait for so many more."""
        wanted = len(self.frames) + frames
        while len(self.frames) < wanted:
            frame = whole(*self._raw.recvmsg(2048, 64)[:2])
            if frame.startswith(bytes.fromhex(far_mac(1).replace(":", ""))):
                self.frames.append(frame)

    def have_one_within(self, limit_s: float) -> bool:
        """Tell whether a frame comes within so short a time."""
        self._raw.settimeout(limit_s)
        try:
            self._raw.recv(2048)
        except TimeoutError:
            return False
        finally:
            self._raw.settimeout(LIMIT_S)
        return True

    def take_error(self) -> None:
        """Go on after the wire's end was down: its sockets are told once."""
        self._raw.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)

    def close(self) -> None:
        self._raw.close()


def ones_sum(data: bytes) -> int:
    """The sum of 16-bit words in ones' complement (RFC 1071)."""
    padded = data + b"\0" * (len(data) % 2)
    total = sum(int.from_bytes(padded[i : i + 2], "big") for i in range(0, len(padded), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def of(status: Status, name: str) -> PortStatus:
    return next(port for port in status.ports if port.name == name)


def conserved(status: Status) -> None:
    for port in status.ports:
        unsent = sum(getattr(port, reason) for reason in NOT_SENT)
        assert port.transmitted == port.sent + unsent + port.waiting, port
    into = sum(p.delivered + p.ring_full + p.too_long + p.no_guest for p in status.ports)
    assert into >= sum(uplink.received for uplink in status.uplinks), status

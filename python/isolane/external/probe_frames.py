"""The frames that an external router is tried with, and what it may change in them. Pure.

A router takes a hop off the TTL, writes new MAC addresses, and changes nothing else (RFC 1812,
5.2.1; RFC 8200, 3). What rewrites more is no router for a measurement: its frames would be counted
as another's, or as damaged.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, ip_address
from typing import Final

from isolane.external.neighbours import (
    ETH_P_IP,
    ETH_P_IPV6,
    internet_checksum,
    mac_bytes,
    mac_text,
)
from isolane.spec.host_addresses import Address

TTL: Final = 64
SOURCE_PORT, DISCARD_PORT = 1023, 9
"""The generator's flows begin at the next one (RFC 863)."""
_UDP: Final = 17
_HEAD_BYTES: Final = {4: 20, 6: 40}
_ICMP: Final = {4: 1, 6: 58}
_UNREACHABLE: Final = {(4, 3): "destination unreachable", (4, 11): "time exceeded",
                       (4, 5): "redirect", (6, 1): "destination unreachable",
                       (6, 3): "time exceeded", (6, 2): "packet too big"}  # fmt: skip


@dataclass(frozen=True)
class Probe:
    """A frame to a router, as it leaves, and what comes back is compared with."""

    source_mac: str
    router_mac: str
    source: Address
    to: Address
    token: bytes
    """Tells it from all other frames."""

    def frame(self) -> bytes:
        """Return the frame without its checksum."""
        packet = _packet(self.source, self.to, TTL, self.token)
        kind = ETH_P_IP if self.source.version == 4 else ETH_P_IPV6
        head = mac_bytes(self.router_mac) + mac_bytes(self.source_mac)
        return head + struct.pack("!H", kind) + packet

    def is_in(self, frame: bytes) -> bool:
        """Tell whether a frame carries this probe, or, as an ICMP error does, a part of it."""
        return self.token in frame

    def hops(self, frame: bytes) -> int:
        """Return how many routers a frame with the probe has passed."""
        return TTL - frame[22 if self.source.version == 4 else 21]

    def complaint(self, frame: bytes) -> str | None:
        """Return what an ICMP error about the probe says; None for any other frame."""
        version = self.source.version
        at = 14 + _HEAD_BYTES[version]
        protocol = frame[23 if version == 4 else 20]
        if protocol != _ICMP[version] or len(frame) < at + 2:
            return None
        words = _UNREACHABLE.get((version, frame[at]), f"ICMP type {frame[at]}")
        return f"{words} (code {frame[at + 1]})"

    def changes(self, frame: bytes, *, from_mac: str, to_mac: str) -> tuple[str, ...]:
        """Return what was changed beyond what a router may, in words; empty if nothing was."""
        return tuple(self._changes(frame, from_mac, to_mac))

    def _changes(self, frame: bytes, from_mac: str, to_mac: str) -> Iterator[str]:
        for name, seen, right in (
            ("source", frame[6:12], from_mac),
            ("destination", frame[:6], to_mac),
        ):
            if seen != mac_bytes(right):
                yield f"its {name} MAC address is {mac_text(seen)}, not {right}"
        version = self.source.version
        came, sent = frame[14:], self.frame()[14:]
        if came[0] >> 4 != version:
            yield f"it is of IP version {came[0] >> 4}"
            return
        for name, a, b in _FIELDS[version]:
            if came[a:b] != sent[a:b]:
                yield f"its {name} is {_show(name, came[a:b])}, not {_show(name, sent[a:b])}"
        if version == 4 and internet_checksum(came[:20]):
            yield "its header's checksum is wrong"


_FIELDS: Final[dict[int, tuple[tuple[str, int, int], ...]]] = {
    4: (
        ("length of the header", 0, 1), ("TOS byte (DSCP)", 1, 2), ("length", 2, 4),
        ("identification", 4, 6), ("fragment field", 6, 8), ("protocol", 9, 10),
        ("source address", 12, 16), ("destination address", 16, 20),
        ("source port", 20, 22), ("destination port", 22, 24), ("length of UDP", 24, 26),
        ("UDP checksum", 26, 28),
    ),
    6: (
        ("traffic class and flow label", 0, 4), ("length", 4, 6), ("next header", 6, 7),
        ("source address", 8, 24), ("destination address", 24, 40),
        ("source port", 40, 42), ("destination port", 42, 44), ("length of UDP", 44, 46),
        ("UDP checksum", 46, 48),
    ),
}  # fmt: skip
"""By IP version: fields that a router leaves as they are, with their bytes in the packet."""


def _show(name: str, value: bytes) -> str:
    if name.endswith("address"):
        return str(ip_address(value))
    if name.endswith("port") or name.startswith("length"):
        return str(int.from_bytes(value, "big"))
    return "0x" + value.hex()


def _packet(source: Address, to: Address, ttl: int, payload: bytes) -> bytes:
    length = 8 + len(payload)
    udp = struct.pack("!HHHH", SOURCE_PORT, DISCARD_PORT, length, 0) + payload
    pseudo = source.packed + to.packed + struct.pack("!II", length, _UDP)
    checksum = internet_checksum(pseudo + udp) or 0xFFFF
    udp = udp[:6] + struct.pack("!H", checksum) + payload
    if isinstance(source, IPv4Address):
        head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + length, 0, 0, ttl, _UDP, 0)
        head += source.packed + to.packed
        head = head[:10] + struct.pack("!H", internet_checksum(head)) + head[12:]
    else:
        head = struct.pack("!IHBB", 6 << 28, length, _UDP, ttl) + source.packed + to.packed
    return head + udp

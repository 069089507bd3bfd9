"""A NIC's receive filters (``ethtool -N``): which queue takes the frames for a MAC address.

Source: linux/ethtool.h, ``struct ethtool_rxnfc`` and ``struct ethtool_rxfh_indir``. Filters are
those that a driver offers by ETHTOOL_SRXCLSRLINS; a veth has none.
"""

from __future__ import annotations

import errno
import socket
import struct
from dataclasses import dataclass

from isolane.testbed import kernel

_GRXRINGS, _GRXCLSRLCNT, _GRXCLSRULE, _GRXCLSRLALL = 0x2D, 0x2E, 0x2F, 0x30
_SRXCLSRLDEL, _SRXCLSRLINS = 0x31, 0x32
_GRXFHINDIR, _SRXFHINDIR = 0x38, 0x39
_ETHER_FLOW, _FLOW_EXT = 0x12, 0x80000000
_LOC_SPECIAL, _LOC_ANY = 0x80000000, 0xFFFFFFFF
_VLAN_ID = 0x0FFF
_FLOW = struct.Struct("=I 6s46s 8s2s2s8s 6s46s 8s2s2s8s 4xQI4x")
"""Flow type; destination MAC and the rest of the header; VLAN type, VLAN and the rest of the
extension; the masks of all these; queue and location."""
_RULE = struct.Struct(f"=IIQ{_FLOW.size}sI4x")
_WHOLE_MAC = b"\xff" * 6


@dataclass(frozen=True)
class ReceiveFilter:
    """A filter that is in a NIC."""

    location: int
    mac: str | None
    """Destination MAC address that it looks for; None: it looks for something else, too."""
    vlan: int
    """VLAN that it looks for; 0: none."""
    queue: int


def queues(sock: socket.socket, ifname: str) -> int:
    """Return how many receive queues there are; OSError where the driver does not tell."""
    return int(_ask(sock, ifname, _GRXRINGS)[2])


def capacity(sock: socket.socket, ifname: str) -> int:
    """Return how many filters fit into the NIC; 0: its driver does not tell.

    Raises
    ------
    OSError
        If the driver has no filters.
    """
    return int(_ask(sock, ifname, _GRXCLSRLCNT)[2] & ~_LOC_SPECIAL)


def filters(sock: socket.socket, ifname: str) -> list[ReceiveFilter]:
    """Return all filters of a NIC, whoever has set them."""
    count = _ask(sock, ifname, _GRXCLSRLCNT)[4]
    head = _RULE.pack(_GRXCLSRLALL, 0, 0, b"", count)[:-4]  # the locations begin within the padding
    answer = kernel.ethtool(sock, ifname, head, 4 * count + 4)
    locations = struct.unpack_from(f"={count}I", answer, len(head))
    return [_one(sock, ifname, location) for location in locations]


def _one(sock: socket.socket, ifname: str, location: int) -> ReceiveFilter:
    flow = _FLOW.pack(0, *(b"",) * 12, 0, location)
    kind, mac, _, _, _, tag, _, mac_mask, more, _, _, tag_mask, _, queue, _ = _FLOW.unpack(
        _ask(sock, ifname, _GRXCLSRULE, flow)[3]
    )
    by_mac = kind & ~_FLOW_EXT == _ETHER_FLOW and mac_mask == _WHOLE_MAC and not any(more)
    tagged = bool(kind & _FLOW_EXT and any(tag_mask))
    vlan = int.from_bytes(tag, "big") & _VLAN_ID if tagged else 0
    return ReceiveFilter(location, mac.hex(":") if by_mac else None, vlan, queue)


def add(sock: socket.socket, ifname: str, mac: str, vlan: int, queue: int) -> None:
    """Have a queue take the frames for a MAC address (and VLAN, unless 0).

    Raises
    ------
    OSError
        ENOSPC when the NIC takes no more filters, EOPNOTSUPP when it has none, and others.
    """
    slots = _ask(sock, ifname, _GRXCLSRLCNT)[2]
    location = _LOC_ANY
    if not slots & _LOC_SPECIAL:
        taken = {one.location for one in filters(sock, ifname)}
        free = (number for number in reversed(range(slots)) if number not in taken)
        location = next(free, -1)
        if location < 0:
            raise OSError(errno.ENOSPC, "the NIC takes no more filters")
    tag, tag_mask = (vlan.to_bytes(2, "big"), _VLAN_ID.to_bytes(2, "big")) if vlan else (b"", b"")
    flow = _FLOW.pack(
        _ETHER_FLOW | (_FLOW_EXT if vlan else 0),
        bytes.fromhex(mac.replace(":", "")), b"", b"", b"", tag, b"",
        _WHOLE_MAC, b"", b"", b"", tag_mask, b"",
        queue, location,
    )  # fmt: skip
    _ask(sock, ifname, _SRXCLSRLINS, flow)


def remove(sock: socket.socket, ifname: str, location: int) -> None:
    """Take a filter out of a NIC."""
    _ask(sock, ifname, _SRXCLSRLDEL, _FLOW.pack(0, *(b"",) * 12, 0, location))


def spread(sock: socket.socket, ifname: str) -> list[int]:
    """Return the queues that frames without a filter are spread over by their hash (RSS)."""
    size = struct.unpack("=II", kernel.ethtool(sock, ifname, struct.pack("=II", _GRXFHINDIR, 0)))[1]
    head = struct.pack("=II", _GRXFHINDIR, size)
    return list(struct.unpack_from(f"={size}I", kernel.ethtool(sock, ifname, head, 4 * size), 8))


def set_spread(sock: socket.socket, ifname: str, table: list[int]) -> None:
    """Have frames without a filter spread over these queues."""
    kernel.ethtool(sock, ifname, struct.pack(f"=II{len(table)}I", _SRXFHINDIR, len(table), *table))


def _ask(
    sock: socket.socket, ifname: str, command: int, flow: bytes = b""
) -> tuple[int, int, int, bytes, int]:
    """Return command, flow type, data, flow and number of rules as the kernel answers them."""
    request = _RULE.pack(command, 0, 0, flow, 0)
    answer: tuple[int, int, int, bytes, int] = _RULE.unpack(kernel.ethtool(sock, ifname, request))
    return answer

"""Raw sockets on the user's interfaces, and the two system calls that they need beyond Python's."""

from __future__ import annotations

import ctypes
import socket
import struct
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Final

from isolane.errors import NotSupported, SpecError
from isolane.external.neighbours import (
    ETH_P_ARP,
    ETH_P_IP,
    ETH_P_IPV6,
    mac_bytes,
    solicited_node_mac,
)
from isolane.spec.host_addresses import Address
from isolane.testbed.host_links import in_netns

_SOL_PACKET, _ADD_MEMBERSHIP, _MULTICAST = 263, 1, 0
_SO_ATTACH_FILTER: Final = 26
OUTGOING: Final = 4
"""Kind of a frame that this host has sent itself (PACKET_OUTGOING)."""
_IS_ND: Final = (
    (0x30, 0, 0, 20),  # A = next header of IPv6
    (0x15, 0, 4, 58),  # ICMPv6? else refuse
    (0x30, 0, 0, 54),  # A = type
    (0x35, 0, 2, 135),  # a neighbour's question or answer? else refuse
    (0x25, 1, 0, 136),
    (0x06, 0, 0, 0xFFFF),  # take the frame
    (0x06, 0, 0, 0),
)
"""Classic BPF: so that nobody is woken by other traffic (linux/filter.h)."""


@dataclass(frozen=True)
class LinkSide:
    """An interface of this host that leads to an external router, and our address there."""

    netns: str | None
    """File of its network namespace; None: this process's."""
    ifname: str
    ifindex: int
    mac: str
    own: Address


def neighbour_socket(side: LinkSide) -> socket.socket:
    """Return a socket that sends any frame, and receives ARP, or neighbour discovery.

    Raises
    ------
    NotSupported
        Without the right to open one.
    """
    version = side.own.version
    opened = _opened(side.netns, ETH_P_ARP if version == 4 else ETH_P_IPV6, side.ifname)
    if isinstance(side.own, IPv6Address):
        _attach_filter(opened)
        group = mac_bytes(solicited_node_mac(side.own))
        request = struct.pack("iHH8s", side.ifindex, _MULTICAST, len(group), group)
        opened.setsockopt(_SOL_PACKET, _ADD_MEMBERSHIP, request)
    return opened


def listening_socket(netns: str | None, version: int) -> socket.socket:
    """Return a socket that receives the frames of an IP version on all interfaces of a namespace.

    Raises
    ------
    NotSupported
        Without the right to open one.
    """
    return _opened(netns, ETH_P_IP if version == 4 else ETH_P_IPV6, "")


def _opened(netns: str | None, protocol: int, ifname: str) -> socket.socket:
    def made() -> socket.socket:
        everywhere = 0 if ifname else socket.htons(protocol)
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, everywhere)
        try:
            if ifname:
                opened.bind((ifname, protocol))
        except OSError:
            opened.close()
            raise
        opened.settimeout(0)
        return opened

    try:
        return in_netns(netns, made)
    except PermissionError:
        raise NotSupported("external routers need the right to open raw sockets (root)") from None
    except OSError as error:
        raise SpecError(f"{ifname or 'raw socket'}: {error.strerror}") from None


def _attach_filter(opened: socket.socket) -> None:
    code = b"".join(struct.pack("HBBI", *step) for step in _IS_ND)
    held = ctypes.create_string_buffer(code)
    program = struct.pack("HL", len(_IS_ND), ctypes.addressof(held))
    opened.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)

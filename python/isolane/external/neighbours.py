"""ARP and neighbour discovery: who has an address, and answers for our own addresses. Pure.

Sources: RFC 826 (ARP), RFC 4861, sections 4.3, 4.4 and 7.2 (neighbour discovery).
"""

from __future__ import annotations

import struct
from collections.abc import Container
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from isolane.spec.host_addresses import Address

ETH_P_IP, ETH_P_ARP, ETH_P_IPV6 = 0x0800, 0x0806, 0x86DD
_MIN_FRAME: Final = 60
"""Bytes of the shortest frame, without checksum; drivers add none to what a socket gives them."""
_REQUEST, _REPLY = 1, 2
_SOLICITATION, _ADVERTISEMENT = 135, 136
_ICMPV6: Final = 58
_HOPS: Final = 255
"""Neighbour discovery never crosses a router; another hop limit is somebody's forgery."""
_SOURCE_OPTION, _TARGET_OPTION = 1, 2
_SOLICITED, _OVERRIDE = 0x40000000, 0x20000000
_ARP = struct.Struct("!HHBBH6s4s6s4s")
_ARP_HEAD: Final = (1, ETH_P_IP, 6, 4)
"""Ethernet and IPv4, with the length of an address of each."""


def mac_bytes(mac: str) -> bytes:
    """Return the six bytes of a MAC address."""
    return bytes.fromhex(mac.replace(":", ""))


def mac_text(mac: bytes) -> str:
    """Return a MAC address as people write it."""
    return mac.hex(":")


def solicited_node_mac(address: IPv6Address) -> str:
    """Return the multicast MAC that questions for an address go to (RFC 4291, 2.7.1; RFC 2464)."""
    return mac_text(b"\x33\x33\xff" + address.packed[-3:])


def question(wanted: Address, *, own: Address, mac: str) -> bytes:
    """Return the frame that asks who has an address; `own` and `mac` are those of who asks."""
    if isinstance(wanted, IPv4Address):
        return _arp(b"\xff" * 6, _REQUEST, mac_bytes(mac), own, bytes(6), wanted)
    node = IPv6Address(b"\xff\x02" + bytes(9) + b"\x01\xff" + wanted.packed[-3:])
    body = struct.pack("!BBHI", _SOLICITATION, 0, 0, 0) + wanted.packed
    body += bytes((_SOURCE_OPTION, 1)) + mac_bytes(mac)
    assert isinstance(own, IPv6Address)
    return _nd(mac_bytes(solicited_node_mac(wanted)), mac_bytes(mac), own, node, body)


def answer(frame: bytes, own: Container[Address], mac: str) -> bytes | None:
    """Return the answer to a question for one of our addresses; None for any other frame."""
    mine = mac_bytes(mac)
    arp = _read_arp(frame)
    if arp is not None:
        code, asker_mac, asker, wanted = arp
        if code != _REQUEST or wanted not in own:
            return None
        return _arp(asker_mac, _REPLY, mine, wanted, asker_mac, asker)
    nd = _read_nd(frame, _SOLICITATION)
    if nd is None or nd[1] not in own:
        return None
    source, target, _ = nd
    known = int(source) != 0  # else it looks whether anybody has the address (RFC 4862)
    to = source if known else IPv6Address("ff02::1")
    to_mac = frame[6:12] if known else b"\x33\x33\x00\x00\x00\x01"
    flags = _OVERRIDE | (_SOLICITED if known else 0)
    body = struct.pack("!BBHI", _ADVERTISEMENT, 0, 0, flags) + target.packed
    return _nd(to_mac, mine, target, to, body + bytes((_TARGET_OPTION, 1)) + mine)


def told(frame: bytes) -> tuple[Address, str] | None:
    """Return the address and the MAC that an answer tells; None for any other frame."""
    arp = _read_arp(frame)
    if arp is not None:
        code, mac, address, _ = arp
        return (address, mac_text(mac)) if code == _REPLY else None
    nd = _read_nd(frame, _ADVERTISEMENT)
    if nd is None:
        return None
    _, target, options = nd
    mac = options[2:8] if options[:2] == bytes((_TARGET_OPTION, 1)) else frame[6:12]
    return target, mac_text(mac)


def internet_checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071); 0 over data that holds its right checksum."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data[: len(data) & ~1]))
    total += data[-1] << 8 if len(data) & 1 else 0
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _arp(
    to: bytes, code: int, mac: bytes, address: Address, other_mac: bytes, other: Address
) -> bytes:
    body = _ARP.pack(*_ARP_HEAD, code, mac, address.packed, other_mac, other.packed)
    return (to + mac + struct.pack("!H", ETH_P_ARP) + body).ljust(_MIN_FRAME, b"\0")


def _read_arp(frame: bytes) -> tuple[int, bytes, IPv4Address, IPv4Address] | None:
    """Return code, sender's MAC and address, and target's address; None if it is no ARP."""
    if len(frame) < 14 + _ARP.size or frame[12:14] != struct.pack("!H", ETH_P_ARP):
        return None
    *head, code, mac, address, _, target = _ARP.unpack_from(frame, 14)
    if tuple(head) != _ARP_HEAD:
        return None
    return code, mac, IPv4Address(address), IPv4Address(target)


def _nd(to_mac: bytes, mac: bytes, source: IPv6Address, to: IPv6Address, body: bytes) -> bytes:
    pseudo = source.packed + to.packed + struct.pack("!II", len(body), _ICMPV6)
    checksum = internet_checksum(pseudo + body)
    body = body[:2] + struct.pack("!H", checksum) + body[4:]
    head = struct.pack("!IHBB", 6 << 28, len(body), _ICMPV6, _HOPS) + source.packed + to.packed
    return to_mac + mac + struct.pack("!H", ETH_P_IPV6) + head + body


def _read_nd(frame: bytes, kind: int) -> tuple[IPv6Address, IPv6Address, bytes] | None:
    """Return source, target and options of a message of neighbour discovery; None if it is none."""
    if len(frame) < 78 or frame[12:14] != struct.pack("!H", ETH_P_IPV6):
        return None
    if frame[20] != _ICMPV6 or frame[21] != _HOPS or frame[54] != kind or frame[55]:
        return None
    length = int.from_bytes(frame[18:20], "big")
    body = frame[54 : 54 + length]
    pseudo = frame[22:54] + struct.pack("!II", length, _ICMPV6)
    if len(body) < length or internet_checksum(pseudo + body):
        return None
    return IPv6Address(frame[22:38]), IPv6Address(body[8:24]), body[24:]

"""Reads the interfaces of a network namespace by netlink, and what bridges know of their ports."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from isolane import rtnl
from isolane.enforce.find.netlink_socket import Attributes, Netlink, RawLink, read_attributes

_IFF_UP, _IFF_LOOPBACK = 0x1, 0x8
_ADDRESS, _IFNAME, _MTU, _IFLA_LINK, _MASTER, _LINKINFO = 1, 3, 4, 5, 10, 18
_LINK_NETNSID, _PARENT_DEV_NAME = 37, 56
_INFO_KIND, _INFO_DATA, _VLAN_ID, _BR_VLAN_FILTERING = 1, 2, 1, 7
"""Numbers of linux/if_link.h."""
_RTEXT_FILTER_BRVLAN: Final = 2
_BRIDGE_VLAN_PVID: Final = 0x2
_BRIDGE_VLAN_UNTAGGED: Final = 0x4
_NUD_PERMANENT: Final = 0x80


@dataclass(frozen=True)
class Link:
    """An interface as its own namespace sees it."""

    ifindex: int
    ifname: str
    kind: str | None
    """``veth``, ``macvlan``, ``bridge``, ``tun``, ...; None: a NIC or a virtual function."""
    mac: str
    link: int | None = None
    """Index of the interface below it, or of its veth peer, in the namespace ``netnsid``."""
    netnsid: int | None = None
    """Identifier (nsid) here of the namespace that ``link`` is in; None: this namespace."""
    master: int | None = None
    """Index of the bridge or bond that it is a port of."""
    vlan: int = 0
    """VLAN of a VLAN interface; 0: it is not one."""
    filtering: bool = False
    """Whether a bridge filters by VLAN."""
    parent: str | None = None
    """The device's bus address, such as ``0000:01:10.3``; None before Linux 5.14."""
    loopback: bool = False
    up: bool = True
    mtu: int = 1500


@dataclass(frozen=True)
class PortVlan:
    """VLANs of a bridge's port: of untagged frames, and those that leave it untagged."""

    pvid: int = 0
    """VLAN of frames that come in untagged; 0: none."""
    untagged: frozenset[int] = frozenset()


def read_links(netlink: Netlink) -> dict[int, Link]:
    """Return all interfaces of the socket's namespace, by index."""
    return {link.ifindex: link for link in map(_link, netlink.links())}


def _link(raw: RawLink) -> Link:
    own = raw.attributes
    info = read_attributes(own.get(_LINKINFO, b""))
    kind = _text(info[_INFO_KIND]) if _INFO_KIND in info else None
    data = read_attributes(info.get(_INFO_DATA, b""))
    return Link(
        ifindex=raw.ifindex,
        ifname=_text(own[_IFNAME]),
        kind=kind,
        mac=own.get(_ADDRESS, b"").hex(":"),
        link=_number(own, _IFLA_LINK) or None,
        netnsid=_number(own, _LINK_NETNSID),
        master=_number(own, _MASTER),
        vlan=_number(data, _VLAN_ID) or 0 if kind == "vlan" else 0,
        filtering=bool(kind == "bridge" and _number(data, _BR_VLAN_FILTERING)),
        parent=_text(own[_PARENT_DEV_NAME]) if _PARENT_DEV_NAME in own else None,
        loopback=bool(raw.flags & _IFF_LOOPBACK),
        up=bool(raw.flags & _IFF_UP),
        mtu=_number(own, _MTU) or 1500,
    )


def _text(value: bytes) -> str:
    return os.fsdecode(value.rstrip(b"\0"))


def _number(attributes: Attributes, kind: int) -> int | None:
    value = attributes.get(kind)
    return None if value is None else int.from_bytes(value, sys.byteorder, signed=len(value) == 4)


def read_learned(netlink: rtnl.IPRoute, ports: Iterable[int]) -> dict[int, tuple[str, ...]]:
    """Return the MAC addresses that bridges have learned behind each of their ports.

    Returns
    -------
    dict
        Port's index -> addresses, without the port's own; ports without any are left out.
    """
    wanted = set(ports)
    learned: dict[int, dict[str, None]] = {}
    for entry in netlink.fdb("dump"):
        port = entry["ifindex"]
        if port in wanted and not entry["state"] & _NUD_PERMANENT:
            learned.setdefault(port, {})[str(entry.get_attr("NDA_LLADDR"))] = None
    return {port: tuple(addresses) for port, addresses in learned.items()}


def read_port_vlans(netlink: rtnl.IPRoute) -> dict[int, PortVlan]:
    """Return the VLANs of all ports of bridges, by the port's index."""
    found: dict[int, PortVlan] = {}
    dump = netlink.get_links(family=socket.AF_BRIDGE, ext_mask=_RTEXT_FILTER_BRVLAN)
    for message in dump:
        spec = message.get_attr("IFLA_AF_SPEC")
        entries = [] if spec is None else spec.get_attrs("IFLA_BRIDGE_VLAN_INFO")
        pvid = [entry["vid"] for entry in entries if entry["flags"] & _BRIDGE_VLAN_PVID]
        bare = (entry["vid"] for entry in entries if entry["flags"] & _BRIDGE_VLAN_UNTAGGED)
        found[message["index"]] = PortVlan(pvid[0] if pvid else 0, frozenset(bare))
    return found

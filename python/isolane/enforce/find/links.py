"""What netlink tells of the interfaces of one network namespace, as plain data."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from pyroute2 import IPRoute

_IFF_LOOPBACK: Final = 0x8
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
    """``veth``, ``macvlan``, ``bridge``, ``tun``, ...; None: a NIC, or its virtual function."""
    mac: str
    link: int | None = None
    """Index of the interface that it stands on, or of its peer, in the namespace ``netnsid``."""
    netnsid: int | None = None
    """Number that this namespace has for the one ``link`` is in; None: this one."""
    master: int | None = None
    """Index of the bridge or bond that it is a port of."""
    vlan: int = 0
    """What a VLAN interface adds; 0: it is none."""
    filtering: bool = False
    """Of a bridge: it looks at VLANs."""
    parent: str | None = None
    """The device's address on its bus, such as ``0000:01:10.3`` (kernels since 5.14 tell)."""
    loopback: bool = False


@dataclass(frozen=True)
class PortVlan:
    """What a bridge does with untagged frames of a port, and which VLANs leave it untagged."""

    pvid: int = 0
    """VLAN of frames that come in untagged; 0: none."""
    untagged: frozenset[int] = frozenset()


def read_links(netlink: IPRoute) -> dict[int, Link]:
    """Return all interfaces of the socket's namespace, by index."""
    return {link.ifindex: link for link in map(_link, netlink.get_links())}


def _link(message: Any) -> Link:
    info = message.get_attr("IFLA_LINKINFO")
    kind = info.get_attr("IFLA_INFO_KIND") if info is not None else None
    data = info.get_attr("IFLA_INFO_DATA") if info is not None else None
    vlan, filtering = 0, False
    if kind == "vlan" and data is not None:
        vlan = int(data.get_attr("IFLA_VLAN_ID") or 0)
    if kind == "bridge" and data is not None:
        filtering = bool(data.get_attr("IFLA_BR_VLAN_FILTERING"))
    below = message.get_attr("IFLA_LINK")
    return Link(
        ifindex=int(message["index"]),
        ifname=str(message.get_attr("IFLA_IFNAME")),
        kind=None if kind is None else str(kind),
        mac=str(message.get_attr("IFLA_ADDRESS") or ""),
        link=int(below) if below else None,
        netnsid=message.get_attr("IFLA_LINK_NETNSID"),
        master=message.get_attr("IFLA_MASTER"),
        vlan=vlan,
        filtering=filtering,
        parent=message.get_attr("IFLA_PARENT_DEV_NAME"),
        loopback=bool(message["flags"] & _IFF_LOOPBACK),
    )


def read_learned(netlink: IPRoute, ports: Iterable[int]) -> dict[int, tuple[str, ...]]:
    """Return the addresses that bridges have learned behind each of their ports.

    Returns
    -------
    dict
        Port's index -> addresses, without the port's own; ports behind which none is known are
        left out.
    """
    wanted = set(ports)
    learned: dict[int, dict[str, None]] = {}
    for entry in netlink.fdb("dump"):
        port = entry["ifindex"]
        if port in wanted and not entry["state"] & _NUD_PERMANENT:
            learned.setdefault(port, {})[str(entry.get_attr("NDA_LLADDR"))] = None
    return {port: tuple(addresses) for port, addresses in learned.items()}


def read_port_vlans(netlink: IPRoute) -> dict[int, PortVlan]:
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

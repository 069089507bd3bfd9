"""Finds the addresses for the headers of frames to a router."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isolane import rtnl
from isolane.errors import SpecError
from isolane.testbed.host_links import interface_index, netns_path, usable_link, with_links
from isolane.trials.live.traffic import Target

MAC = re.compile(r"[0-9a-fA-F]{1,2}(:[0-9a-fA-F]{1,2}){5}")


@dataclass(frozen=True)
class Header:
    """The addresses that a user gives for a stream; None is filled in by `resolve`."""

    to: str
    source: str | None = None
    mac: str | None = None


def resolve(
    interface: str,
    destination: str,
    *,
    source: str | None = None,
    mac: str | None = None,
    netns: str | None = None,
) -> Target:
    """Fill in what the user left out: addresses of the interface, MAC of the next hop.

    Raises
    ------
    SpecError
        If an address cannot be found; the message names the option that sets it.
    """
    return resolve_all(interface, [Header(destination, source, mac)], netns=netns)[0]


def resolve_all(
    interface: str, headers: Sequence[Header], *, netns: str | None = None
) -> tuple[Target, ...]:
    """Resolve the headers of several streams that leave by one interface.

    Raises
    ------
    SpecError
        As there.
    """
    for header in headers:
        check_header(header)
    path = netns_path(netns)

    def found(links: rtnl.IPRoute) -> tuple[Target, ...]:
        index = interface_index(links, interface)
        link = usable_link(links, index, interface)
        return tuple(
            Target(
                ifindex=index,
                src_mac=str(link.get_attr("IFLA_ADDRESS")),
                dst_mac=header.mac or _next_hop_mac(links, index, header.to),
                src_ip=header.source or _own_address(links, index, header.to, interface),
                dst_ip=header.to,
                netns=path,
                line_bps=_line_bps(interface) if path is None else None,
            )
            for header in headers
        )

    return with_links(path, found)


def check_header(header: Header) -> None:
    """Refuse addresses that cannot stand in a frame's headers.

    Raises
    ------
    SpecError
        Naming the option and the value.
    """
    to = read_address("--to", header.to)
    if header.mac is not None and not MAC.fullmatch(header.mac):
        raise SpecError(f"--mac {header.mac}: not a MAC address such as 02:00:00:00:00:01")
    if header.source is None:
        return
    source = read_address("--from", header.source)
    if source.is_multicast or str(source) == "255.255.255.255":
        raise SpecError(
            f"--from {header.source}: a multicast or broadcast address cannot be a source; "
            "accepted: the address of a host"
        )
    if source.version != to.version:
        raise SpecError(
            f"--from {header.source} and --to {header.to} are not of the same IP version"
        )


def read_address(option: str, text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return an address that can stand in the header of a frame on a wire.

    Raises
    ------
    SpecError
        Naming the option and, where there is one, an accepted value.
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise SpecError(f"{option} {text}: not an IP address") from None
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            plain = text.partition("%")[0]
            raise SpecError(f"{option} {text}: a header has no zone; accepted: {plain}")
        if address.ipv4_mapped is not None:
            raise SpecError(
                f"{option} {text}: an IPv4 address mapped into IPv6 is not sent on a wire "
                f"(RFC 4038, 4.2); accepted: {address.ipv4_mapped}"
            )
    if address.is_unspecified:
        raise SpecError(f"{option} {text}: stands for no address; accepted: that of a host")
    return address


def _own_address(links: rtnl.IPRoute, index: int, destination: str, interface: str) -> str:
    version = ipaddress.ip_address(destination).version
    family = 2 if version == 4 else 10
    for entry in links.get_addr(index=index, family=family):
        address = str(entry.get_attr("IFA_ADDRESS"))
        if version == 4 or not ipaddress.ip_address(address).is_link_local:
            return address
    raise SpecError(f"{interface} has no IPv{version} address; name the source with --from ADDRESS")


def _next_hop_mac(links: rtnl.IPRoute, index: int, destination: str) -> str:
    hop = destination
    try:
        route: Any = links.route("get", dst=destination, oif=index)[0]
        hop = str(route.get_attr("RTA_GATEWAY") or destination)
    except (rtnl.NetlinkError, IndexError):
        pass  # no route: the destination may still be a neighbour
    for entry in links.get_neighbours(ifindex=index):
        if entry.get_attr("NDA_DST") == hop and entry.get_attr("NDA_LLADDR"):
            return str(entry.get_attr("NDA_LLADDR"))
    raise SpecError(f"the MAC address of {hop} is not known; ping it first, or name it with --mac")


def _line_bps(interface: str) -> float | None:
    """Return the interface's speed, bit/s; None if the driver does not tell, and for veth."""
    try:
        link = Path("/sys/class/net") / interface
        if os.path.lexists(link / "device"):
            speed = int((link / "speed").read_text())
            return speed * 1e6 if speed > 0 else None
    except (OSError, ValueError):
        pass
    return None

"""Subnets of the routers' ingress sides: parsing, and the default ones."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final

from isolane.spec.problems import Refused, show

Network = IPv4Network | IPv6Network

RECEIVER_SIDE: Final = (IPv4Network("198.19.0.0/16"), IPv6Network("2001:2:0:8000::/49"))
"""Where the routers' egress subnets are (RFC 2544, C.2.2; RFC 5180, section 8)."""


def default_subnet(ip: int, number: int) -> Network:
    """Return the ingress subnet of the n-th router of a point (from 0) that asks for none.

    Source: RFC 2544, appendix C.2.2 (198.18.0.0/15), and RFC 5180, section 8 (2001:2::/48).
    """
    if ip == 4:
        return IPv4Network(f"198.18.{number}.0/24")
    return IPv6Network(f"2001:2:0:{number:x}::/64")


def read_subnet(value: object) -> Network:
    """Return ``value`` as a subnet, or raise :class:`Refused`."""
    accepted = "an IPv4 subnet of /8 to /29 or an IPv6 subnet of /32 to /125, as 198.18.5.0/24"
    if isinstance(value, IPv4Network | IPv6Network):
        value = str(value)
    if not isinstance(value, str) or "/" not in value or "%" in value:
        raise Refused(f"{show(value)} is not a subnet", accepted)
    try:
        network = ip_network(value, strict=False)
    except ValueError:
        raise Refused(f"{show(value)} is not a subnet", accepted) from None
    if str(network.network_address) != str(ip_address(value.split("/")[0])):
        raise Refused(f"{show(value)} has bits set behind its prefix", str(network))
    shortest, longest = (8, 29) if network.version == 4 else (32, 125)
    if not shortest <= network.prefixlen <= longest:
        raise Refused(f"prefix length of {show(value)} is out of range", accepted)
    first = network.network_address
    if first.is_multicast or first.is_loopback or first.is_link_local or network.is_unspecified:
        raise Refused(f"{show(value)} is not for routed unicast traffic", accepted)
    return network

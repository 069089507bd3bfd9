"""IP addresses of routers and of this host: how each is read, the lowest free one of a subnet."""

from __future__ import annotations

from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv6Address,
    IPv6Interface,
    ip_address,
    ip_interface,
)
from typing import Annotated

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from isolane.spec.problems import Refused, show

Address = IPv4Address | IPv6Address
Interface = IPv4Interface | IPv6Interface


def lowest_free(taken: Interface) -> Address | None:
    """Return the lowest address of a subnet beside one that is taken; None if there is none."""
    not_free = {taken.ip, *_nobodys(taken)}
    return next((address for address in taken.network if address not in not_free), None)


def _read_address_in_subnet(value: object) -> Interface:
    accepted = "an address and the length of its prefix, as 192.0.2.1/24 or 2001:db8::1/64"
    if isinstance(value, IPv4Interface | IPv6Interface):
        value = str(value)
    if not isinstance(value, str) or "/" not in value or "%" in value:
        raise Refused(f"{show(value)} is not an address with its prefix", accepted)
    try:
        found = ip_interface(value)
    except ValueError:
        raise Refused(f"{show(value)} is not an address with its prefix", accepted) from None
    _refuse_special(found.ip, value, accepted)
    if found.ip in _nobodys(found):
        raise Refused(f"{show(value)} is not the address of a host in its subnet", accepted)
    return found


def _read_host(value: object) -> Address:
    accepted = "the address of a host, as 192.0.2.2 or 2001:db8::2"
    if isinstance(value, IPv4Address | IPv6Address):
        value = str(value)
    if not isinstance(value, str) or "%" in value:
        raise Refused(f"{show(value)} is not an IP address", accepted)
    try:
        found = ip_address(value)
    except ValueError:
        raise Refused(f"{show(value)} is not an IP address", accepted) from None
    _refuse_special(found, value, accepted)
    return found


def _refuse_special(address: Address, value: object, accepted: str) -> None:
    if address.is_multicast or address.is_loopback or address.is_unspecified:
        raise Refused(f"{show(value)} is not for routed unicast traffic", accepted)
    if isinstance(address, IPv6Address) and (address.is_link_local or address.ipv4_mapped):
        raise Refused(f"{show(value)} is not for routed unicast traffic", accepted)


def _nobodys(interface: Interface) -> set[Address]:
    """Return the addresses of its subnet that no host has (RFC 3021, RFC 4291, 2.6.1)."""
    network = interface.network
    if network.num_addresses <= 2:
        return set()
    if network.version == 6:
        return {network.network_address}
    return {network.network_address, network.broadcast_address}


AddressInSubnet = Annotated[
    IPv4Interface | IPv6Interface,
    PlainValidator(_read_address_in_subnet),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["192.0.2.1/24", "2001:db8::1/64"]}),
]
HostAddress = Annotated[
    Address,
    PlainValidator(_read_host),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["192.0.2.2", "2001:db8::2"]}),
]

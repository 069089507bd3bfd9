"""The keys of an external router: a router that is there already, and is only named."""

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

from isolane.spec import policy_fields as p
from isolane.spec.base import SpecModel
from isolane.spec.problems import Refused, show
from isolane.spec.subnets import Network

Address = IPv4Address | IPv6Address


def _read_address_in_subnet(value: object) -> IPv4Interface | IPv6Interface:
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


def _nobodys(interface: IPv4Interface | IPv6Interface) -> set[Address]:
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


class ExternalSide(SpecModel):
    """One side of an external router, and this host's interface that leads there."""

    interface: p.InterfaceName
    """This host's interface: a NIC, a tap, the end of a veth pair."""
    netns: p.Netns | None = None
    """Network namespace of this interface, by name or path; default: the one Isolane runs in."""
    mac: p.Mac
    """The router's MAC address on this side."""
    address: AddressInSubnet
    """The router's IP address on this side, with its prefix, as 192.0.2.1/24."""
    own: HostAddress | None = None
    """This host's address there, which need not be set on the interface; default: the lowest free
    one of the subnet."""

    @property
    def subnet(self) -> Network:
        """The subnet of this side."""
        return self.address.network

    @property
    def own_address(self) -> Address:
        """Where frames come from, or go to: `own`, or the lowest address but the router's.

        Raises
        ------
        StopIteration
            If the subnet has none; :func:`isolane.spec.external_checks.misplaced` has refused it.
        """
        if self.own is not None:
            return self.own
        taken = {self.address.ip, *_nobodys(self.address)}
        return next(address for address in self.subnet if address not in taken)


class External(SpecModel):
    """Where an external router is, on both sides."""

    ingress: ExternalSide
    """The side that the generator's frames go to."""
    egress: ExternalSide
    """The side where they come back, to the receiver."""

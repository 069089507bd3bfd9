"""The keys of an external router: a router that is there already, and is only named."""

from __future__ import annotations

from isolane.spec import policy_fields as p
from isolane.spec.base import SpecModel
from isolane.spec.host_addresses import Address, AddressInSubnet, HostAddress, lowest_free
from isolane.spec.subnets import Network


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
        """Where frames come from, or go to: `own`, or the lowest address but the router's."""
        # The checks of the experiment have refused subnets without another address.
        return self.own or lowest_free(self.address) or self.address.ip


class External(SpecModel):
    """Where an external router is, on both sides."""

    ingress: ExternalSide
    """The side that the generator's frames go to."""
    egress: ExternalSide
    """The side where they come back, to the receiver."""

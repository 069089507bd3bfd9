"""What the NICs of a policy are and can do: their kind, MTU, and XDP features."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from isolane import rtnl
from isolane.enforce.find.veth_peers import Peer, find_peers
from isolane.netdev import XdpFeature, xdp_features
from isolane.testbed import receive_filters
from isolane.testbed.netns import Namespace

ONE_PART_BYTES: Final = 3498
"""Longest frame that a veth passes to XDP in one buffer: a page less headroom and tail."""


@dataclass(frozen=True)
class Nic:
    """A NIC of the policy."""

    name: str
    ifindex: int
    mtu: int
    kind: str | None
    """``veth``, ``tun``, ``vlan``, ...; None: a hardware NIC, or one that a hypervisor emulates."""
    runs_xdp: bool
    """Whether its driver runs XDP programs."""
    takes_xdp: bool
    """Whether XDP can transmit by it."""
    takes_parts: bool
    """Whether XDP can transmit frames of several buffers (jumbo frames) by it."""
    peer: Peer | None = None
    """The other end of a veth, if the network namespace that it is in can be entered."""
    queues: int = 1
    """Receive queues."""
    filter_slots: int = 0
    """Receive filters that fit into it; 0: its driver does not tell."""
    no_filters: str | None = "it has no receive filters"
    """Why it cannot give routers receive queues of their own; None: it can."""

    @property
    def polled(self) -> bool:
        """Tell whether it has NAPI, which a thread can poll; VLANs, bridges and taps have none."""
        return self.kind in (None, "veth")

    def takes_from(self, mtu: int) -> bool:
        """Tell whether XDP can transmit frames here that come from an interface of this MTU."""
        return self.takes_xdp and (self.takes_parts or mtu <= ONE_PART_BYTES)


def look(names: Iterable[str], namespace: Namespace) -> dict[str, Nic]:
    """Describe NICs of the namespace that the calling thread is in; leaves out missing ones."""
    links = {name: link for name in names if (link := _link(namespace, name)) is not None}
    features = xdp_features()
    kinds = {
        name: link.get_nested("IFLA_LINKINFO", "IFLA_INFO_KIND") for name, link in links.items()
    }
    peers = find_peers(name for name, kind in kinds.items() if kind == "veth")
    return {
        name: replace(
            _nic(name, kind, links[name], features, peers.get(name)), **_filters(namespace, name)
        )
        for name, kind in kinds.items()
    }


def _link(namespace: Namespace, name: str) -> rtnl.nlmsg | None:
    index = namespace.index_of(name)
    if index is None:
        return None
    try:
        return namespace.links.get_links(index)[0]
    except rtnl.NetlinkError as error:
        if error.code != errno.ENODEV:
            raise
        return None


def _filters(namespace: Namespace, name: str) -> dict[str, Any]:
    """Return what the NIC's driver says of receive queues and filters, as fields of `Nic`."""
    try:
        queues = receive_filters.queues(namespace.ioctl, name)
        slots = receive_filters.capacity(namespace.ioctl, name)
    except OSError as error:
        why = f"the driver of {name} has no receive filters (ethtool -n {name}: {error.strerror})"
        return {"no_filters": why}
    return {"queues": queues, "filter_slots": slots, "no_filters": None}


def _nic(
    name: str,
    kind: str | None,
    link: rtnl.nlmsg,
    features: dict[int, XdpFeature],
    peer: Peer | None,
) -> Nic:
    # Before Linux 6.3 the kernel does not tell. A veth may or may not transmit; NICs mostly do.
    unknown = XdpFeature.BASIC if kind == "veth" else XdpFeature.BASIC | XdpFeature.NDO_XMIT
    able = features.get(link["index"], XdpFeature(0)) if features else unknown
    return Nic(
        name=name,
        ifindex=link["index"],
        mtu=link.get_attr("IFLA_MTU"),
        kind=kind,
        runs_xdp=XdpFeature.BASIC in able,
        takes_xdp=takes_xdp(able),
        takes_parts=XdpFeature.NDO_XMIT_SG in able,
        peer=peer,
    )


def takes_xdp(features: XdpFeature) -> bool:
    """Tell whether XDP can transmit by an interface that has these features."""
    return XdpFeature.NDO_XMIT in features

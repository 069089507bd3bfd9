"""What the NICs of a policy are and can do: their kind, MTU, and XDP features."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from pyroute2.netlink import NLM_F_DUMP, NLM_F_REQUEST, genlmsg
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.generic import GenericNetlinkSocket

from isolane.enforce.find.peers import Peer, find_peers
from isolane.testbed.netns import Namespace

_NETDEV_CMD_DEV_GET: Final = 1
_RUNS, _TRANSMITS, _TRANSMITS_PARTS = 0x01, 0x04, 0x40
"""NETDEV_XDP_ACT_BASIC, _NDO_XMIT, _NDO_XMIT_SG (Documentation/netlink/specs/netdev.yaml)."""
ONE_PART_BYTES: Final = 3498
"""Longest frame that a veth passes to XDP in one buffer: a page less headroom and tail."""


class _DeviceMessage(genlmsg):  # type: ignore[misc] # pyroute2 has no types
    nla_map = (
        ("NETDEV_A_DEV_UNSPEC", "none"),
        ("NETDEV_A_DEV_IFINDEX", "uint32"),
        ("NETDEV_A_DEV_PAD", "none"),
        ("NETDEV_A_DEV_XDP_FEATURES", "uint64"),
    )


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

    @property
    def polled(self) -> bool:
        """Tell whether it has NAPI, which a thread can poll; VLANs, bridges and taps have none."""
        return self.kind in (None, "veth")

    def takes_from(self, mtu: int) -> bool:
        """Tell whether XDP can transmit frames here that come from an interface of this MTU."""
        return self.takes_xdp and (self.takes_parts or mtu <= ONE_PART_BYTES)


def look(names: Iterable[str], namespace: Namespace) -> dict[str, Nic]:
    """Describe NICs of the namespace that the calling thread is in; leaves out missing ones."""
    there = set(namespace.interfaces())
    links = {
        name: namespace.links.get_links(int(namespace.read(name, "ifindex")))[0]
        for name in names
        if name in there
    }
    features = xdp_features()
    kinds = {
        name: link.get_nested("IFLA_LINKINFO", "IFLA_INFO_KIND") for name, link in links.items()
    }
    peers = find_peers(name for name, kind in kinds.items() if kind == "veth")
    return {
        name: _nic(name, kind, links[name], features, peers.get(name))
        for name, kind in kinds.items()
    }


def _nic(
    name: str, kind: str | None, link: genlmsg, features: dict[int, int], peer: Peer | None
) -> Nic:
    # Before Linux 6.3 the kernel does not tell. A veth may or may not transmit; NICs mostly do.
    unknown = _RUNS if kind == "veth" else _RUNS | _TRANSMITS
    able = features.get(link["index"], 0) if features else unknown
    return Nic(
        name=name,
        ifindex=link["index"],
        mtu=link.get_attr("IFLA_MTU"),
        kind=kind,
        runs_xdp=bool(able & _RUNS),
        takes_xdp=takes_xdp(able),
        takes_parts=bool(able & _TRANSMITS_PARTS),
        peer=peer,
    )


def takes_xdp(features: int) -> bool:
    """Tell from what :func:`xdp_features` says whether XDP can send by an interface."""
    return bool(features & _TRANSMITS)


def xdp_features() -> dict[int, int]:
    """Return what XDP can do with the interfaces of this namespace, by index.

    Returns
    -------
    dict
        Empty where the kernel does not tell (before Linux 6.3).
    """
    with suppress(NetlinkError, OSError, KeyError), GenericNetlinkSocket() as netlink:
        netlink.bind("netdev", _DeviceMessage)
        request = _DeviceMessage()
        request["cmd"] = _NETDEV_CMD_DEV_GET
        request["version"] = 1
        replies = netlink.nlm_request(
            request, msg_type=netlink.prid, msg_flags=NLM_F_REQUEST | NLM_F_DUMP
        )
        return {
            reply.get_attr("NETDEV_A_DEV_IFINDEX"): reply.get_attr("NETDEV_A_DEV_XDP_FEATURES")
            for reply in replies
        }
    return {}

"""Which routers get a receive queue of the NIC's own, and why the others do not. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from isolane.enforce.link_members import demultiplexed
from isolane.enforce.nic_features import Nic
from isolane.enforce.router_facts import FoundRouter, Interface
from isolane.errors import NotSupported
from isolane.spec.policy import Policy

Key = tuple[str, str]
"""NIC, and MAC address with VLAN."""


@dataclass(frozen=True)
class Steering:
    """How the frames of the routers that share NICs are told apart."""

    queues: Mapping[Key, int] = field(default_factory=dict)
    """Receive queue of a router's own."""
    why_not: Mapping[Key, str] = field(default_factory=dict)
    """Why the demultiplexer does it in place of a filter, where a filter was asked for."""

    def own_queues(self, nic: str) -> dict[int, Key]:
        """Return the queues of a NIC that are routers' own."""
        return {queue: key for key, queue in self.queues.items() if key[0] == nic}


def key(nic: str, at: Interface) -> Key:
    """Identify the frames to a router's interface that a NIC receives."""
    return nic, f"{at.mac}/{at.vlan}"


def steer(policy: Policy, found: Sequence[FoundRouter], nics: Mapping[str, Nic]) -> Steering:
    """Give each router's interface a queue of its own on each NIC, as far as there are queues.

    One queue stays for everything else, so the last queues are given away, in the policy's order.

    Raises
    ------
    NotSupported
        If a NIC has ``steer: hardware`` and cannot do it for all routers.
    """
    queues: dict[Key, int] = {}
    why_not: dict[Key, str] = {}
    shared = [
        (router.name, at)
        for router in found
        for at in router.interfaces
        if demultiplexed(policy, router, at)
    ]
    for name, entry in policy.nics.items():
        nic = nics.get(name)
        if nic is None or entry.steer in ("software", "none"):
            continue  # it may have gone under a policy in force
        if entry.steer == "hardware" and nic.no_filters:
            raise NotSupported(_refusal(name, nic.no_filters))
        for number, (router, at) in enumerate(shared, start=1):
            reason = _why_not(nic, number)
            if reason is None:
                queues[key(name, at)] = nic.queues - number
            elif entry.steer == "hardware":
                raise NotSupported(_refusal(name, f"none is left for router {router}: {reason}"))
            else:
                why_not[key(name, at)] = reason
    return Steering(queues, why_not)


def _why_not(nic: Nic, number: int) -> str | None:
    """Return why a NIC has no queue for the router of this number, from 1; None: it has."""
    if nic.no_filters:
        return nic.no_filters
    if number >= nic.queues:
        return (
            f"{nic.name} has {nic.queues} receive queues, one of them for frames that are "
            f"nobody's (ethtool -L {nic.name} sets their number)"
        )
    if nic.filter_slots and number > nic.filter_slots:
        return f"{nic.name} takes {nic.filter_slots} receive filters"
    return None


def _refusal(nic: str, reason: str) -> str:
    return (
        f"nic {nic}: receive queues of routers' own (steer: hardware) are not supported on this "
        f"host: {reason}; use steer: auto or software"
    )


def spread_over(table: Sequence[int], shared_queues: int) -> list[int]:
    """Return a table of queues for frames without a filter that leaves out routers' own queues."""
    return [position % shared_queues for position in range(len(table))]

"""Checks what a policy asks of ports of network back-ends, where a scheduler shares the link. Pure.

A back-end's own scheduler decides among its ports, so the NIC gets no classes of HTB for them, and
nobody else's frames may be shared out there beside them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from isolane.enforce.fair_share import commitment, guaranteed_bps, wants_link
from isolane.enforce.link_members import beyond_classes, ports_of, sends_by
from isolane.enforce.router_facts import BackEndPort, FoundRouter
from isolane.errors import NotSupported, SpecError
from isolane.spec.policy import Policy
from isolane.spec.policy_models import CPU_KEYS
from isolane.spec.policy_router import RouterPolicy
from isolane.spec.port_keys import port_keys_of
from isolane.spec.units import read_bit_rate


def check_ports(policy: Policy, found: Sequence[FoundRouter]) -> None:
    """Refuse keys that a port's scheduler does not look at, and links that nobody could share out.

    Raises
    ------
    NotSupported
        If a key is not kept at a router's port, or routers of other kinds share its uplink.
    SpecError
        If two routers are at one port, or more is guaranteed than an uplink has.
    """
    _each_once(policy, found)
    for router in found:
        for port in ports_of(policy, router):
            _keys(router.name, policy.routers[router.name], port)
        ports = [at.port for at in router.interfaces if at.port and at.behind is None]
        if ports and router.kind != "vm" and len(ports) == len(router.interfaces):
            _cpu(router.name, policy.routers[router.name], ports[0])
    for port, members in _by_uplink(policy, found).items():
        _alone(policy, found, port, members)
        rates_bps = (policy.nics[port.uplink].rate_bps, uplink_rate_bps(port.rate))
        guaranteed = [guaranteed_bps(policy.routers[name]) for name in members]
        for rate_bps in rates_bps:
            if rate_bps is not None:
                commitment(port.uplink, guaranteed, rate_bps)


def uplink_rate_bps(written: str | None) -> float | None:
    """Return the rate of an uplink, bit/s on the wire; None: as fast as its interface takes."""
    return None if written is None else read_bit_rate(written)


def _each_once(policy: Policy, found: Sequence[FoundRouter]) -> None:
    """Refuse two routers at one port: they are the same machine, named in two ways."""
    owners: dict[BackEndPort, str] = {}
    for router in found:
        for port in ports_of(policy, router):
            owner = owners.setdefault(port, router.name)
            if owner != router.name:
                raise SpecError(
                    f"router {router.name}: port {port.back_end}/{port.name} is router {owner}'s, "
                    "too: they are one machine; accepted: each router once"
                )


def _by_uplink(policy: Policy, found: Sequence[FoundRouter]) -> Mapping[BackEndPort, Sequence[str]]:
    """Return one port of each uplink, and whose ports are there: a router's name for each."""
    first: dict[tuple[str, str], BackEndPort] = {}
    members: dict[BackEndPort, list[str]] = defaultdict(list)
    for router in found:
        for port in ports_of(policy, router):
            at = first.setdefault((port.back_end, port.uplink), port)
            members[at].append(router.name)
    return members


def _keys(name: str, values: RouterPolicy, port: BackEndPort) -> None:
    kept = port_keys_of(port.scheduler)
    beyond = [key for key, is_asked in beyond_classes(values) if is_asked]
    for key in (*(key for key in values.asks_for_frames() if key not in kept), *beyond):
        whole = port_keys_of("hierarchical")
        what = (
            f"router {name}: {key} is not kept at its port {port.back_end}/{port.name}, whose "
            f"scheduler is {port.scheduler}"
        )
        if key in whole:
            raise NotSupported(
                f"{what}; run isolane set {port.back_end}/{port.uplink} scheduler=hierarchical"
            )
        raise NotSupported(
            f"{what}; {', '.join(whole)} are kept by hierarchical, rates in bit/s and of what the "
            "router sends"
        )


def _cpu(name: str, values: RouterPolicy, port: BackEndPort) -> None:
    """Refuse shares of the CPU where no thread is the router's: who sends it a frame does all."""
    asked = [key for key in values.as_keys().model_dump(exclude_none=True) if key in CPU_KEYS]
    if asked:
        raise NotSupported(
            f"router {name}: {asked[0]} is not kept at port {port.back_end}/{port.name}: what "
            "comes by it is forwarded on the back-end's core, in nobody's share; leave it out"
        )


def _alone(
    policy: Policy, found: Sequence[FoundRouter], port: BackEndPort, members: Sequence[str]
) -> None:
    """Refuse routers whose frames go by the uplink without the back-end, if it is shared out."""
    others = [router.name for router in found if port.uplink in sends_by(policy, router)]
    if others and any(wants_link(policy.routers[name]) for name in (*members, *others)):
        raise NotSupported(
            f"nic {port.uplink} is an uplink of network back-end {port.back_end}, which decides "
            f"what is sent there; router {others[0]} cannot share it with {members[0]} by a "
            "policy: give it a port there (ports.NAME.interface)"
        )

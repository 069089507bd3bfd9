"""Checks a policy against this host: cores, NICs, addresses, links. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from isolane.enforce import htb
from isolane.enforce.back_end_checks import check_ports
from isolane.enforce.fair_share import Link, commitment, guaranteed_bps, wants_link
from isolane.enforce.host_access import Host
from isolane.enforce.link_members import (
    beyond_classes,
    demultiplexed,
    fed_by,
    filtered_on,
    sends_by,
)
from isolane.enforce.nic_features import Nic
from isolane.enforce.router_facts import FoundRouter, Interface
from isolane.errors import NotSupported, SpecError
from isolane.spec.policy import Policy
from isolane.spec.policy_models import CPU_KEYS, LINK_KEYS, OWN
from isolane.testbed.netns import Namespace

_HEADERS = 100
"""Added to the MTU: Ethernet and VLAN headers, preamble, gap and checksum, and a margin."""


def check(
    policy: Policy, found: Sequence[FoundRouter], host: Host, nics: Mapping[str, Nic]
) -> dict[str, Link]:
    """Check cores, NICs, addresses and links; return the links that the routers share by class.

    Raises
    ------
    SpecError
        Naming the value and what would be accepted.
    NotSupported
        If a NIC or an interface cannot do what the policy asks for.
    """
    _cores(policy)
    namespace = host.here
    _nics(policy, namespace, nics)
    _addresses(policy, found)
    _budgets(policy, found, nics)
    check_ports(policy, found)
    links = {}
    for nic in policy.nics:
        members = tuple(router.name for router in found if nic in sends_by(policy, router))
        if any(wants_link(policy.routers[name]) for name in members):
            quantum = max(htb.QUANTUM, nics[nic].mtu + _HEADERS)
            links[nic] = Link(nic, _rate(policy, nic, namespace), members, quantum)
            guaranteed = [guaranteed_bps(policy.routers[name]) for name in members]
            commitment(nic, guaranteed, links[nic].rate_bps)
    return links


def _cores(policy: Policy) -> None:
    online = set(_read_list(Path("/sys/devices/system/cpu/online").read_text()))
    named = [(f"router {name}", router.cores) for name, router in policy.routers.items()]
    named += [(f"nic {name}", nic.cores or ()) for name, nic in policy.nics.items()]
    for owner, cores in named:
        missing = [core for core in cores if core not in online]
        if missing:
            raise SpecError(
                f"{owner}: cores: there is no core {missing[0]} on this host; "
                f"there are {', '.join(map(str, sorted(online)))}"
            )


def _read_list(text: str) -> list[int]:
    """Read ``0-3,6``."""
    cores: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        cores += range(int(first), int(last or first) + 1)
    return cores


def _nics(policy: Policy, namespace: Namespace, looked_at: Mapping[str, Nic]) -> None:
    # One that comes or goes just now is not there: what it can do is not known.
    there = [
        name for name in namespace.interfaces() if name in looked_at or name not in policy.nics
    ]
    for nic in policy.nics:
        if nic == "lo":
            raise SpecError("nics: lo is the loopback interface; accepted: a NIC")
        if nic not in there:
            known = ", ".join(sorted(set(there) - {"lo"})) or "none"
            raise SpecError(f"nics: there is no interface {nic} on this host; there are {known}")
    for name, router in policy.routers.items():
        for inside, nic in router.interfaces.items():
            if nic not in policy.nics and nic != OWN:
                raise SpecError(
                    f"router {name}: interfaces: {inside}: {nic} is not one of the policy's NICs"
                )


def _budgets(policy: Policy, found: Sequence[FoundRouter], nics: Mapping[str, Nic]) -> None:
    """Refuse ``cpu_max`` where nobody keeps it.

    By its queue the demultiplexer does, whose metadata says whose CPU time it is; a driver that
    runs no XDP has none. A quota of the cgroup holds no kernel thread (since Linux 6.18).
    """
    with_queues = (nic for name, nic in nics.items() if policy.nics[name].steer != "none")
    without = next((nic for nic in with_queues if not nic.runs_xdp), None)
    for router in found:
        # A quota holds back a machine's own threads, whatever feeds them.
        if router.kind == "vm" or policy.routers[router.name].cpu_max is None:
            continue
        if (by := fed_by(policy, router)) is not None:
            raise NotSupported(
                f"router {router.name}: cpu_max is not kept where a kernel thread is all that "
                f"forwards what comes by an interface ({by.ifname}); leave it out, or use "
                "cpu_weight"
            )
        queues = any(
            at.how == "veth" for at in router.interfaces if demultiplexed(policy, router, at)
        )
        if without is not None and queues:
            raise NotSupported(
                f"router {router.name}: cpu_max needs NICs whose driver runs XDP, and that of "
                f"{without.name} does not; leave it out, or use rate_max"
            )


def _addresses(policy: Policy, found: Sequence[FoundRouter]) -> None:
    """Refuse what is asked for of frames that nobody tells from others."""
    for router in found:
        for interface in router.interfaces:
            if interface.how in ("own", "port"):
                continue
            if interface.how == "macvlan" or not demultiplexed(policy, router, interface):
                _as_it_came(policy, router, interface)


def _as_it_came(policy: Policy, router: FoundRouter, at: Interface) -> None:
    """Refuse what is not kept of a router whose frames come as they came without a policy."""
    links = filtered_on(policy, router, at)
    if at.how == "macvlan":
        why = f"{at.ifname} is a macvlan of {at.lower}, which has no receive queue of its own"
    elif links:
        why = f"{at.ifname} leaves by {links[0]}, where nobody tells frames apart (steer: none)"
    else:
        return  # a tap without nics
    what = f"router {router.name}: {why}"
    other = "a veth" if at.how == "macvlan" else "steer: software"
    if router.kind != "vm":
        raise NotSupported(f"{what} to share the CPU by; use {other}")
    values = policy.routers[router.name]
    asked = values.asks_for_frames()
    if not links and asked:
        raise NotSupported(
            f"{what} to keep {asked[0]} by; {', '.join(CPU_KEYS)} are kept there, with {at.lower} "
            f"under nics {', '.join(LINK_KEYS)}, all others with a tap"
        )
    for key, is_asked in (
        *((key, key not in LINK_KEYS) for key in asked),
        *beyond_classes(values),
    ):
        if is_asked:
            raise NotSupported(
                f"{what} to keep {key} by; {', '.join((*CPU_KEYS, *LINK_KEYS))} are kept there, "
                "rates in bit/s and of what the router sends"
            )


def _rate(policy: Policy, nic: str, namespace: Namespace) -> int:
    """Return the link's rate, bytes/s."""
    stated = policy.nics[nic].rate_bps
    if stated is not None:
        return round(stated / 8)
    try:
        kind = namespace.links.get_links(int(namespace.read(nic, "ifindex")))[0]
        virtual = kind.get_nested("IFLA_LINKINFO", "IFLA_INFO_KIND") is not None
        speed = 0 if virtual else int(namespace.read(nic, "speed"))
    except (OSError, ValueError):
        speed = 0
    if speed <= 0:
        raise SpecError(
            f"nics: {nic}: its driver tells no speed, and shares of its link need one; "
            f"give it as nics: {{{nic}: {{rate: 10Gbps}}}}"
        )
    return speed * 125_000

"""What a policy promises routers on their cores: CPU shares, and rates that follow. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from isolane.enforce.fair_share import (
    ceiling_pps,
    cpu_cap,
    cpu_fair_shares,
    groups_sharing_cores,
)
from isolane.spec import Policy, RouterPolicy

SMALL = 64
"""Frame size that loads the CPU, bytes."""


@dataclass(frozen=True)
class Capacity:
    """What routers forward alone and what the policy promises them of it, small frames/s."""

    alone_pps: Mapping[str, float]
    """Maximum forwarding rate of each router alone, on one core (RFC 2285, 3.6.2)."""
    within_pps: Mapping[str, float] = field(default_factory=dict)
    """What each router may be offered and must still forward, given CPU shares and ceilings."""
    max_pps: float = 0.0
    """Maximum that any router forwards."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """CPU share of each in the cores of its group when all are overloaded, 0 to 1."""
    held_down: Mapping[str, str] = field(default_factory=dict)
    """Router -> the policy's key that keeps it below the CPU share that its weight gives."""
    groups: tuple[tuple[str, ...], ...] = ()
    """Groups of routers that share cores."""
    cores: Mapping[str, int] = field(default_factory=dict)
    """Number of cores of each router's group."""

    def group_of(self, router: str) -> tuple[str, ...]:
        """Return the routers that share cores with a router, itself among them."""
        return next(group for group in self.groups if router in group)

    def fastest_of(self, group: Iterable[str]) -> str:
        """Return the router of a group that forwards most alone."""
        return max(group, key=self.alone_pps.__getitem__)


def capacity_of(policy: Policy, alone_pps: Mapping[str, float], *, alike: bool) -> Capacity:
    """Compute CPU shares and what each router is promised, from what each forwards alone.

    A router is promised its CPU share of the maximum forwarding rate of one router alone. What the
    routers forward together under overload does not enter: whatever a crowd wastes would lower it.

    Parameters
    ----------
    alone_pps
        Maximum forwarding rate of each router alone, frames/s of small frames.
    alike
        Whether all routers do the same work for a frame. Then a router that forwards less alone
        than the others is promised its part of what they forward.
    """
    groups = groups_sharing_cores(policy, alone_pps)
    shares: dict[str, float] = {}
    within: dict[str, float] = {}
    held_down: dict[str, str] = {}
    cores: dict[str, int] = {}
    for group in groups:
        number = max(1, len({core for name in group for core in policy.routers[name].cores}))
        cores |= dict.fromkeys(group, number)
        one = _of_one(policy, {name: alone_pps[name] for name in group}, alike=alike)
        found = _of_group(policy, one, number)
        shares |= found[0]
        within |= found[1]
        held_down |= found[2]
    max_pps = max(alone_pps.values(), default=0.0)
    return Capacity(alone_pps, within, max_pps, shares, held_down, groups, cores)


def _of_one(policy: Policy, alone_pps: Mapping[str, float], *, alike: bool) -> dict[str, float]:
    """Return what a router like each of these forwards alone when no key of the policy holds it.

    What a capped router forwards alone shows its cap, not what a frame costs. One that forwards
    nothing alone shows nothing.
    """
    found = {}
    for name in alone_pps:
        router = policy.routers[name]
        same = [n for n in alone_pps if policy.routers[n].forward == router.forward]
        free = [n for n in same if not is_capped(policy.routers[n])] or same
        if alike or name not in free or not alone_pps[name]:
            found[name] = max(alone_pps[n] for n in free)
        else:
            found[name] = alone_pps[name]
    return found


def is_capped(router: RouterPolicy) -> bool:
    """Tell whether a key of the policy limits what a router forwards although it is alone."""
    return router.cpu_max is not None or ceiling_pps(router, SMALL) is not None


def _of_group(
    policy: Policy, one_pps: Mapping[str, float], cores: int
) -> tuple[dict[str, float], dict[str, float], dict[str, str]]:
    """Return for one group: CPU shares, promised rates, and the keys that keep routers lower."""
    routers = {name: policy.routers[name] for name in one_pps}
    caps: dict[str, float] = {}
    keys: dict[str, str] = {}
    for name, router in routers.items():
        for key, cap in _caps(router, one_pps[name], cores).items():
            if cap < caps.get(name, 1.0):
                caps[name], keys[name] = cap, key
    shares = cpu_fair_shares(policy, routers, cores, caps)
    held_down = {name: key for name, key in keys.items() if shares[name] >= caps[name] - 1e-12}
    within = {}
    for name, router in routers.items():
        promised, limit = shares[name] * one_pps[name] * cores, ceiling_pps(router, SMALL)
        within[name] = promised if limit is None else min(promised, limit)
    return shares, within, held_down


def _caps(router: RouterPolicy, one_pps: float, cores: int) -> dict[str, float]:
    """Return the limits below a router's weight by the policy's key, as shares of all the cores."""
    # A router has one receiving interface in the bed, so it runs on one core at a time.
    caps = {"cores": 1 / cores}
    if router.cpu_max is not None:
        caps["cpu_max"] = cpu_cap(router, cores)
    limit = ceiling_pps(router, SMALL)
    if limit is not None and one_pps:
        caps["rate_max"] = limit / one_pps / cores
    return caps

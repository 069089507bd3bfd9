"""The loads that test each promise of a policy. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from isolane.enforce.fair_share import (
    Link,
    ceiling_pps,
    cpu_cap,
    cpu_fair_shares,
    groups_sharing_cores,
    link_fair_rates,
)
from isolane.spec import Policy, RouterPolicy, wire_bps

SMALL, LARGE = 64, 1518
"""Frame sizes, bytes: small ones load the CPU, large ones the link."""
WITHIN = 0.8
"""Load of a router that an attack must not affect, as a part of its fair share; the rest is what
serving and dropping the aggressor's frames costs."""
BEYOND = 2.0
"""Load of an overloaded router, as a multiple of the maximum that any router forwards."""
BRISK = 0.35
"""Part of a flood that shows what a router forwards when it has little to drop."""
ABOVE = 1.5
"""Load that tests a ceiling, as a multiple of the ceiling."""
FILLING = 1.5
"""Load that fills a link, as a multiple of the router's share of it; of more, frames would be lost
before the link because the CPU has no time for them."""
WARMUP_NS = 100_000_000
FILLING_NS = 500_000_000
"""Warm-up that fills the queues of a link: while they fill, more frames go in than come out."""
MAX_WARMUP_NS = 10_000_000_000


@dataclass(frozen=True)
class Scenario:
    """One setting of loads, measured in several trials."""

    key: str
    """Its unique name: ``alone:vr1``, ``attack:vr2``."""
    frame_bytes: int
    offered_pps: Mapping[str, float]
    """By router of the policy; routers that are not named are offered nothing."""
    warmup_ns: int = WARMUP_NS
    overloaded: frozenset[str] = frozenset()
    """Routers whose load need not be sent completely: any overload will do."""
    about_cpu: bool = True
    """False for rates: other users of the cores do not invalidate such a trial."""


@dataclass(frozen=True)
class Capacity:
    """What routers forward alone and what the policy allows them of it, small frames/s."""

    alone_pps: Mapping[str, float]
    within_pps: Mapping[str, float] = field(default_factory=dict)
    """What each router may be offered and still forward, given CPU shares and ceilings."""
    max_pps: float = 0.0
    """Maximum that any router forwards when it has little to drop."""
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


def alone(router: str, overload_pps: float) -> Scenario:
    """Offer one router more than it can forward, the others nothing."""
    return Scenario(
        f"alone:{router}", SMALL, {router: overload_pps}, overloaded=frozenset({router})
    )


def brisk(router: str, overload_pps: float) -> Scenario:
    """Offer one router about as much as it can forward, the others nothing."""
    offered = {router: BRISK * overload_pps}
    return Scenario(f"brisk:{router}", SMALL, offered, overloaded=frozenset({router}))


def capped(router: str, share: float, frames_per_core: float) -> Scenario:
    """Offer one router more than its cap lets it forward, the others nothing.

    The load is not larger than needed: dropping a flood would use the rest of the core and hide
    the cap.

    Parameters
    ----------
    share
        Its ``cpu_max``, as a share of a core.
    frames_per_core
        Small frames that it forwards in a second of CPU time.
    """
    offered = ABOVE * share * frames_per_core
    return Scenario(f"capped:{router}", SMALL, {router: offered}, overloaded=frozenset({router}))


def quiet(router: str, under: Scenario) -> Scenario:
    """Offer one router what it is offered in another scenario, the others nothing."""
    offered = under.offered_pps[router]
    return Scenario(f"quiet:{router}:{offered:.0f}", SMALL, {router: offered})


def attack(policy: Policy, aggressor: str, capacity: Capacity, links: Iterable[Link]) -> Scenario:
    """Offer one router far more than its fair share, and each other router less than its own.

    The fair share of a link depends on the aggressor: against an aggressor of an earlier
    priority the policy promises a router only its guaranteed rate.
    """
    offered = {name: WITHIN * pps for name, pps in capacity.within_pps.items()}
    each_bps = wire_bps(1.0, SMALL)
    for link in links:
        wanted = {name: offered[name] * each_bps for name in link.routers if name in offered}
        if aggressor in wanted:
            wanted[aggressor] = capacity.alone_pps[aggressor] * each_bps
        due = link_fair_rates(policy, link.rate_bps, wanted)
        for name, bps in wanted.items():
            if due[name] < bps:
                offered[name] = min(offered[name], WITHIN * due[name] / each_bps)
    offered[aggressor] = BEYOND * capacity.max_pps
    return Scenario(f"attack:{aggressor}", SMALL, offered, overloaded=frozenset({aggressor}))


def everyone(capacity: Capacity) -> Scenario:
    """Offer every router more than it can forward with its CPU share, and with an equal share.

    So a router that gets too much CPU time, because the weights do not work, also uses it.
    """
    offered = {}
    for name, share in capacity.shares.items():
        equal = 1 / len(capacity.group_of(name))
        offered[name] = BEYOND * max(share, equal) * capacity.cores[name] * capacity.max_pps
    return Scenario("everyone", SMALL, offered, overloaded=frozenset(offered))


def capacity_of(policy: Policy, alone_pps: Mapping[str, float], max_pps: float) -> Capacity:
    """Compute CPU shares and what each router may be offered, from what each forwards alone.

    Parameters
    ----------
    alone_pps
        Small frames/s that each router forwards alone, under a flood.
    max_pps
        Maximum of small frames/s that any of them forwards.
    """
    groups = groups_sharing_cores(policy, alone_pps)
    shares: dict[str, float] = {}
    within: dict[str, float] = {}
    held_down: dict[str, str] = {}
    cores: dict[str, int] = {}
    for group in groups:
        number = max(1, len({core for name in group for core in policy.routers[name].cores}))
        cores |= dict.fromkeys(group, number)
        of_group = {name: alone_pps[name] for name in group}
        found = _of_group(policy, of_group, number)
        shares |= found[0]
        within |= found[1]
        held_down |= found[2]
    return Capacity(alone_pps, within, max_pps, shares, held_down, groups, cores)


def limited_to(capacity: Capacity, served_pps: Mapping[str, float]) -> Capacity:
    """Return a capacity that allows no router more than it forwarded when all were overloaded.

    A frame costs more CPU time then: polls are shorter, and the caches miss more often.
    """
    within = {
        name: min(pps, served_pps.get(name, pps)) for name, pps in capacity.within_pps.items()
    }
    return replace(capacity, within_pps=within)


def _of_group(
    policy: Policy, alone_pps: Mapping[str, float], cores: int
) -> tuple[dict[str, float], dict[str, float], dict[str, str]]:
    """Return for one group: CPU shares, allowed loads, and the keys that keep routers lower."""
    routers = {name: policy.routers[name] for name in alone_pps}
    reference = {
        forward: max(
            (alone_pps[name] for name in routers if routers[name].forward == forward), default=0.0
        )
        for forward in ("kernel", "xdp")
    }
    caps: dict[str, float] = {}
    keys: dict[str, str] = {}
    for name, router in routers.items():
        for key, cap in _caps(router, reference[router.forward], cores).items():
            if cap < caps.get(name, 1.0):
                caps[name], keys[name] = cap, key
    shares = cpu_fair_shares(policy, routers, cores, caps)
    held_down = {name: key for name, key in keys.items() if shares[name] >= caps[name] - 1e-12}
    within = {}
    for name, router in routers.items():
        limits = [shares[name] * reference[router.forward] * cores, alone_pps[name]]
        limit = ceiling_pps(router, SMALL)
        limits += [] if limit is None else [limit]
        within[name] = min(limits)
    return shares, within, held_down


def _caps(router: RouterPolicy, reference_pps: float, cores: int) -> dict[str, float]:
    """Return the limits below a router's weight by the policy's key, as shares of all the cores."""
    # A router has one receiving interface in the bed, so it runs on one core at a time.
    caps = {"cores": 1 / cores}
    if router.cpu_max is not None:
        caps["cpu_max"] = cpu_cap(router, cores)
    limit = ceiling_pps(router, SMALL)
    if limit is not None and reference_pps:
        caps["rate_max"] = limit / reference_pps / cores
    return caps


@dataclass(frozen=True)
class Ceiling:
    """One value of a router's ``rate_max``."""

    router: str
    direction: str
    """``ingress`` or ``egress``."""
    unit: Literal["pps", "bps"]
    value: float
    """In frames/s, or bit/s on the wire."""

    @property
    def frame_bytes(self) -> int:
        """Frame size that it is tested with."""
        return SMALL if self.unit == "pps" else LARGE

    @property
    def pps(self) -> float:
        """The ceiling in frames/s of that size."""
        return self.value if self.unit == "pps" else self.value / wire_bps(1.0, self.frame_bytes)

    @property
    def key(self) -> str:
        """Key of its scenario."""
        return f"ceiling:{self.router}:{self.direction}:{self.unit}"


def ceilings_of(name: str, router: RouterPolicy) -> tuple[Ceiling, ...]:
    """Return the ceilings of a router."""
    found = []
    for direction, limit in (
        ("ingress", router.rate_max.ingress),
        ("egress", router.rate_max.egress),
    ):
        if limit is not None and limit.pps is not None:
            found.append(Ceiling(name, direction, "pps", limit.pps))
        if limit is not None and limit.bps is not None:
            found.append(Ceiling(name, direction, "bps", limit.bps))
    return tuple(found)


def above(ceiling: Ceiling, burst: int | None) -> Scenario:
    """Offer one router more than its ceiling, the others nothing; the warm-up uses up its burst."""
    excess_bps = (ABOVE - 1) * wire_bps(ceiling.pps, ceiling.frame_bytes)
    burst_ns = 0 if burst is None else round(1.2 * 8 * burst / excess_bps * 1e9)
    return Scenario(
        ceiling.key,
        ceiling.frame_bytes,
        {ceiling.router: ABOVE * ceiling.pps},
        max(FILLING_NS, burst_ns),
        about_cpu=False,
    )


def link(nic: str, level: int, due_bps: Mapping[str, float], rate_bps: float) -> Scenario:
    """Offer every router more than its share of the link, and more than an equal share.

    Parameters
    ----------
    level
        Number of the earliest priority that is active.
    due_bps
        Fair share of each active router, bit/s on the wire.
    """
    equal_bps = rate_bps / len(due_bps)
    offered = {
        name: FILLING * max(due, equal_bps) / wire_bps(1.0, LARGE) for name, due in due_bps.items()
    }
    return Scenario(
        f"link:{nic}:{level}", LARGE, offered, FILLING_NS, frozenset(offered), about_cpu=False
    )

"""What the routers are offered to find out about each promise. Pure."""

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
"""Part of what it may have that a router is offered which is to notice nothing: the rest is what
serving and dropping the aggressor's frames costs."""
BEYOND = 2.0
"""Times the most that any router forwards that an overloaded one, or all of them, are offered."""
BRISK = 0.35
"""Part of a flood that is offered to see what a router forwards when little is to be dropped."""
ABOVE = 1.5
"""Times a ceiling that a router is offered to test it."""
FILLING = 1.5
"""Times its part of the link that a router is offered: more would be lost for want of CPU time."""
WARMUP_NS = 100_000_000
FILLING_NS = 500_000_000
"""Warm-up that fills the queues of a link: as long as they fill, more goes in than comes out."""
MAX_WARMUP_NS = 10_000_000_000


@dataclass(frozen=True)
class Scenario:
    """One setting of loads, to be measured some times."""

    key: str
    """What tells it from the others: ``alone:vr1``, ``attack:vr2``."""
    frame_bytes: int
    offered_pps: Mapping[str, float]
    """By router of the policy; those that are not named are offered nothing."""
    warmup_ns: int = WARMUP_NS
    overloaded: frozenset[str] = frozenset()
    """Routers whose whole load need not be made: they are to have too much."""
    about_cpu: bool = True
    """False for what is about rates: who else uses the cores does not matter to it."""


@dataclass(frozen=True)
class Capacity:
    """What routers forward alone, and what the policy leaves them of it, small frames/s."""

    alone_pps: Mapping[str, float]
    within_pps: Mapping[str, float] = field(default_factory=dict)
    """What each may send and is served, as far as CPU time and ceilings go."""
    most_pps: float = 0.0
    """Most that any forwards, when little is to be dropped."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """CPU share of each in the cores of its group when all are overloaded, 0 to 1."""
    held_down: Mapping[str, str] = field(default_factory=dict)
    """Router -> the key that keeps it below the CPU share that its weight would give it."""
    groups: tuple[tuple[str, ...], ...] = ()
    """Routers that share cores."""
    cores: Mapping[str, int] = field(default_factory=dict)
    """Number of cores of each router's group."""

    def group_of(self, router: str) -> tuple[str, ...]:
        """Return the routers that share cores with a router, itself among them."""
        return next(group for group in self.groups if router in group)


def alone(router: str, overload_pps: float) -> Scenario:
    """One router gets more than it can forward, the others nothing."""
    return Scenario(
        f"alone:{router}", SMALL, {router: overload_pps}, overloaded=frozenset({router})
    )


def brisk(router: str, overload_pps: float) -> Scenario:
    """One router gets about as much as it can forward, the others nothing."""
    offered = {router: BRISK * overload_pps}
    return Scenario(f"brisk:{router}", SMALL, offered, overloaded=frozenset({router}))


def capped(router: str, share: float, frames_per_core: float) -> Scenario:
    """One router gets more than its cap serves, the others nothing.

    Not more than needed: dropping a flood would take the rest of the core, and hide the cap.

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
    """One router gets what it gets in another scenario, the others nothing."""
    offered = under.offered_pps[router]
    return Scenario(f"quiet:{router}:{offered:.0f}", SMALL, {router: offered})


def attack(policy: Policy, aggressor: str, capacity: Capacity, links: Iterable[Link]) -> Scenario:
    """One router is offered far more than it may have, all others what they may have.

    What they may have on a link depends on who the aggressor is: nothing but its guarantee
    is promised to a router against one of an earlier priority.
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
    offered[aggressor] = BEYOND * capacity.most_pps
    return Scenario(f"attack:{aggressor}", SMALL, offered, overloaded=frozenset({aggressor}))


def everyone(capacity: Capacity) -> Scenario:
    """Every router gets more than its CPU share serves, and than an equal part would serve.

    So that whoever gets too much because a weight is not kept wants it, too.
    """
    offered = {}
    for name, share in capacity.shares.items():
        equal = 1 / len(capacity.group_of(name))
        offered[name] = BEYOND * max(share, equal) * capacity.cores[name] * capacity.most_pps
    return Scenario("everyone", SMALL, offered, overloaded=frozenset(offered))


def capacity_of(policy: Policy, alone_pps: Mapping[str, float], most_pps: float) -> Capacity:
    """Work out CPU shares and what each router may send, from what each forwards alone.

    Parameters
    ----------
    alone_pps
        Small frames/s that each router forwards alone, under a flood.
    most_pps
        Most small frames/s that any of them forwards.
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
    return Capacity(alone_pps, within, most_pps, shares, held_down, groups, cores)


def at_most(capacity: Capacity, served_pps: Mapping[str, float]) -> Capacity:
    """Return a capacity that promises no router more than it got when all were overloaded.

    In a crowd a frame costs more than alone: polls are shorter, caches colder.
    """
    within = {
        name: min(pps, served_pps.get(name, pps)) for name, pps in capacity.within_pps.items()
    }
    return replace(capacity, within_pps=within)


def _of_group(
    policy: Policy, alone_pps: Mapping[str, float], cores: int
) -> tuple[dict[str, float], dict[str, float], dict[str, str]]:
    """Return CPU shares, what each may send, and what holds some down, in a group."""
    routers = {name: policy.routers[name] for name in alone_pps}
    reference = {
        way: max((alone_pps[name] for name in routers if routers[name].forward == way), default=0.0)
        for way in ("kernel", "xdp")
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
        most = [shares[name] * reference[router.forward] * cores, alone_pps[name]]
        limit = ceiling_pps(router, SMALL)
        most += [] if limit is None else [limit]
        within[name] = min(most)
    return shares, within, held_down


def _caps(router: RouterPolicy, reference_pps: float, cores: int) -> dict[str, float]:
    """Return by key what holds a router below its weight, as a share of all the cores."""
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
    """One ``rate_max`` of a router."""

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
    """One router gets more than its ceiling, the others nothing; its burst goes before."""
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
    """Every router gets more than its part of the link, and than an equal part.

    Parameters
    ----------
    level
        The first priority that is active.
    due_bps
        What each active router may have, bit/s on the wire.
    """
    equal_bps = rate_bps / len(due_bps)
    offered = {
        name: FILLING * max(due, equal_bps) / wire_bps(1.0, LARGE) for name, due in due_bps.items()
    }
    return Scenario(
        f"link:{nic}:{level}", LARGE, offered, FILLING_NS, frozenset(offered), about_cpu=False
    )

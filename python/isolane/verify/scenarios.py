"""The loads that test each promise of a policy. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from isolane.enforce.fair_share import Link, link_fair_rates
from isolane.spec import Policy, RouterPolicy, wire_bps
from isolane.spec.patterns import FRAME_KINDS, PLAIN, Pattern, Timing
from isolane.verify.promised_rates import SMALL, Capacity

LARGE = 1518
"""Frame size that loads links, bytes; small ones (:data:`SMALL`) load the CPU."""
WITHIN = 0.8
"""Load of a router that an attack must not affect, as a part of its fair share; the rest is what
serving and dropping the aggressor's frames costs."""
BEYOND = 2.0
"""Load of an overloaded router, as a multiple of the maximum that any router forwards."""
MORE_THAN_EQUAL = 1.25
"""Load of one of several that share out the core, at least, as a multiple of what an equal part of
it would forward. Dropping more than that costs time, which counts against a small share."""
ABOVE = 1.5
"""Load that tests a ceiling, as a multiple of the ceiling."""
FILLING = 1.5
"""Load that fills a link, as a multiple of the router's share of it; of more, frames would be lost
before the link because the CPU has no time for them."""
PATTERNS: Final = (
    PLAIN,
    Pattern(timing=Timing("poisson")),
    Pattern(timing=Timing("bursts", 1_000_000, 2_000_000)),
    Pattern(timing=Timing("bursts", 20_000_000, 40_000_000)),
    Pattern(timing=Timing("ramp")),
    *(Pattern((kind,)) for kind in FRAME_KINDS),
)
"""What overloads a router in a thorough verification."""
WARMUP_NS = 100_000_000
FILLING_NS = 500_000_000
"""Warm-up that fills the queues of a link: while they fill, more frames go in than come out."""


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
    patterns: Mapping[str, Pattern] = field(default_factory=dict)
    """By router: what is unusual about its frames; nothing of those that are not named."""

    shows_speed: bool = False
    """Whether others follow the speed that it shows: it does not itself, or a load that is too low
    once would stay so."""

    def scaled(self, factor: float) -> Scenario:
        """Return the same scenario with all loads multiplied."""
        if self.shows_speed:
            return self
        offered = {name: factor * pps for name, pps in self.offered_pps.items()}
        return replace(self, offered_pps=offered)


@dataclass(frozen=True)
class Comparison:
    """A scenario that tests promises, with the one that it is compared with.

    Both are measured back to back, in random order: a pair. What the machine does to both cancels
    out.
    """

    loaded: Scenario
    reference: Scenario | None = None
    """None where the figure is a part of one trial, or is compared with a rate of the policy."""
    follows_speed: bool = False
    """Whether the loads follow the speed of the machine, as the reference shows it."""

    @property
    def key(self) -> str:
        """Unique name: that of the loaded scenario."""
        return self.loaded.key


def alone(router: str, offered_pps: float) -> Scenario:
    """Offer one router a load, the others nothing."""
    return Scenario(f"alone:{router}", SMALL, {router: offered_pps}, overloaded=frozenset({router}))


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


def attack(
    policy: Policy,
    aggressor: str,
    capacity: Capacity,
    links: Iterable[Link],
    pattern: Pattern = PLAIN,
) -> Comparison:
    """Offer one router far more than its fair share, and each other router less than its own.

    The reference offers the others the same, and the aggressor nothing.

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
    del offered[aggressor]
    others = Scenario(f"without:{aggressor}", SMALL, offered)
    beyond = BEYOND * capacity.max_pps * _part_of_time(pattern)
    loaded = Scenario(
        f"attack:{aggressor}" + (f":{pattern}" if pattern != PLAIN else ""),
        SMALL,
        {**offered, aggressor: beyond},
        overloaded=frozenset({aggressor}),
        patterns={aggressor: pattern},
    )
    return Comparison(loaded, others, follows_speed=True)


def _part_of_time(pattern: Pattern) -> float:
    """Return for how much of the time frames are sent: in a burst they come at the load itself."""
    timing = pattern.timing
    return timing.on_ns / timing.period_ns if timing.kind == "bursts" else 1.0


def everyone(capacity: Capacity, loads_pps: Mapping[str, float]) -> Comparison:
    """Offer every router more than it can forward with its CPU share, and with an equal share.

    So a router that gets too much CPU time, because the weights do not work, also uses it. The
    reference offers the fastest router of each group what it forwards alone at best.

    Parameters
    ----------
    loads_pps
        Load of each router at which it forwards most when it is alone, frames/s.
    """
    offered = {}
    for name, share in capacity.shares.items():
        equal = 1 / len(capacity.group_of(name))
        part = max(BEYOND * share, MORE_THAN_EQUAL * equal)
        offered[name] = part * capacity.cores[name] * capacity.max_pps
    loaded = Scenario("everyone", SMALL, offered, overloaded=frozenset(offered))
    fastest = {capacity.fastest_of(group) for group in capacity.groups}
    single = Scenario(
        "fastest alone",
        SMALL,
        {name: loads_pps[name] for name in offered if name in fastest},
        overloaded=frozenset(fastest),
        shows_speed=True,
    )
    return Comparison(loaded, single, follows_speed=True)


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

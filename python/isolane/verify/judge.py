"""From what was measured to findings. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from isolane.enforce.fair_share import ceiling_bps, guaranteed_bps, same_cores, share_out
from isolane.run.wording import plural
from isolane.spec import Policy, format_bps, format_pps, wire_bps
from isolane.verify.environment import Measured
from isolane.verify.report_data import Finding, Promise, Tolerance, Unit
from isolane.verify.scenarios import LARGE, Capacity, Ceiling, Scenario, quiet

REACHED = 0.9
"""Part of a ceiling that must be reached before it can be said to have held."""
BEFORE = "its frames were lost before they came to the link: CPU time was what lacked"
LEAST_PPS = 100.0
"""Offered load below which a ratio of throughputs means nothing, frames/s."""
MORE = 1.05
"""Times what it may have that a router must be offered to count as overloaded."""


@dataclass
class Results:
    """All trials, by scenario."""

    good: dict[str, list[Measured]] = field(default_factory=lambda: defaultdict(list))
    invalid: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Why trials gave no verdict, one text for each such trial."""

    def add(self, key: str, measured: Measured) -> None:
        """Keep a trial; one that is invalid is counted only."""
        if measured.invalid:
            self.invalid[key].append(measured.invalid[0].text)
        else:
            self.good[key].append(measured)

    def figures(self, key: str, figure: Callable[[Measured], float | None]) -> list[float]:
        """Return a figure of each trial of a scenario that has it."""
        values = (figure(measured) for measured in self.good.get(key, []))
        return [value for value in values if value is not None]

    def received_pps(self, key: str, router: str) -> list[float]:
        """Return what a router forwarded in each trial, frames/s."""
        return self.figures(key, lambda seen: seen.routers[router].received_pps)

    def cpu(self, key: str, router: str) -> list[float]:
        """Return the CPU time of a router in each trial, as a share of one core."""
        return self.figures(key, lambda seen: seen.routers[router].cpu)

    def lacks(self, key: str, wanted: int) -> bool:
        """Tell whether a scenario has fewer trials that count than are wanted."""
        return len(self.good.get(key, [])) < wanted

    def why_nothing(self, key: str) -> str:
        """Say why a scenario has no trial that counts."""
        why = self.invalid.get(key)
        if not why:
            return "no trial was finished"
        return f"no verdict: {len(why)} of {plural(len(why), 'trial')} invalid, because {why[0]}"


@dataclass(frozen=True)
class Claim:
    """A promise in a situation."""

    router: str
    promise: Promise
    about: str
    unit: Unit

    def not_measured(self, why: str, promised: float | None = None) -> Finding:
        """Name it as not measured."""
        return Finding(**vars(self), verdict="not measured", promised=promised, why=why)

    def at_least(self, promised: float, values: Sequence[float], tolerance: float) -> Finding:
        """Judge a promise that is kept by reaching a value."""
        return self._judged(promised, values, tolerance, median(values) - promised)

    def at_most(self, promised: float, values: Sequence[float], tolerance: float) -> Finding:
        """Judge a promise that is kept by not exceeding a value."""
        return self._judged(promised, values, tolerance, promised - median(values))

    def _judged(
        self, promised: float, values: Sequence[float], tolerance: float, margin: float
    ) -> Finding:
        held = margin >= -tolerance - 1e-12
        measured: dict[str, Any] = {
            "promised": promised,
            "measured": median(values),
            "low": min(values),
            "high": max(values),
            "margin": margin,
            "tolerance": tolerance,
        }
        return Finding(**vars(self), verdict="held" if held else "broken", **measured)


@dataclass(frozen=True)
class Judge:
    """Judges the promises of a policy by the trials that were made."""

    policy: Policy
    results: Results
    tolerance: Tolerance

    def cpu_weight(self, capacity: Capacity) -> Iterable[Finding]:
        """Judge CPU shares, while all are overloaded, among those that only CPU time limits."""
        policy = self.policy
        idle = self.results.figures("everyone", lambda seen: seen.idle)
        for name in capacity.shares:
            claim = Claim(name, "cpu_weight", "all overloaded", "share")
            group = capacity.group_of(name)
            free = tuple(other for other in group if other not in capacity.held_down)
            if name in capacity.held_down:
                key = capacity.held_down[name]
                yield claim.not_measured(f"{key} holds it below the share of its weight")
                continue
            if len(free) == 1:
                who = "no other router" if len(group) == 1 else "nobody who may want more"
                yield claim.not_measured(f"{who} shares its cores")
                continue
            weights = {other: policy.routers[other].cpu_weight for other in free}
            promised = share_out(weights, {})[name]
            values = self.results.figures("everyone", _share_of(name, free))
            if not same_cores(policy, group):
                yield claim.not_measured("some share a part of its cores only", promised)
            elif not values:
                yield claim.not_measured(self.results.why_nothing("everyone"), promised)
            elif median(idle) > self.tolerance.unused:
                why = f"the cores were {100 * median(idle):.0f} % idle: CPU was not what lacked"
                yield claim.not_measured(why, promised)
            else:
                allowed = self.tolerance.share * self.tolerance.factor
                yield claim.at_least(promised, values, allowed)

    def cpu_max(self, name: str) -> Iterable[Finding]:
        """Judge the cap, while the router is alone and overloaded."""
        most = self.policy.routers[name].cpu_max
        if most is None:
            return
        claim, key = Claim(name, "cpu_max", "alone, overloaded", "share"), f"capped:{name}"
        values = self.results.cpu(key, name)
        if not values:
            alone = "alone" if self.results.lacks(f"alone:{name}", 1) else "capped"
            why = self.results.why_nothing(f"{alone}:{name}")
            yield claim.not_measured(why, most / 100)
            return
        found = claim.at_most(most / 100, values, self.tolerance.cpu_max * self.tolerance.factor)
        if median(values) < REACHED * most / 100:
            why = f"it used {100 * median(values):.0f} % of a core at most: the cap was not reached"
            found = claim.not_measured(why, most / 100)
        yield found

    def retained(self, capacity: Capacity, attack: Scenario) -> Iterable[Finding]:
        """Judge what the others keep while one is overloaded, against what they have alone."""
        (aggressor,) = attack.overloaded
        sent = self.results.figures(attack.key, _generated(aggressor))
        for name in capacity.within_pps:
            if name == aggressor:
                continue
            claim = Claim(name, "retained", f"while {aggressor} is overloaded", "share")
            attacked = self.results.received_pps(attack.key, name)
            alone_key = quiet(name, attack).key
            alone = self.results.received_pps(alone_key, name)
            if attack.offered_pps[name] < LEAST_PPS:
                yield claim.not_measured(f"nothing is promised to it against {aggressor}")
            elif not attacked:
                yield claim.not_measured(self.results.why_nothing(attack.key), 1.0)
            elif not alone or not median(alone):
                yield claim.not_measured(self.results.why_nothing(alone_key), 1.0)
            elif median(sent) < MORE * capacity.within_pps[aggressor]:
                short = format_pps(median(sent))
                yield claim.not_measured(f"{aggressor} could be offered {short} only", 1.0)
            else:
                ratios = [pps / median(alone) for pps in attacked]
                allowed = self.tolerance.retained * self.tolerance.factor
                yield claim.at_least(1.0, ratios, allowed)

    def rate_max(self, ceiling: Ceiling, hidden: str | None) -> Finding:
        """Judge one ceiling, while its router is alone and offered more."""
        claim = Claim(ceiling.router, "rate_max", ceiling.direction, ceiling.unit)
        if hidden is not None:
            return claim.not_measured(hidden, ceiling.value)
        received = self.results.received_pps(ceiling.key, ceiling.router)
        if not received:
            return claim.not_measured(self.results.why_nothing(ceiling.key), ceiling.value)
        factor = ceiling.value / ceiling.pps
        values = [factor * pps for pps in received]
        if median(values) < REACHED * ceiling.value:
            show = format_pps if ceiling.unit == "pps" else format_bps
            return claim.not_measured(
                f"the bed forwarded {show(median(values))} only: the ceiling was not reached",
                ceiling.value,
            )
        allowed = self.tolerance.rate * self.tolerance.factor * ceiling.value
        return claim.at_most(ceiling.value, values, allowed)


@dataclass(frozen=True)
class LinkLevel:
    """The routers of one priority on a link, while none before them sends anything."""

    nic: str
    key: str
    """Of its scenario."""
    rate_bps: float
    expected_bps: dict[str, float]
    """What each active router may have, bit/s on the wire."""
    level: tuple[str, ...]
    """Those of the first priority that is active."""
    first: bool
    """Whether all routers of the link are active."""


def on_link(judge: Judge, link: LinkLevel) -> Iterable[Finding]:
    """Judge ``rate_min``, ``priority`` and ``link_weight`` on a link."""
    got = {
        name: [wire_bps(pps, LARGE) for pps in judge.results.received_pps(link.key, name)]
        for name in link.expected_bps
    }
    why = _why_not(judge.results, link, got, judge.tolerance.unused)
    for name, values in got.items():
        guaranteed, due = guaranteed_bps(judge.policy.routers[name]), link.expected_bps[name]
        if link.first and guaranteed:
            claim = Claim(name, "rate_min", f"all want all of {link.nic}", "bps")
            yield _kept(judge, link, claim, why, guaranteed, values)
        if name in link.level and set(link.expected_bps) > set(link.level):
            claim = Claim(name, "priority", f"later ones want all of {link.nic}", "bps")
            yield _kept(judge, link, claim, why, due, values)
        if name in link.level and len(link.level) > 1:
            claim = Claim(name, "link_weight", f"its priority shares {link.nic}", "share")
            part = due / sum(link.expected_bps[n] for n in link.level)
            rounds = zip(*(got[n] for n in link.level), strict=False)
            parts = [each[link.level.index(name)] / max(1.0, sum(each)) for each in rounds]
            held_down = _held_down(judge.policy, name, due)
            yield _kept(judge, link, claim, why or held_down, part, parts)


def _kept(
    judge: Judge,
    link: LinkLevel,
    claim: Claim,
    why: str | None,
    promised: float,
    values: Sequence[float],
) -> Finding:
    """Judge one promise on a link; what was lost before the link says nothing about it."""
    if why:
        return claim.not_measured(why, promised)
    relative = (
        judge.tolerance.link_weight if claim.promise == "link_weight" else judge.tolerance.rate
    )
    found = claim.at_least(promised, values, relative * judge.tolerance.factor * promised)
    lost = judge.results.figures(link.key, lambda seen: seen.routers[claim.router].lost_at_link)
    if found.verdict == "broken" and not median(lost):
        return claim.not_measured(BEFORE, promised)
    return found


def _held_down(policy: Policy, name: str, due_bps: float) -> str | None:
    """Say what keeps a router below the share of its link weight; None if nothing does."""
    if due_bps >= ceiling_bps(policy.routers[name]) - 1:
        return "rate_max holds it below the share of its weight"
    return None


def _why_not(
    results: Results, link: LinkLevel, got: dict[str, list[float]], unused: float
) -> str | None:
    """Say why a link's trials tell nothing about its shares; None if they do."""
    if not all(got.values()):
        return results.why_nothing(link.key)
    total_bps = sum(median(values) for values in got.values())
    due_bps = sum(link.expected_bps.values())
    if total_bps < (1 - unused) * due_bps:
        return (
            f"the link was never full: {format_bps(total_bps)} of {format_bps(link.rate_bps)} "
            "is all that was forwarded"
        )
    if total_bps > link.rate_bps * (1 + unused):
        return (
            f"nothing holds the link to its rate: {format_bps(total_bps)} were forwarded where "
            f"there is room for {format_bps(link.rate_bps)}"
        )
    for name, due in link.expected_bps.items():
        sent = wire_bps(median(results.figures(link.key, _generated(name))), LARGE)
        if sent < MORE * due:
            return f"{name} could be offered {format_bps(sent)} only"
    return None


def _generated(router: str) -> Callable[[Measured], float | None]:
    return lambda seen: seen.routers[router].sent_pps


def _share_of(router: str, among: Iterable[str]) -> Callable[[Measured], float | None]:
    """Return the share of a router in the CPU time of some."""
    names = tuple(among)

    def figure(seen: Measured) -> float | None:
        used = [seen.routers[name].cpu for name in names]
        mine, total = seen.routers[router].cpu, sum(cpu or 0.0 for cpu in used)
        return None if None in used or mine is None or not total else mine / total

    return figure

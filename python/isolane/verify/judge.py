"""Judges each promise of a policy by the trials that were made. Pure."""

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
"""Part of a ceiling that the router must reach before the ceiling counts as tested."""
BEFORE = "its frames were lost before they reached the link: it ran out of CPU time"
MIN_PPS = 100.0
"""Offered load, frames/s, below which a ratio of throughputs means nothing."""
MORE = 1.05
"""A router counts as overloaded when it is offered this many times its fair share."""


@dataclass
class Results:
    """All trials, by scenario key."""

    good: dict[str, list[Measured]] = field(default_factory=lambda: defaultdict(list))
    invalid: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """One text for each trial without a verdict: why it has none."""

    def add(self, key: str, measured: Measured) -> None:
        """Keep a trial; of an invalid one keep only the reason."""
        if measured.invalid:
            self.invalid[key].append(measured.invalid[0].text)
        else:
            self.good[key].append(measured)

    def figures(self, key: str, figure: Callable[[Measured], float | None]) -> list[float]:
        """Return a figure of each valid trial of a scenario, without the trials that lack it."""
        values = (figure(measured) for measured in self.good.get(key, []))
        return [value for value in values if value is not None]

    def received_pps(self, key: str, router: str) -> list[float]:
        """Return what a router forwarded in each trial, frames/s."""
        return self.figures(key, lambda seen: seen.routers[router].received_pps)

    def cpu(self, key: str, router: str) -> list[float]:
        """Return the CPU time of a router in each trial, as a share of one core."""
        return self.figures(key, lambda seen: seen.routers[router].cpu)

    def lacks(self, key: str, wanted: int) -> bool:
        """Tell whether a scenario has fewer valid trials than are wanted."""
        return len(self.good.get(key, [])) < wanted

    def why_nothing(self, key: str) -> str:
        """Say why a scenario has no valid trial."""
        why = self.invalid.get(key)
        if not why:
            return "no trial was finished"
        return f"no verdict: {len(why)} of {plural(len(why), 'trial')} invalid, because {why[0]}"


@dataclass(frozen=True)
class Claim:
    """A promise to a router, and the situation in which it is tested."""

    router: str
    promise: Promise
    about: str
    unit: Unit

    def not_measured(self, why: str, promised: float | None = None) -> Finding:
        """Return a finding that says why the promise was not measured."""
        return Finding(**vars(self), verdict="not measured", promised=promised, why=why)

    def judge_min(self, promised: float, values: Sequence[float], tolerance: float) -> Finding:
        """Judge a promise that holds when the median is not below a value."""
        return self._judged(promised, values, tolerance, median(values) - promised)

    def judge_max(self, promised: float, values: Sequence[float], tolerance: float) -> Finding:
        """Judge a promise that holds when the median is not above a value."""
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
        """Judge CPU shares while all are overloaded, among routers that only CPU time limits."""
        policy = self.policy
        idle = self.results.figures("everyone", lambda seen: seen.idle)
        for name in capacity.shares:
            claim = Claim(name, "cpu_weight", "all overloaded", "share")
            group = capacity.group_of(name)
            free = tuple(other for other in group if other not in capacity.held_down)
            if name in capacity.held_down:
                key = capacity.held_down[name]
                yield claim.not_measured(f"{key} keeps it below the share that its weight gives")
                continue
            if len(free) == 1:
                who = "no other router" if len(group) == 1 else "no router that could use more"
                yield claim.not_measured(f"{who} shares its cores")
                continue
            weights = {other: policy.routers[other].cpu_weight for other in free}
            promised = share_out(weights, {})[name]
            values = self.results.figures("everyone", _share_of(name, free))
            if not same_cores(policy, group):
                yield claim.not_measured("some routers share only a part of its cores", promised)
            elif not values:
                yield claim.not_measured(self.results.why_nothing("everyone"), promised)
            elif median(idle) > self.tolerance.unused:
                why = f"the cores were {100 * median(idle):.0f} % idle: CPU time was not the limit"
                yield claim.not_measured(why, promised)
            else:
                allowed = self.tolerance.share * self.tolerance.factor
                yield claim.judge_min(promised, values, allowed)

    def cpu_max(self, name: str) -> Iterable[Finding]:
        """Judge ``cpu_max`` while the router is alone and overloaded."""
        cap = self.policy.routers[name].cpu_max
        if cap is None:
            return
        claim, key = Claim(name, "cpu_max", "alone, overloaded", "share"), f"capped:{name}"
        values = self.results.cpu(key, name)
        if not values:
            alone = "alone" if self.results.lacks(f"alone:{name}", 1) else "capped"
            why = self.results.why_nothing(f"{alone}:{name}")
            yield claim.not_measured(why, cap / 100)
            return
        found = claim.judge_max(cap / 100, values, self.tolerance.cpu_max * self.tolerance.factor)
        if median(values) < REACHED * cap / 100:
            why = f"it used only {100 * median(values):.0f} % of a core: it did not reach the cap"
            found = claim.not_measured(why, cap / 100)
        yield found

    def retained(self, capacity: Capacity, attack: Scenario) -> Iterable[Finding]:
        """Judge what each router forwards during an attack, against what it forwards alone."""
        (aggressor,) = attack.overloaded
        sent = self.results.figures(attack.key, _generated(aggressor))
        for name in capacity.within_pps:
            if name == aggressor:
                continue
            claim = Claim(name, "retained", f"while {aggressor} is overloaded", "share")
            attacked = self.results.received_pps(attack.key, name)
            alone_key = quiet(name, attack).key
            alone = self.results.received_pps(alone_key, name)
            if attack.offered_pps[name] < MIN_PPS:
                yield claim.not_measured(f"the policy promises it nothing against {aggressor}")
            elif not attacked:
                yield claim.not_measured(self.results.why_nothing(attack.key), 1.0)
            elif not alone or not median(alone):
                yield claim.not_measured(self.results.why_nothing(alone_key), 1.0)
            elif median(sent) < MORE * capacity.within_pps[aggressor]:
                short = format_pps(median(sent))
                yield claim.not_measured(f"only {short} could be offered to {aggressor}", 1.0)
            else:
                ratios = [pps / median(alone) for pps in attacked]
                allowed = self.tolerance.retained * self.tolerance.factor
                yield claim.judge_min(1.0, ratios, allowed)

    def rate_max(self, ceiling: Ceiling, hidden: str | None) -> Finding:
        """Judge one ``rate_max`` while its router is alone and is offered more."""
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
                f"it forwarded only {show(median(values))}: it did not reach the ceiling",
                ceiling.value,
            )
        allowed = self.tolerance.rate * self.tolerance.factor * ceiling.value
        return claim.judge_max(ceiling.value, values, allowed)


@dataclass(frozen=True)
class LinkLevel:
    """The routers of one priority on a link, while no router of an earlier priority sends."""

    nic: str
    key: str
    """Key of its scenario."""
    rate_bps: float
    expected_bps: dict[str, float]
    """Fair share of each active router, bit/s on the wire."""
    level: tuple[str, ...]
    """The routers of the earliest priority that is active."""
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
            claim = Claim(name, "rate_min", f"every router fills {link.nic}", "bps")
            yield _kept(judge, link, claim, why, guaranteed, values)
        if name in link.level and set(link.expected_bps) > set(link.level):
            claim = Claim(name, "priority", f"later priorities fill {link.nic}", "bps")
            yield _kept(judge, link, claim, why, due, values)
        if name in link.level and len(link.level) > 1:
            claim = Claim(name, "link_weight", f"its priority fills {link.nic}", "share")
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
    """Judge one promise on a link; frames lost before the link do not count against it."""
    if why:
        return claim.not_measured(why, promised)
    relative = (
        judge.tolerance.link_weight if claim.promise == "link_weight" else judge.tolerance.rate
    )
    found = claim.judge_min(promised, values, relative * judge.tolerance.factor * promised)
    lost = judge.results.figures(link.key, lambda seen: seen.routers[claim.router].lost_at_link)
    if found.verdict == "broken" and not median(lost):
        return claim.not_measured(BEFORE, promised)
    return found


def _held_down(policy: Policy, name: str, due_bps: float) -> str | None:
    """Say what keeps a router below the share that its link weight gives; None: nothing."""
    if due_bps >= ceiling_bps(policy.routers[name]) - 1:
        return "rate_max keeps it below the share that its weight gives"
    return None


def _why_not(
    results: Results, link: LinkLevel, got: dict[str, list[float]], unused: float
) -> str | None:
    """Say why a link's trials prove nothing about its shares; None if they do."""
    if not all(got.values()):
        return results.why_nothing(link.key)
    total_bps = sum(median(values) for values in got.values())
    due_bps = sum(link.expected_bps.values())
    if total_bps < (1 - unused) * due_bps:
        return (
            f"the link was never full: all routers together forwarded {format_bps(total_bps)} of "
            f"{format_bps(link.rate_bps)}"
        )
    if total_bps > link.rate_bps * (1 + unused):
        return (
            f"the link exceeds its rate: {format_bps(total_bps)} were forwarded, and the policy "
            f"says {format_bps(link.rate_bps)}"
        )
    for name, due in link.expected_bps.items():
        sent = wire_bps(median(results.figures(link.key, _generated(name))), LARGE)
        if sent < MORE * due:
            return f"only {format_bps(sent)} could be offered to {name}"
    return None


def _generated(router: str) -> Callable[[Measured], float | None]:
    return lambda seen: seen.routers[router].sent_pps


def _share_of(router: str, among: Iterable[str]) -> Callable[[Measured], float | None]:
    """Return a figure: the share of a router in the CPU time of several."""
    names = tuple(among)

    def figure(seen: Measured) -> float | None:
        used = [seen.routers[name].cpu for name in names]
        mine, total = seen.routers[router].cpu, sum(cpu or 0.0 for cpu in used)
        return None if None in used or mine is None or not total else mine / total

    return figure

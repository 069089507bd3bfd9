"""Judges what a policy promises on cores, by the pairs that were measured. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from isolane.enforce.fair_share import same_cores, share_out
from isolane.spec import Policy, format_bps, format_pps
from isolane.spec.patterns import PLAIN
from isolane.verify.environment import Measured
from isolane.verify.evidence import Candidate, Claim, Pair, Results
from isolane.verify.promised_rates import Capacity
from isolane.verify.report_data import Tolerance
from isolane.verify.scenarios import Ceiling, Comparison
from isolane.verify.why_lost import why_lost

REACHED = 0.9
"""Part of a ceiling that the router must reach before the ceiling counts as tested."""
MIN_PPS = 100.0
"""Offered load, frames/s, below which a ratio of throughputs means nothing."""
MORE = 1.05
"""A router counts as overloaded when it is offered this many times its fair share."""
FULLY = 0.95
"""Part of its load that the generator sent if it never paused: then idle cores are no excuse."""
LOSSLESS = 0.999
"""Part of its load that a router must forward for its throughput to be a reference."""


@dataclass(frozen=True)
class Judge:
    """Judges the promises of a policy by the pairs that were measured."""

    policy: Policy
    results: Results
    tolerance: Tolerance

    def cpu_weight(self, capacity: Capacity) -> Iterable[Candidate]:
        """Judge CPU shares while all are overloaded, among routers that only CPU time limits."""
        for name in capacity.shares:
            yield self._cpu_weight(capacity, name)

    def _cpu_weight(self, capacity: Capacity, name: str) -> Candidate:
        claim, key = Claim(name, "cpu_weight", "all overloaded", "share"), "everyone"
        group = capacity.group_of(name)
        free = tuple(other for other in group if other not in capacity.held_down)
        if name in capacity.held_down:
            lower = f"{capacity.held_down[name]} keeps it below the share that its weight gives"
            return Candidate(claim, key, why=lower)
        if len(free) == 1:
            who = "no other router" if len(group) == 1 else "no router that could use more"
            return Candidate(claim, key, why=f"{who} shares its cores")
        weights = {other: self.policy.routers[other].cpu_weight for other in free}
        promised = share_out(weights, {})[name]
        if not same_cores(self.policy, group):
            partly = "some routers share only a part of its cores"
            return Candidate(claim, key, promised, why=partly)
        share = _share_of(name, free, capacity.cores[name], self.tolerance.unused)
        pairs = self.results.of(key)
        values = self.results.figures(key, lambda pair: share(pair.loaded))
        why = None if pairs else self.results.why_nothing(key)
        if 2 * len(values) < len(pairs):
            idle = median(pair.loaded.idle for pair in pairs)
            why = f"the cores were {100 * idle:.0f} % idle: CPU time was not the limit"
        allowed, note = self.tolerance.share * self.tolerance.factor, _silent(capacity, name)
        return Candidate(claim, key, promised, tuple(values), allowed, why=why, note=note)

    def cpu_max(self, name: str, why: str | None = None) -> Iterable[Candidate]:
        """Judge ``cpu_max`` while the router is alone and overloaded; why: it was not tried."""
        cap = self.policy.routers[name].cpu_max
        if cap is None:
            return
        claim, key = Claim(name, "cpu_max", "alone, overloaded", "share"), f"capped:{name}"
        values = self.results.figures(key, lambda pair: pair.loaded.routers[name].cpu)
        if why is None and not values:
            why = self.results.why_nothing(key)
        elif values and median(values) < REACHED * cap / 100:
            why = f"it used only {100 * median(values):.0f} % of a core: it did not reach the cap"
        allowed = self.tolerance.cpu_max * self.tolerance.factor
        yield Candidate(claim, key, cap / 100, tuple(values), allowed, at_most=True, why=why)

    def retained(self, capacity: Capacity, attack: Comparison) -> Iterable[Candidate]:
        """Judge what each router forwards of its load while one is overloaded.

        The figure is the part that it forwards, divided by the part that it forwards in the
        reference. Where it loses frames in the reference, too, the figure is not divided: then
        the crowd of the others takes what the policy promises it.
        """
        (aggressor,) = attack.loaded.overloaded
        key, pairs = attack.key, self.results.of(attack.key)
        pattern = attack.loaded.patterns.get(aggressor, PLAIN)
        by = f" by {pattern}" if pattern != PLAIN else ""
        sent = [pair.loaded.routers[aggressor].sent_pps for pair in pairs]
        for name in capacity.within_pps:
            if name == aggressor:
                continue
            claim = Claim(name, "retained", f"while {aggressor} is overloaded{by}", "share")
            if attack.loaded.offered_pps[name] < MIN_PPS:
                why = f"the policy promises it nothing against {aggressor}"
                yield Candidate(claim, key, why=why)
            elif not pairs:
                yield Candidate(claim, key, 1.0, why=self.results.why_nothing(key))
            else:
                excuse = None
                if median(sent) < MORE * capacity.within_pps[aggressor]:
                    excuse = f"only {format_pps(median(sent))} could be offered to {aggressor}"
                values, note = _retained(pairs, name)
                allowed = self.tolerance.retained * self.tolerance.factor
                if median(values) < 1 - allowed:
                    told = note, why_lost(pairs, name, aggressor)
                    note = "; ".join(filter(None, told)) or None
                note = _silent(capacity, name) or note
                yield Candidate(claim, key, 1.0, values, allowed, excuse=excuse, note=note)

    def rate_max(self, ceiling: Ceiling, hidden: str | None) -> Candidate:
        """Judge one ``rate_max`` while its router is alone and is offered more."""
        claim = Claim(ceiling.router, "rate_max", ceiling.direction, ceiling.unit)
        factor = ceiling.value / ceiling.pps
        values = self.results.figures(
            ceiling.key, lambda pair: factor * pair.loaded.routers[ceiling.router].received_pps
        )
        why = hidden
        if why is None and not values:
            why = self.results.why_nothing(ceiling.key)
        elif why is None and median(values) < REACHED * ceiling.value:
            show = format_pps if ceiling.unit == "pps" else format_bps
            why = f"it forwarded only {show(median(values))}: it did not reach the ceiling"
        allowed = self.tolerance.rate * self.tolerance.factor * ceiling.value
        return Candidate(
            claim, ceiling.key, ceiling.value, tuple(values), allowed, at_most=True, why=why
        )


def _silent(capacity: Capacity, name: str) -> str | None:
    """Say of a router that it forwards nothing at all."""
    return None if capacity.alone_pps[name] else "it forwarded no frame although it was alone"


def _retained(pairs: Sequence[Pair], name: str) -> tuple[tuple[float, ...], str | None]:
    """Return the figure of each pair, and a note where the reference loses frames itself."""
    loaded = [_delivered(pair.loaded, name) for pair in pairs]
    before = [_delivered(pair.reference, name) for pair in pairs if pair.reference is not None]
    if median(before) >= LOSSLESS:
        ratios = (now / max(then, 1e-9) for now, then in zip(loaded, before, strict=True))
        return tuple(ratios), None
    note = f"without overload it forwards {100 * median(before):.1f} % of its load"
    return tuple(loaded), note


def _delivered(seen: Measured, name: str) -> float:
    """Return the part of a router's frames that it forwarded; 0 if it was offered none."""
    router = seen.routers[name]
    return router.received_pps / router.sent_pps if router.sent_pps else 0.0


def _share_of(
    router: str, among: Iterable[str], cores: int, unused: float
) -> Callable[[Measured], float | None]:
    """Return a figure: the share of a router in the CPU time of several.

    Where the cores were idle, a router that was served completely tells nothing. For one that lost
    frames although the generator sent all of its load, idle time counts as used by others: the
    host could have given it this time, and did not.
    """
    names = tuple(among)

    def figure(seen: Measured) -> float | None:
        used = [seen.routers[name].caused_cpu for name in names]
        mine, total = seen.routers[router].caused_cpu, sum(cpu or 0.0 for cpu in used)
        if None in used or mine is None:
            return None
        if seen.idle > unused:
            if not _starved(seen, router):
                return None
            total += seen.idle * cores
        return mine / total if total else None

    return figure


def _starved(seen: Measured, router: str) -> bool:
    here = seen.routers[router]
    return (
        here.sent_pps >= FULLY * here.offered_pps and here.received_pps < LOSSLESS * here.sent_pps
    )

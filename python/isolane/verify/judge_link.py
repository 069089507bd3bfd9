"""Judges what a policy promises on a link, by the trials that were measured. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from statistics import median

from isolane.enforce.fair_share import Link, ceiling_bps, guaranteed_bps, link_fair_rates
from isolane.spec import Policy, format_bps, format_pps, wire_bps
from isolane.verify.evidence import Candidate, Claim
from isolane.verify.judge import MORE, Judge
from isolane.verify.scenarios import LARGE

BEFORE = "its frames were lost before they reached the link: it ran out of CPU time"
ENOUGH = 2.0
"""A router's part of the core is enough for its guarantee if it forwards this many times as much
with small frames; a large frame costs less than twice as much."""


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
    within_pps: Mapping[str, float] = field(default_factory=dict)
    """Small frames/s that its part of the cores lets each router forward, where this is known."""


def levels(
    policy: Policy, link: Link, within_pps: Mapping[str, float] | None = None
) -> Iterator[LinkLevel]:
    """Yield the priorities of a link, the earliest first."""
    priorities = sorted({policy.routers[name].priority for name in link.routers})
    for number, priority in enumerate(priorities):
        active = tuple(n for n in link.routers if policy.routers[n].priority >= priority)
        due = link_fair_rates(policy, link.rate_bps, dict.fromkeys(active, math.inf))
        yield LinkLevel(
            nic=link.nic,
            key=f"link:{link.nic}:{number}",
            rate_bps=link.rate_bps,
            expected_bps=due,
            level=tuple(n for n in active if policy.routers[n].priority == priority),
            first=number == 0,
            within_pps=within_pps or {},
        )


def on_link(judge: Judge, link: LinkLevel) -> Iterable[Candidate]:
    """Judge ``rate_min``, ``priority`` and ``link_weight`` on a link."""
    pairs = judge.results.of(link.key)
    got = {
        name: [wire_bps(pair.loaded.routers[name].received_pps, LARGE) for pair in pairs]
        for name in link.expected_bps
    }
    none = None if pairs else judge.results.why_nothing(link.key)
    excuse = _excuse(judge, link, got) if pairs else None
    for claim, promised in _claims(judge.policy, link):
        name, values, relative, why = claim.router, got[claim.router], judge.tolerance.rate, none
        if claim.promise == "link_weight":
            rounds = zip(*(got[other] for other in link.level), strict=True)
            values = [each[link.level.index(name)] / max(1.0, sum(each)) for each in rounds]
            relative = judge.tolerance.link_weight
            why = none or _held_down(judge.policy, name, link.expected_bps[name])
        allowed = relative * judge.tolerance.factor * promised
        found = Candidate(claim, link.key, promised, tuple(values), allowed, why=why, excuse=excuse)
        missed = 2 * found.evidence.kept < len(values)
        yield _explained(judge, link, found) if missed and why is None else found


def _claims(policy: Policy, link: LinkLevel) -> Iterator[tuple[Claim, float]]:
    """Yield what is promised on a link, with its value in bit/s or as a share."""
    for name, due in link.expected_bps.items():
        guaranteed = guaranteed_bps(policy.routers[name])
        if link.first and guaranteed:
            yield Claim(name, "rate_min", f"every router fills {link.nic}", "bps"), guaranteed
        if name in link.level and set(link.expected_bps) > set(link.level):
            yield Claim(name, "priority", f"later priorities fill {link.nic}", "bps"), due
        if name in link.level and len(link.level) > 1:
            part = due / sum(link.expected_bps[n] for n in link.level)
            yield Claim(name, "link_weight", f"its priority fills {link.nic}", "share"), part


def _explained(judge: Judge, link: LinkLevel, found: Candidate) -> Candidate:
    """Say what else than the link may have kept a router below its promise.

    Frames that it lost before the link are no reason if its part of the cores is enough for them.
    """
    name, due_bps = found.claim.router, link.expected_bps[found.claim.router]
    pairs = judge.results.of(link.key)
    sent_bps = wire_bps(median(pair.loaded.routers[name].sent_pps for pair in pairs), LARGE)
    if sent_bps < MORE * due_bps:
        return replace(found, why=f"only {format_bps(sent_bps)} could be offered to {name}")
    if median(pair.loaded.routers[name].lost_at_link for pair in pairs):
        return found
    wanted_bps = found.promised if found.claim.unit == "bps" and found.promised else due_bps
    wanted_pps, can_pps = wanted_bps / wire_bps(1.0, LARGE), link.within_pps.get(name, 0.0)
    if can_pps < ENOUGH * wanted_pps:
        return replace(found, why=found.excuse or BEFORE)
    note = (
        "its frames were lost before the link, although its part of the cores forwards "
        f"{format_pps(can_pps)}"
    )
    return replace(found, note=note)


def _held_down(policy: Policy, name: str, due_bps: float) -> str | None:
    """Say what keeps a router below the share that its link weight gives; None: nothing."""
    if due_bps >= ceiling_bps(policy.routers[name]) - 1:
        return "rate_max keeps it below the share that its weight gives"
    return None


def _excuse(judge: Judge, link: LinkLevel, got: Mapping[str, list[float]]) -> str | None:
    """Say why a link's trials do not put its shares to the test; None if they do."""
    unused = judge.tolerance.unused
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
    pairs = judge.results.of(link.key)
    for name, due in link.expected_bps.items():
        sent = wire_bps(median(pair.loaded.routers[name].sent_pps for pair in pairs), LARGE)
        if sent < MORE * due:
            return f"only {format_bps(sent)} could be offered to {name}"
    return None

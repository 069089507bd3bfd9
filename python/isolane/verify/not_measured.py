"""Names the promises that cannot be measured, as is known before the first trial. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from isolane.enforce.fair_share import Link
from isolane.spec import Policy
from isolane.verify.evidence import Claim, Results
from isolane.verify.judge import Judge
from isolane.verify.judge_link import levels, on_link
from isolane.verify.report_data import Finding, Promise, Tolerance, Unit
from isolane.verify.scenarios import ceilings_of

OF_CORES: Final[tuple[Promise, ...]] = ("cpu_weight", "cpu_max", "retained", "rate_max")


def nothing(
    policy: Policy, name: str, why: str, promises: Sequence[Promise] | None = None
) -> Iterator[Finding]:
    """Yield the promises to a router as not measured: all, or the ones named."""
    router = policy.routers[name]
    found: list[tuple[Promise, str, Unit, float | None]] = [
        ("cpu_weight", "all overloaded", "share", None),
        ("retained", "while others are overloaded", "share", 1.0),
    ]
    if router.cpu_max is not None:
        found.append(("cpu_max", "alone, overloaded", "share", router.cpu_max / 100))
    found += [("rate_max", c.direction, c.unit, c.value) for c in ceilings_of(name, router)]
    if router.rate_min_bps is not None:
        found.append(("rate_min", "every router fills the link", "bps", router.rate_min_bps))
    for promise, about, unit, promised in found:
        if promises is None or promise in promises:
            yield Claim(name, promise, about, unit).not_measured(why, promised)


def link_findings(policy: Policy, link: Link, why: str) -> Iterator[Finding]:
    """Yield all promises on a link as not measured."""
    judge = Judge(policy, Results(), Tolerance())
    for level in levels(policy, link):
        for candidate in on_link(judge, level):
            yield candidate.claim.not_measured(why)

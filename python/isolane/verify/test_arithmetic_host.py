"""A host of arithmetic for verifications: it keeps every promise, unless it is told otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from isolane.enforce.fair_share import ceiling_pps, link_fair_rates, share_out
from isolane.results.invalid import InvalidKind, InvalidReason
from isolane.results.results import DropPoint
from isolane.spec import Policy, parse_policy, wire_bps
from isolane.verify import Finding, Report
from isolane.verify.environment import Environment, Measured, Seen, Trials
from isolane.verify.report_data import Options
from isolane.verify.scenarios import Scenario
from isolane.verify.session import Verification

CORE_PPS = 500_000.0
POLICY = """\
isolane: 1
name: edge
nics: {eth1: {rate: 1Gbps}}
defaults: {cores: [1]}
routers:
  gold: {netns: gold, cpu_weight: 200, rate_min: 200Mbps, priority: 1}
  silver: {netns: silver, rate_min: 100Mbps, link_weight: 3}
  bronze: {netns: bronze, rate_max: {egress: 150Mbps}, link_weight: 1}
  tin: {netns: tin, cpu_max: 15%, link_weight: 1}
"""

Kept = dict[str, float]
COMPILED = InvalidReason(InvalidKind.DISTURBED, "somebody compiled")


@dataclass
class Arithmetic:
    """A host whose routers get exactly what the policy says, unless it is told otherwise."""

    policy: Policy
    weights: Mapping[str, float] = field(default_factory=dict)
    """CPU weights that differ from the policy's."""
    forgets: frozenset[str] = frozenset()
    """Keys of the policy that it does not keep."""
    spoil: Callable[[Scenario, Kept], Kept] = lambda _scenario, kept: kept
    invalid: Callable[[Scenario], tuple[InvalidReason, ...]] = lambda _scenario: ()
    lost_at_link: int = 1
    causes: Mapping[str, float] = field(default_factory=dict)
    """Parts of the core that routers' frames cost the NICs' threads."""
    lost: Mapping[DropPoint, int] = field(default_factory=dict)
    """Of every router, in every trial."""
    withheld: float = 0.0
    """Part of the core that nobody gets while all are overloaded."""
    core_pps: float = CORE_PPS
    max_cores: int | None = 1
    mode: Literal["test bed", "real interfaces"] = "test bed"
    overload_pps: float = 4 * CORE_PPS
    opened: list[tuple[tuple[str, ...], int, float, bool]] = field(default_factory=list)
    now_s: float = 0.0
    """Simulated clock: each trial takes its warm-up, its window and a little more."""

    def clock(self) -> float:
        return self.now_s

    def reaches(self, nic: str) -> bool:
        return nic in self.policy.nics

    @contextmanager
    def open(
        self, routers: tuple[str, ...], *, frame_bytes: int, line_bps: float, fold: bool
    ) -> Iterator[Trials]:
        self.opened.append((routers, frame_bytes, line_bps, fold))
        yield _Trials(self, routers, line_bps)

    def forwarded(self, scenario: Scenario, routers: tuple[str, ...], line_bps: float) -> Kept:
        """What each router forwards, frames/s: CPU first, then its ceilings, then the link."""
        pps = dict.fromkeys(routers, 0.0) | dict(scenario.offered_pps)
        caps = {n: min(1.0, pps[n] / self.core_pps, self._cap(n)) for n in routers}
        weights = {
            n: self.weights.get(n, float(self.policy.routers[n].cpu_weight)) for n in routers
        }
        shares = share_out(weights, caps)
        if scenario.key == "everyone":
            shares = {n: share * (1 - self.withheld) for n, share in shares.items()}
        self.cpu = shares
        pps = {n: min(pps[n], shares[n] * self.core_pps) for n in routers}
        if "rate_max" not in self.forgets:
            for n in routers:
                ceiling = ceiling_pps(self.policy.routers[n], scenario.frame_bytes)
                pps[n] = min(pps[n], pps[n] if ceiling is None else ceiling)
        return self.spoil(scenario, self._on_link(scenario, pps, line_bps))

    def _cap(self, name: str) -> float:
        cap = self.policy.routers[name].cpu_max
        return 1.0 if cap is None or "cpu_max" in self.forgets else cap / 100

    def _on_link(self, scenario: Scenario, pps: Kept, line_bps: float) -> Kept:
        each = wire_bps(1.0, scenario.frame_bytes)
        active = tuple(name for name in pps if pps[name])
        if sum(pps.values()) * each <= line_bps:
            return pps
        if "link" in self.forgets:
            return {name: rate * line_bps / each / sum(pps.values()) for name, rate in pps.items()}
        due = link_fair_rates(self.policy, line_bps, {name: pps[name] * each for name in active})
        return {name: due.get(name, 0.0) / each for name in pps}


@dataclass
class _Trials:
    host: Arithmetic
    routers: tuple[str, ...]
    line_bps: float

    def trial(self, scenario: Scenario, label: str) -> Measured:
        assert label.startswith(scenario.key)
        self.host.now_s += scenario.warmup_ns / 1e9 + 0.45
        kept = self.host.forwarded(scenario, self.routers, self.line_bps)
        idle = 1 - sum(self.host.cpu.values())
        trials = {
            name: Seen(
                scenario.offered_pps.get(name, 0.0),
                scenario.offered_pps.get(name, 0.0),
                pps,
                self.host.cpu[name],
                self.host.cpu[name] + self.host.causes.get(name, 0.0),
                self.host.lost_at_link,
                self.host.causes.get(name, 0.0),
                self.host.lost,
            )
            for name, pps in kept.items()
        }
        return Measured(trials, idle, self.host.invalid(scenario))


def verified(host: Arithmetic, options: Options | None = None) -> Report:
    return Verification(host.policy, host, options or Options(), clock=host.clock).execute()


def found(report: Report, router: str, promise: str, about: str = "") -> Finding:
    (finding,) = [
        f
        for f in report.findings
        if (f.router, f.promise) == (router, promise) and about in f.about
    ]
    return finding


def test_a_stand_in_is_a_test_environment() -> None:
    environment: Environment = Arithmetic(parse_policy(POLICY))
    assert environment.max_cores == 1

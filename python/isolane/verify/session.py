"""A verification: measures all scenarios in several rounds, then judges the promises."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from isolane.enforce.fair_share import Link, groups_sharing_cores, link_fair_rates
from isolane.errors import MeasurementError
from isolane.run.runner import Step
from isolane.spec import Policy, RouterPolicy, wire_bps
from isolane.spec.policy_models import ALONE
from isolane.verify import scenarios as s
from isolane.verify.environment import Environment, Trials
from isolane.verify.judge import Claim, Judge, LinkLevel, Results, on_link
from isolane.verify.mirror import cores_of, links_of, whole_line_bps
from isolane.verify.report_data import Finding, Options, Promise, Report, Tolerance, Unit
from isolane.verify.scenarios import LARGE, SMALL, Capacity, Ceiling, Scenario

MAX_ROUTERS = 64
"""Routers in one test bed."""
AGAIN = 3
"""A scenario is tried up to this many times its repeats to get enough valid trials."""
CONFIRM = 3
"""A promise is called broken only after this many times the repeats."""
OF_CORES: Final[tuple[Promise, ...]] = ("cpu_weight", "cpu_max", "retained", "rate_max")
GUEST = "a virtual machine cannot be mirrored in a test bed"


@dataclass
class Verification:
    """One verification of one policy.

    Parameters
    ----------
    policy
        The policy whose promises are measured.
    environment
        The test environment.
    watch
        Called before every trial.
    """

    policy: Policy
    environment: Environment
    options: Options = field(default_factory=Options)
    watch: Callable[[Step], None] = lambda _step: None
    absent: Mapping[str, str] = field(default_factory=dict)
    """Routers that cannot be measured, and why."""
    _findings: list[Finding] = field(default_factory=list)
    _trials: int = 0
    _invalid: int = 0

    def execute(self) -> Report:
        """Measure all promises.

        Raises
        ------
        MeasurementError
            If there are more routers than a test bed takes, or a trial cannot be finished.
        NotSupported
            If the test environment cannot be set up on this host.
        """
        names = tuple(self.policy.routers)
        absent = dict(self.absent)
        if self.environment.mode == "test bed":
            guests = [name for name in names if self.policy.routers[name].is_guest]
            absent |= dict.fromkeys(guests, GUEST)
        for name, why in absent.items():
            self._findings += nothing(self.policy, name, why)
        names = tuple(name for name in names if name not in absent)
        if len(names) > MAX_ROUTERS:
            raise MeasurementError(
                f"the policy has {len(names)} routers, and a test bed takes {MAX_ROUTERS} at most; "
                "verify it in parts, or between real interfaces (--from, --to)"
            )
        links, unknown = links_of(self.policy, names)
        for part in self._parts(names):
            self._of_cores(part, links)
        for nic, link in links.items():
            if not self.environment.reaches(nic):
                unknown[nic] = (
                    f"frames that leave by {nic} do not reach the receiver (--nic names its NIC)"
                )
            if nic in unknown:
                self._findings += link_findings(self.policy, link, unknown[nic])
            else:
                self._of_link(link)
        return Report(
            policy=self.policy.name,
            mode=self.environment.mode,
            findings=_in_order(self.policy, self._findings),
            trials=self._trials,
            trials_without_verdict=self._invalid,
            repeats=self.options.repeats,
            window_s=self.options.window_ns / 1e9,
            notes=tuple(self._notes(names)),
        )

    def _parts(self, names: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
        """Divide the routers into groups that fit the test environment's cores."""
        limit = self.environment.max_cores
        if limit is None or max(1, len(cores_of(self.policy, names))) <= limit:
            return (names,) if names else ()
        return groups_sharing_cores(self.policy, names)

    def _notes(self, names: tuple[str, ...]) -> Iterator[str]:
        if self.environment.mode != "test bed":
            return
        alone = [name for name in names if self.policy.routers[name].identity[0] in ALONE]
        if alone:
            yield (
                f"{', '.join(alone)} have an interface to themselves; in the test bed they share a "
                "wire and are told apart by their MAC addresses"
            )

    def _of_cores(self, names: tuple[str, ...], links: dict[str, Link]) -> None:
        """Measure the promises on CPU time and the ceilings, in one test bed."""
        cores, limit = max(1, len(cores_of(self.policy, names))), self.environment.max_cores
        if limit is not None and cores > limit:
            why = f"{cores} cores for the routers and one to measure: this host has {limit + 1}"
            for name in names:
                self._findings += nothing(self.policy, name, why, OF_CORES)
            return
        judge = Judge(self.policy, Results(), self.options.tolerance)
        wanted = [c for n in names for c in s.ceilings_of(n, self.policy.routers[n])]
        line_bps = whole_line_bps(self.policy)
        with self.environment.open(
            names, frame_bytes=SMALL, line_bps=line_bps, fold=False
        ) as trials:
            self._about_cpu(trials, names, links.values(), judge)
            self._about_ceilings(trials, [c for c in wanted if c.frame_bytes == SMALL], judge)
        large = [ceiling for ceiling in wanted if ceiling.frame_bytes == LARGE]
        if large:
            with self.environment.open(
                names, frame_bytes=LARGE, line_bps=line_bps, fold=False
            ) as trials:
                self._about_ceilings(trials, large, judge)

    def _about_cpu(
        self, trials: Trials, names: tuple[str, ...], links: Iterable[Link], judge: Judge
    ) -> None:
        """Measure each router alone, all overloaded, and each as the aggressor."""
        results, flood = judge.results, self.environment.overload_pps
        alone = [each(name, flood) for name in names for each in (s.alone, s.brisk)]
        self._rounds(trials, results, alone)
        capped = list(self._capped(results, names))
        self._measure_and_judge(
            trials, judge, capped, lambda: (f for n in names for f in judge.cpu_max(n))
        )
        alone_pps = {name: _median(results.received_pps(f"alone:{name}", name)) for name in names}
        silent = next((name for name, pps in alone_pps.items() if not pps), None)
        if silent is not None:
            why = f"{silent} forwarded no frame although it was alone"
            if results.lacks(f"alone:{silent}", 1):
                why = results.why_nothing(f"alone:{silent}")
            for name in names:
                self._findings += nothing(self.policy, name, why, ("cpu_weight", "retained"))
            return
        brisk = (_median(results.received_pps(f"brisk:{name}", name)) for name in names)
        capacity = s.capacity_of(self.policy, alone_pps, max(*alone_pps.values(), *brisk))
        crowd = [s.everyone(capacity)] if len(names) > 1 else []
        self._measure_and_judge(trials, judge, crowd, lambda: judge.cpu_weight(capacity))
        if crowd:
            self._attacks(trials, capacity, tuple(links), judge)

    def _attacks(
        self, trials: Trials, capacity: Capacity, links: tuple[Link, ...], judge: Judge
    ) -> None:
        """Make each router the aggressor in turn."""
        names = tuple(capacity.within_pps)
        served = {name: _median(judge.results.received_pps("everyone", name)) for name in names}
        within = s.limited_to(capacity, {name: pps for name, pps in served.items() if pps})
        attacks = [s.attack(self.policy, name, within, links) for name in names]
        quiet = [s.quiet(n, a) for a in attacks for n in names if n not in a.overloaded]
        baselines = {scenario.key: scenario for scenario in quiet}.values()
        self._measure_and_judge(
            trials,
            judge,
            [*baselines, *attacks],
            lambda: (f for attack in attacks for f in judge.retained(within, attack)),
        )

    def _capped(self, results: Results, names: Iterable[str]) -> Iterator[Scenario]:
        """Yield the scenarios that test ``cpu_max``, from the cost of a frame when alone."""
        for name in names:
            cap = self.policy.routers[name].cpu_max
            received = _median(results.received_pps(f"alone:{name}", name))
            cpu = _median(results.cpu(f"alone:{name}", name))
            if cap is not None and received and cpu:
                yield s.capped(name, cap / 100, received / cpu)

    def _about_ceilings(self, trials: Trials, wanted: Sequence[Ceiling], judge: Judge) -> None:
        """Measure the ceilings that are tested with frames of one size."""
        routers = self.policy.routers
        hidden = {ceiling: _hidden(routers[ceiling.router], ceiling) for ceiling in wanted}
        settings = [s.above(c, routers[c.router].burst) for c in wanted if not hidden[c]]
        self._measure_and_judge(
            trials, judge, settings, lambda: (judge.rate_max(c, hidden[c]) for c in wanted)
        )

    def _of_link(self, link: Link) -> None:
        """Measure the promises on a link, one priority after the other."""
        rate_bps = link.rate_bps
        judge = Judge(self.policy, Results(), self.options.tolerance)
        levels = list(_levels(self.policy, link))
        settings = [
            s.link(link.nic, number, level.expected_bps, rate_bps)
            for number, level in enumerate(levels)
        ]
        limit = self.environment.max_cores
        fold = limit is not None and len(cores_of(self.policy, link.routers)) > limit
        with self.environment.open(
            link.routers, frame_bytes=LARGE, line_bps=rate_bps, fold=fold
        ) as trials:
            self._measure_and_judge(
                trials, judge, settings, lambda: (f for lv in levels for f in on_link(judge, lv))
            )

    def _measure_and_judge(
        self,
        trials: Trials,
        judge: Judge,
        settings: Sequence[Scenario],
        judged: Callable[[], Iterable[Finding]],
    ) -> None:
        """Measure and judge; measure again before a promise is called broken."""
        self._rounds(trials, judge.results, settings)
        found = list(judged())
        if any(finding.verdict == "broken" for finding in found):
            self._rounds(trials, judge.results, settings, CONFIRM * self.options.repeats)
            found = list(judged())
        self._findings += found

    def _rounds(
        self,
        trials: Trials,
        results: Results,
        settings: Sequence[Scenario],
        repeats: int | None = None,
    ) -> None:
        """Measure all scenarios in turn, in several rounds, so that drift affects all alike.

        A trial without a verdict is repeated a few times: a busy host is not always busy.
        """
        repeats = repeats or self.options.repeats
        for turn in range(repeats * AGAIN):
            due = min(turn + 1, repeats)
            wanted = [scenario for scenario in settings if results.lacks(scenario.key, due)]
            for scenario in wanted:
                done = sum(len(results.good.get(other.key, [])) for other in settings)
                self.watch(Step(done, repeats * len(settings), scenario.key))
                measured = trials.trial(scenario, f"{scenario.key}:{turn}")
                results.add(scenario.key, measured)
                self._trials += 1
                self._invalid += bool(measured.invalid)


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
    found += [("rate_max", c.direction, c.unit, c.value) for c in s.ceilings_of(name, router)]
    if router.rate_min_bps is not None:
        found.append(("rate_min", "every router fills the link", "bps", router.rate_min_bps))
    for promise, about, unit, promised in found:
        if promises is None or promise in promises:
            yield Claim(name, promise, about, unit).not_measured(why, promised)


def link_findings(policy: Policy, link: Link, why: str) -> Iterator[Finding]:
    """Yield all promises on a link as not measured."""
    for level in _levels(policy, link):
        results = Results()
        results.invalid[level.key].append(why)
        judge = Judge(policy, results, Tolerance())
        for finding in on_link(judge, level):
            yield finding.model_copy(update={"why": why, "promised": None})


def _levels(policy: Policy, link: Link) -> Iterator[LinkLevel]:
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
        )


def _hidden(router: RouterPolicy, ceiling: Ceiling) -> str | None:
    """Say which lower ceiling of a router hides this one; None if it can be seen."""
    for other in s.ceilings_of(ceiling.router, router):
        factor = 1.0 if other.unit == "pps" else 1 / wire_bps(1.0, ceiling.frame_bytes)
        if other != ceiling and other.value * factor < 0.98 * ceiling.pps:
            return f"it reaches its {other.direction} ceiling in {other.unit} first"
    return None


def _in_order(policy: Policy, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    order = {name: number for number, name in enumerate(policy.routers)}
    return tuple(sorted(findings, key=lambda finding: order[finding.router]))


def _median(values: Sequence[float]) -> float:
    return median(values) if values else 0.0

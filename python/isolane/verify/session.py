"""A verification: scenarios round after round, then findings."""

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
from isolane.verify.environment import Place, Trials
from isolane.verify.judge import Claim, Judge, LinkLevel, Results, on_link
from isolane.verify.mirror import cores_of, links_of, whole_line_bps
from isolane.verify.report_data import Finding, Options, Promise, Report, Tolerance, Unit
from isolane.verify.scenarios import LARGE, SMALL, Capacity, Ceiling, Scenario

MAX_ROUTERS = 64
"""In one test bed."""
AGAIN = 3
"""Times the repeats that a scenario is tried until so many of its trials give a verdict."""
CONFIRM = 3
"""Times the repeats that a scenario is measured in all before a promise is called broken."""
OF_CORES: Final[tuple[Promise, ...]] = ("cpu_weight", "cpu_max", "retained", "rate_max")
GUEST = "a virtual machine cannot be mirrored in a test bed"


@dataclass
class Verification:
    """One verification of one policy.

    Parameters
    ----------
    policy
        What is promised.
    place
        Where it is measured.
    watch
        Is told of every trial.
    """

    policy: Policy
    place: Place
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
            If the place lacks what it needs.
        """
        names = tuple(self.policy.routers)
        absent = dict(self.absent)
        if self.place.mode == "test bed":
            guests = [name for name in names if self.policy.routers[name].is_guest]
            absent |= dict.fromkeys(guests, GUEST)
        for name, why in absent.items():
            self._findings += nothing(self.policy, name, why)
        names = tuple(name for name in names if name not in absent)
        if len(names) > MAX_ROUTERS:
            raise MeasurementError(
                f"the policy has {len(names)} routers, and a test bed takes {MAX_ROUTERS} at most"
            )
        links, unknown = links_of(self.policy, names)
        for part in self._parts(names):
            self._of_cores(part, links)
        for nic, link in links.items():
            if not self.place.reaches(nic):
                unknown[nic] = f"what leaves by {nic} does not come to the receiver (--nic)"
            if nic in unknown:
                self._findings += link_findings(self.policy, link, unknown[nic])
            else:
                self._of_link(link)
        return Report(
            policy=self.policy.name,
            mode=self.place.mode,
            findings=_in_order(self.policy, self._findings),
            trials=self._trials,
            trials_without_verdict=self._invalid,
            repeats=self.options.repeats,
            window_s=self.options.window_ns / 1e9,
            notes=tuple(self._notes(names)),
        )

    def _parts(self, names: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
        """Divide the routers into those that are loaded together."""
        most = self.place.most_cores
        if most is None or max(1, len(cores_of(self.policy, names))) <= most:
            return (names,) if names else ()
        return groups_sharing_cores(self.policy, names)

    def _notes(self, names: tuple[str, ...]) -> Iterator[str]:
        if self.place.mode != "test bed":
            return
        alone = [name for name in names if self.policy.routers[name].identity[0] in ALONE]
        if alone:
            yield (
                f"{', '.join(alone)} have an interface to themselves; in the test bed they share a "
                "wire and are told apart by their MAC addresses"
            )

    def _of_cores(self, names: tuple[str, ...], links: dict[str, Link]) -> None:
        """Measure what is about CPU time, and ceilings, in one bed."""
        cores, most = max(1, len(cores_of(self.policy, names))), self.place.most_cores
        if most is not None and cores > most:
            why = (
                f"{cores} cores for the routers and one to measure are needed, {most + 1} are here"
            )
            for name in names:
                self._findings += nothing(self.policy, name, why, OF_CORES)
            return
        judge = Judge(self.policy, Results(), self.options.tolerance)
        wanted = [c for n in names for c in s.ceilings_of(n, self.policy.routers[n])]
        line_bps = whole_line_bps(self.policy)
        with self.place.open(names, frame_bytes=SMALL, line_bps=line_bps, fold=False) as trials:
            self._about_cpu(trials, names, links.values(), judge)
            self._about_ceilings(trials, [c for c in wanted if c.frame_bytes == SMALL], judge)
        large = [ceiling for ceiling in wanted if ceiling.frame_bytes == LARGE]
        if large:
            with self.place.open(names, frame_bytes=LARGE, line_bps=line_bps, fold=False) as trials:
                self._about_ceilings(trials, large, judge)

    def _about_cpu(
        self, trials: Trials, names: tuple[str, ...], links: Iterable[Link], judge: Judge
    ) -> None:
        """Measure each router alone, all overloaded, and each as the aggressor."""
        results, flood = judge.results, self.place.overload_pps
        alone = [each(name, flood) for name in names for each in (s.alone, s.brisk)]
        self._rounds(trials, results, alone)
        capped = list(self._capped(results, names))
        self._settle(trials, judge, capped, lambda: (f for n in names for f in judge.cpu_max(n)))
        alone_pps = {name: _median(results.received_pps(f"alone:{name}", name)) for name in names}
        silent = next((name for name, pps in alone_pps.items() if not pps), None)
        if silent is not None:
            why = f"{silent} forwarded nothing when it was alone"
            if results.lacks(f"alone:{silent}", 1):
                why = results.why_nothing(f"alone:{silent}")
            for name in names:
                self._findings += nothing(self.policy, name, why, ("cpu_weight", "retained"))
            return
        brisk = (_median(results.received_pps(f"brisk:{name}", name)) for name in names)
        capacity = s.capacity_of(self.policy, alone_pps, max(*alone_pps.values(), *brisk))
        crowd = [s.everyone(capacity)] if len(names) > 1 else []
        self._settle(trials, judge, crowd, lambda: judge.cpu_weight(capacity))
        if crowd:
            self._attacks(trials, capacity, tuple(links), judge)

    def _attacks(
        self, trials: Trials, capacity: Capacity, links: tuple[Link, ...], judge: Judge
    ) -> None:
        """Make each router the aggressor in turn."""
        names = tuple(capacity.within_pps)
        served = {name: _median(judge.results.received_pps("everyone", name)) for name in names}
        within = s.at_most(capacity, {name: pps for name, pps in served.items() if pps})
        attacks = [s.attack(self.policy, name, within, links) for name in names]
        quiet = [s.quiet(n, a) for a in attacks for n in names if n not in a.overloaded]
        baselines = {scenario.key: scenario for scenario in quiet}.values()
        self._settle(
            trials,
            judge,
            [*baselines, *attacks],
            lambda: (f for attack in attacks for f in judge.retained(within, attack)),
        )

    def _capped(self, results: Results, names: Iterable[str]) -> Iterator[Scenario]:
        """Yield what tests the caps, by what each router's frames cost when it was alone."""
        for name in names:
            most = self.policy.routers[name].cpu_max
            received = _median(results.received_pps(f"alone:{name}", name))
            cpu = _median(results.cpu(f"alone:{name}", name))
            if most is not None and received and cpu:
                yield s.capped(name, most / 100, received / cpu)

    def _about_ceilings(self, trials: Trials, wanted: Sequence[Ceiling], judge: Judge) -> None:
        """Measure ceilings that are tested with frames of one size."""
        routers = self.policy.routers
        hidden = {ceiling: _hidden(routers[ceiling.router], ceiling) for ceiling in wanted}
        settings = [s.above(c, routers[c.router].burst) for c in wanted if not hidden[c]]
        self._settle(
            trials, judge, settings, lambda: (judge.rate_max(c, hidden[c]) for c in wanted)
        )

    def _of_link(self, link: Link) -> None:
        """Measure what is about a link, priority after priority."""
        rate_bps = link.rate_bps
        judge = Judge(self.policy, Results(), self.options.tolerance)
        levels = list(_levels(self.policy, link))
        settings = [
            s.link(link.nic, number, level.expected_bps, rate_bps)
            for number, level in enumerate(levels)
        ]
        most = self.place.most_cores
        fold = most is not None and len(cores_of(self.policy, link.routers)) > most
        with self.place.open(
            link.routers, frame_bytes=LARGE, line_bps=rate_bps, fold=fold
        ) as trials:
            self._settle(
                trials, judge, settings, lambda: (f for lv in levels for f in on_link(judge, lv))
            )

    def _settle(
        self,
        trials: Trials,
        judge: Judge,
        settings: Sequence[Scenario],
        judged: Callable[[], Iterable[Finding]],
    ) -> None:
        """Measure and judge; what looks broken is measured again before it is said."""
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
        """Go through all scenarios, as often as asked for: drift hits all alike.

        Trials without a verdict are made again, a few times: a busy host has quiet moments.
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
    """Yield promises to a router as not measured: all that it has, or those that are named."""
    router = policy.routers[name]
    found: list[tuple[Promise, str, Unit, float | None]] = [
        ("cpu_weight", "all overloaded", "share", None),
        ("retained", "while others are overloaded", "share", 1.0),
    ]
    if router.cpu_max is not None:
        found.append(("cpu_max", "alone, overloaded", "share", router.cpu_max / 100))
    found += [("rate_max", c.direction, c.unit, c.value) for c in s.ceilings_of(name, router)]
    if router.rate_min_bps is not None:
        found.append(("rate_min", "all want all of the link", "bps", router.rate_min_bps))
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
    """Yield the priorities of a link, the first first."""
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
            return f"its {other.direction} ceiling in {other.unit} is reached before"
    return None


def _in_order(policy: Policy, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    order = {name: number for number, name in enumerate(policy.routers)}
    return tuple(sorted(findings, key=lambda finding: order[finding.router]))


def _median(values: Sequence[float]) -> float:
    return median(values) if values else 0.0

"""A verification: sets up what each stage needs, measures, and decides all promises together."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from isolane.enforce.fair_share import Link, groups_sharing_cores
from isolane.errors import MeasurementError
from isolane.spec import Policy
from isolane.spec.policy_models import ALONE
from isolane.stats.sequential import ERROR_RATE, pairs_needed
from isolane.verify.core_stage import (
    CoreStage,
    ceilings_with,
    patterns_of,
    planned_ceilings_s,
    planned_small_s,
    size_of_cores,
)
from isolane.verify.environment import Environment, Trials
from isolane.verify.evidence import Results, Table
from isolane.verify.judge import Judge
from isolane.verify.judge_link import LinkLevel, levels, on_link
from isolane.verify.mirror import cores_of, links_of, whole_line_bps
from isolane.verify.not_measured import OF_CORES, link_findings, nothing
from isolane.verify.pace import BUILD_S, Pace, Progress, trial_s, usual_limit_s
from isolane.verify.report_data import Crowd, Finding, Options, Report
from isolane.verify.rounds import Rounds
from isolane.verify.scenarios import LARGE, Comparison, link

MAX_ROUTERS = 64
"""Routers in one test bed."""
GUEST = "a virtual machine cannot be mirrored in a test bed"


@dataclass(frozen=True)
class Stage:
    """A part of the verification, in test beds of its own."""

    planned_s: float
    """Time that it needs at least."""
    run: Callable[[], None]


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
        Called before every pair, and before every trial of a search.
    absent
        Routers that cannot be measured, and why.
    clock
        Seconds since whenever.
    """

    policy: Policy
    environment: Environment
    options: Options = field(default_factory=Options)
    watch: Callable[[Progress], None] = lambda _progress: None
    absent: Mapping[str, str] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic

    def execute(self) -> Report:
        """Measure all promises.

        Raises
        ------
        MeasurementError
            If there are more routers than a test bed takes, or a trial cannot be finished.
        NotSupported
            If the test environment cannot be set up on this host.
        """
        absent = dict(self.absent)
        if self.environment.mode == "test bed":
            guests = [name for name, router in self.policy.routers.items() if router.is_guest]
            absent |= dict.fromkeys(guests, GUEST)
        names = tuple(name for name in self.policy.routers if name not in absent)
        if len(names) > MAX_ROUTERS:
            raise MeasurementError(
                f"the policy has {len(names)} routers, and a test bed takes {MAX_ROUTERS} at most; "
                "verify it in parts, or between real interfaces (--from, --to)"
            )
        work = _Work(self, names)
        for name, why in absent.items():
            work.findings += nothing(self.policy, name, why)
        return work.report()


class _Work:
    """A verification that is under way."""

    def __init__(self, asked: Verification, names: tuple[str, ...]) -> None:
        self.asked = asked
        self.names = names
        self.findings: list[Finding] = []
        """Of promises that cannot be measured, as is known beforehand."""
        self._crowds: list[Crowd] = []
        self._within_pps: dict[str, float] = {}
        self._rounds: list[Rounds] = []
        self._patterns = len(patterns_of(asked.options))
        self._links, self._unknown = links_of(asked.policy, names)

    def report(self) -> Report:
        """Carry out all stages and return the report."""
        asked, options = self.asked, self.asked.options
        parts = [part for part in self._parts() if self._fits(part)]
        links = [link for link in self._links.values() if self._is_reached(link)]
        self._table = Table(self._size(parts, links))
        self._needed = pairs_needed(self._table.size)
        stages = [stage for part in parts for stage in self._of_cores(part)]
        stages += [self._of_link(link) for link in links]
        planned_s = [stage.planned_s for stage in stages]
        limit_s = options.time_limit_s or usual_limit_s(planned_s)
        self._pace = Pace(planned_s, limit_s, asked.watch, asked.clock)
        for stage in stages:
            self._pace.begin_stage()
            stage.run()
        findings = [*self.findings, *self._table.findings()]
        order = {name: number for number, name in enumerate(asked.policy.routers)}
        return Report(
            policy=asked.policy.name,
            mode=asked.environment.mode,
            findings=tuple(sorted(findings, key=lambda finding: order[finding.router])),
            trials=sum(rounds.made for rounds in self._rounds),
            trials_without_verdict=sum(rounds.invalid for rounds in self._rounds),
            window_s=options.window_ns / 1e9,
            took_s=self._pace.took_s(),
            time_limit_s=limit_s,
            seed=options.seed,
            error_rate=ERROR_RATE,
            crowds=tuple(self._crowds),
            notes=tuple(self._notes()),
        )

    def _parts(self) -> tuple[tuple[str, ...], ...]:
        """Divide the routers into groups that fit the test environment's cores."""
        policy, limit = self.asked.policy, self.asked.environment.max_cores
        if limit is None or max(1, len(cores_of(policy, self.names))) <= limit:
            return (self.names,) if self.names else ()
        return groups_sharing_cores(policy, self.names)

    def _fits(self, part: tuple[str, ...]) -> bool:
        """Tell whether this host has the cores of a part; else name its promises."""
        cores, limit = len(cores_of(self.asked.policy, part)), self.asked.environment.max_cores
        if limit is None or max(1, cores) <= limit:
            return True
        why = f"{cores} cores for the routers and one to measure: this host has {limit + 1}"
        for name in part:
            self.findings += nothing(self.asked.policy, name, why, OF_CORES)
        return False

    def _is_reached(self, link: Link) -> bool:
        """Tell whether a link can be measured; else name its promises."""
        why = self._unknown.get(link.nic)
        if not self.asked.environment.reaches(link.nic):
            why = f"frames that leave by {link.nic} do not reach the receiver (--nic names its NIC)"
        if why is not None:
            self.findings += link_findings(self.asked.policy, link, why)
        return why is None

    def _size(self, parts: list[tuple[str, ...]], links: list[Link]) -> int:
        """Return how many promises can be measured at most."""
        policy = self.asked.policy
        judge = Judge(policy, Results(), self.asked.options.tolerance)
        of_links = (len(list(on_link(judge, lv))) for link in links for lv in levels(policy, link))
        of_cores = (size_of_cores(policy, part, self._patterns) for part in parts)
        return max(1, sum(of_cores) + sum(of_links))

    def _of_cores(self, part: tuple[str, ...]) -> Iterator[Stage]:
        """Yield the stages for the promises on CPU time and the ceilings."""
        asked, policy, needed = self.asked, self.asked.policy, self._needed
        links, window_ns = tuple(self._links.values()), asked.options.window_ns
        stage = CoreStage(policy, part, links, asked.environment, asked.options, self._new_rounds)
        line_bps = whole_line_bps(policy)

        def small() -> None:
            stage.run_small(line_bps)
            self._crowds += stage.crowds
            self._within_pps |= stage.within_pps

        planned_s = planned_small_s(policy, part, window_ns, needed, self._patterns)
        yield Stage(planned_s, small)
        ceilings = ceilings_with(policy, part, LARGE)
        if ceilings:
            planned_s = planned_ceilings_s(policy, ceilings, window_ns, needed)
            yield Stage(planned_s, lambda: stage.run_large(line_bps))

    def _of_link(self, which: Link) -> Stage:
        """Return the stage for the promises on a link."""
        window_ns = self.asked.options.window_ns
        each = (trial_s(c.loaded, window_ns) for c in self._of_levels(which))
        return Stage(BUILD_S + self._needed * sum(each), lambda: self._link(which))

    def _of_levels(self, which: Link) -> list[Comparison]:
        return [
            Comparison(link(which.nic, number, level.expected_bps, which.rate_bps))
            for number, level in enumerate(levels(self.asked.policy, which))
        ]

    def _new_rounds(self, trials: Trials) -> Rounds:
        options = self.asked.options
        # Each stage has an order of its own, whatever the stages before it needed.
        order = random.Random(f"{options.seed}:{len(self._rounds)}")  # noqa: S311 - no secret
        made = Rounds(trials, self._table, self._pace, options.window_ns, order)
        self._rounds.append(made)
        return made

    def _link(self, which: Link) -> None:
        """Measure the promises on a link, one priority after the other."""
        asked = self.asked
        limit = asked.environment.max_cores
        fold = limit is not None and len(cores_of(asked.policy, which.routers)) > limit
        within = {} if fold else self._within_pps
        of_link: list[LinkLevel] = list(levels(asked.policy, which, within))
        with asked.environment.open(
            which.routers, frame_bytes=LARGE, line_bps=which.rate_bps, fold=fold
        ) as trials:
            rounds = self._new_rounds(trials)
            judge = Judge(asked.policy, rounds.results, asked.options.tolerance)
            rounds.measure(
                self._of_levels(which), lambda: [c for lv in of_link for c in on_link(judge, lv)]
            )

    def _notes(self) -> Iterator[str]:
        if self.asked.environment.mode != "test bed":
            return
        routers = self.asked.policy.routers
        alone = [name for name in self.names if routers[name].identity[0] in ALONE]
        if alone:
            yield (
                f"{', '.join(alone)} have an interface to themselves; in the test bed they share a "
                "wire and are told apart by their MAC addresses"
            )

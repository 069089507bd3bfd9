"""Measures what a policy promises on cores: in a test bed, or on the running routers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from isolane.enforce.fair_share import Link
from isolane.spec import Policy, RouterPolicy, wire_bps
from isolane.spec.patterns import PLAIN, Pattern
from isolane.stats.sequential import median_interval
from isolane.verify import scenarios as s
from isolane.verify.environment import Environment, Trials
from isolane.verify.evidence import Candidate, Claim
from isolane.verify.forwarding import Alone, Forwarded, max_forwarding_rate
from isolane.verify.judge import Judge
from isolane.verify.pace import BUILD_S, trial_s
from isolane.verify.promised_rates import SMALL, Capacity, capacity_of, is_capped
from isolane.verify.report_data import Crowd, Options
from isolane.verify.rounds import Rounds
from isolane.verify.scenarios import LARGE, Ceiling, Comparison

SEARCH_TRIALS, NEAR_TRIALS = 12, 6
"""Trials that the search for a maximum forwarding rate takes: the first, and those that follow."""
RECENT = 3
"""Trials of one router alone whose median shows the present speed of the machine."""
SPEEDS = (0.25, 4.0)
"""The machine's speed, compared with the search, is taken to stay within these."""
MIN_CROWD = 0.98
"""Part of the cores that the routers' shares must add up to for their sum to mean something."""


def patterns_of(options: Options) -> tuple[Pattern, ...]:
    """Return the traffic patterns that routers are overloaded by."""
    return s.PATTERNS if options.thorough else (PLAIN,)


def size_of_cores(policy: Policy, names: Sequence[str], patterns: int = 1) -> int:
    """Return how many promises on cores some routers have at most, against so many patterns."""
    routers = [policy.routers[name] for name in names]
    ceilings = sum(len(s.ceilings_of("", router)) for router in routers)
    caps = sum(router.cpu_max is not None for router in routers)
    others = len(names) - 1
    shared = len(names) * (1 + patterns * others) if others else 0  # a share; against each other
    return shared + caps + ceilings


def ceilings_with(policy: Policy, names: Sequence[str], frame_bytes: int) -> list[Ceiling]:
    """Return the ceilings of some routers that are tested with frames of this size."""
    every = (c for name in names for c in s.ceilings_of(name, policy.routers[name]))
    return [ceiling for ceiling in every if ceiling.frame_bytes == frame_bytes]


def planned_small_s(
    policy: Policy, names: Sequence[str], window_ns: int, needed: int, patterns: int = 1
) -> float:
    """Return the time that what is tested with small frames needs if all pairs agree, s."""
    n = len(names)
    each = trial_s(s.alone("", 1.0), window_ns)
    crowd = 2 * (patterns * n + 1) if n > 1 else 0
    caps = sum(policy.routers[name].cpu_max is not None for name in names)
    search = SEARCH_TRIALS + NEAR_TRIALS * (n - 1)
    above = planned_ceilings_s(policy, ceilings_with(policy, names, SMALL), window_ns, needed)
    return search * each + needed * (crowd + caps) * each + above


def planned_ceilings_s(
    policy: Policy, ceilings: Sequence[Ceiling], window_ns: int, needed: int
) -> float:
    """Return the time that ceilings need if all trials agree, with a test bed of their own, s."""
    above = (s.above(ceiling, policy.routers[ceiling.router].burst) for ceiling in ceilings)
    return BUILD_S + needed * sum(trial_s(scenario, window_ns) for scenario in above)


class CoreStage:
    """The promises on CPU time and the ceilings of routers that are measured together."""

    def __init__(
        self,
        policy: Policy,
        names: tuple[str, ...],
        links: tuple[Link, ...],
        environment: Environment,
        options: Options,
        new_rounds: Callable[[Trials], Rounds],
    ) -> None:
        self._patterns = patterns_of(options)
        self._policy = policy
        self._names = names
        self._links = links
        self._environment = environment
        self._tolerance = options.tolerance
        self._new_rounds = new_rounds
        self.crowds: list[Crowd] = []
        """What overload costs the routers of each group."""
        self.within_pps: dict[str, float] = {}
        """Small frames/s that the policy promises each router."""

    def run_small(self, line_bps: float) -> None:
        """Measure what small frames test; line_bps: rate of the test bed's wire."""
        with self._environment.open(
            self._names, frame_bytes=SMALL, line_bps=line_bps, fold=False
        ) as trials:
            self._with_small(trials, ceilings_with(self._policy, self._names, SMALL))

    def run_large(self, line_bps: float) -> None:
        """Measure the ceilings that large frames test."""
        ceilings = ceilings_with(self._policy, self._names, LARGE)
        with self._environment.open(
            self._names, frame_bytes=LARGE, line_bps=line_bps, fold=False
        ) as trials:
            rounds = self._new_rounds(trials)
            judge = Judge(self._policy, rounds.results, self._tolerance)
            rounds.measure(self._above(ceilings), lambda: self._of_ceilings(judge, ceilings))

    def _with_small(self, trials: Trials, ceilings: list[Ceiling]) -> None:
        """Measure all that is tested with small frames, in the same shuffled rounds."""
        rounds = self._new_rounds(trials)
        judge = Judge(self._policy, rounds.results, self._tolerance)
        alone = self._search(rounds)
        comparisons = [*self._capped(alone), *self._above(ceilings)]
        crowd = None
        why = self._why_no_crowd(rounds, alone)
        if why is None:
            crowd = _Crowd.of(
                judge,
                {n: a for n, a in alone.items() if a},
                self._links,
                self._environment,
                self._patterns,
            )
            comparisons = [crowd.everyone, *crowd.attacks, *comparisons]
        else:
            rounds.table.close(self._without_crowd(why))

        def judged() -> list[Candidate]:
            caps = (c for n in alone for c in judge.cpu_max(n, _why_no_cap(rounds, n, alone[n])))
            of_crowd = crowd.candidates() if crowd else ()
            return [*of_crowd, *caps, *self._of_ceilings(judge, ceilings)]

        rounds.measure(comparisons, judged, crowd.speed if crowd else lambda: 1.0)
        if crowd:
            self.within_pps = dict(crowd.capacity.within_pps)
            self.crowds = list(crowd.costs())

    def _search(self, rounds: Rounds) -> dict[str, Alone | None]:
        """Return what each router forwards alone; None where no trial was valid."""
        found: dict[str, Alone | None] = {}
        flood = self._environment.overload_pps
        near: dict[str, float] = {}
        for name in self._names:
            router = self._policy.routers[name]
            # A capped router forwards most at another load than the others.
            kind = name if is_capped(router) else router.forward

            def trial(load_pps: float, name: str = name) -> Forwarded | None:
                rounds.pace.tell(f"alone:{name}")
                seen = rounds.valid(f"alone:{name}", s.alone(name, load_pps))
                if seen is None:
                    return None
                return Forwarded(seen.routers[name].received_pps, seen.routers[name].cpu)

            found[name] = each = max_forwarding_rate(trial, flood, near.get(kind))
            if each is not None and each.pps:
                near[kind] = each.load_pps
        return found

    def _why_no_crowd(self, rounds: Rounds, alone: Mapping[str, Alone | None]) -> str | None:
        """Say why nothing can be told about several routers; None: it can."""
        if len(alone) == 1:
            return "no other router shares its cores"
        unknown = next((name for name, each in alone.items() if each is None), None)
        if unknown is not None:
            return rounds.results.why_nothing(f"alone:{unknown}")
        if not any(each and each.pps for each in alone.values()):
            return "no router forwarded a frame, each being alone"
        return None

    def _without_crowd(self, why: str) -> Iterator[Candidate]:
        """Yield what cannot be told without several routers."""
        for name in self._names:
            claim = Claim(name, "cpu_weight", "all overloaded", "share")
            yield Candidate(claim, "everyone", why=why)
            if len(self._names) > 1:
                claim = Claim(name, "retained", "while others are overloaded", "share")
                yield Candidate(claim, "", 1.0, why=why)

    def _capped(self, alone: Mapping[str, Alone | None]) -> Iterator[Comparison]:
        """Yield what tests ``cpu_max``, from the cost of a frame when alone."""
        for name, each in alone.items():
            cap = self._policy.routers[name].cpu_max
            if cap is not None and each is not None and each.per_core:
                yield Comparison(s.capped(name, cap / 100, each.per_core))

    def _above(self, ceilings: Sequence[Ceiling]) -> list[Comparison]:
        routers = self._policy.routers
        return [
            Comparison(s.above(ceiling, routers[ceiling.router].burst))
            for ceiling in ceilings
            if not _hidden(routers[ceiling.router], ceiling)
        ]

    def _of_ceilings(self, judge: Judge, ceilings: Sequence[Ceiling]) -> list[Candidate]:
        routers = self._policy.routers
        return [judge.rate_max(c, _hidden(routers[c.router], c)) for c in ceilings]


@dataclass(frozen=True)
class _Crowd:
    """What is promised to several routers on the same cores, and how it is tested."""

    judge: Judge
    capacity: Capacity
    everyone: Comparison
    attacks: tuple[Comparison, ...]

    @classmethod
    def of(
        cls,
        judge: Judge,
        alone: Mapping[str, Alone],
        links: Sequence[Link],
        environment: Environment,
        patterns: Sequence[Pattern],
    ) -> _Crowd:
        rates = {name: each.pps for name, each in alone.items()}
        capacity = capacity_of(judge.policy, rates, alike=environment.mode == "test bed")
        loads = {name: each.load_pps for name, each in alone.items()}
        attacks = tuple(
            s.attack(judge.policy, name, capacity, links, pattern)
            for name in alone
            for pattern in patterns
        )
        return cls(judge, capacity, s.everyone(capacity, loads), attacks)

    def candidates(self) -> list[Candidate]:
        """Return the promises with what was measured about them so far."""
        retained = (
            c for attack in self.attacks for c in self.judge.retained(self.capacity, attack)
        )
        return [*self.judge.cpu_weight(self.capacity), *retained]

    def speed(self) -> float:
        """Return how fast the machine is now, compared with the search.

        Loads follow it, so that a slow phase of the machine does not look like a broken promise.
        Only routers that are alone enter.
        """
        pairs = self.judge.results.of(self.everyone.key)[-RECENT:]
        fastest = self.capacity.fastest_of(self.capacity.alone_pps)
        now = [p.reference.routers[fastest].received_pps for p in pairs if p.reference]
        if not now:
            return 1.0
        lowest, highest = SPEEDS
        return min(highest, max(lowest, median(now) / self.capacity.alone_pps[fastest]))

    def costs(self) -> Iterator[Crowd]:
        """Yield what it costs that the routers of a group are overloaded together."""
        pairs = self.judge.results.of(self.everyone.key)
        for group in self.capacity.groups:
            fastest = self.capacity.fastest_of(group)
            whole = sum(self.capacity.shares[name] for name in group) >= MIN_CROWD
            if (
                not pairs
                or len(group) == 1
                or not whole
                or is_capped(self.judge.policy.routers[fastest])
            ):
                continue
            cores = self.capacity.cores[fastest]
            alone = [
                cores * p.reference.routers[fastest].received_pps for p in pairs if p.reference
            ]
            together = [sum(p.loaded.routers[n].received_pps for n in group) for p in pairs]
            costs = [1 - t / a for t, a in zip(together, alone, strict=True) if a]
            if costs:
                yield Crowd(
                    routers=group,
                    alone_pps=median(alone),
                    together_pps=median(together),
                    cost=median(costs),
                    interval=median_interval(costs),
                    pairs=len(costs),
                )


def _why_no_cap(rounds: Rounds, name: str, alone: Alone | None) -> str | None:
    """Say why ``cpu_max`` of a router was not tried; None: it was."""
    if alone is None:
        return rounds.results.why_nothing(f"alone:{name}")
    return None if alone.per_core else "it used no CPU time although it was alone and overloaded"


def _hidden(router: RouterPolicy, ceiling: Ceiling) -> str | None:
    """Say which lower ceiling of a router hides this one; None if it can be seen."""
    for other in s.ceilings_of(ceiling.router, router):
        factor = 1.0 if other.unit == "pps" else 1 / wire_bps(1.0, ceiling.frame_bytes)
        if other != ceiling and other.value * factor < 0.98 * ceiling.pps:
            return f"it reaches its {other.direction} ceiling in {other.unit} first"
    return None

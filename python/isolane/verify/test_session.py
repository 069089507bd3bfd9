"""Verifications on a host of arithmetic: one that keeps every promise, and ones that break one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import pytest

from isolane.enforce.fair_share import ceiling_pps, link_fair_rates, share_out
from isolane.errors import MeasurementError
from isolane.run.invalid import InvalidKind, InvalidReason
from isolane.spec import Policy, parse_policy, wire_bps
from isolane.verify import Finding, Report
from isolane.verify.environment import Environment, Measured, Seen, Trials
from isolane.verify.pace import Progress
from isolane.verify.report_data import Options, Tolerance
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
                self.host.lost_at_link,
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


@pytest.fixture
def policy() -> Policy:
    return parse_policy(POLICY)


def test_a_stand_in_is_a_test_environment(policy: Policy) -> None:
    environment: Environment = Arithmetic(policy)
    assert environment.max_cores == 1


def test_all_that_is_promised_is_measured_or_named(policy: Policy) -> None:
    report = verified(Arithmetic(policy))
    assert (report.count("broken"), report.count("undecided")) == (0, 0)
    assert {(f.router, f.promise, f.about) for f in report.findings if f.why} == {
        ("tin", "cpu_weight", "all overloaded"),
        ("bronze", "link_weight", "its priority fills eth1"),
    }
    assert (
        found(report, "tin", "cpu_weight").why
        == "cpu_max keeps it below the share that its weight gives"
    )
    assert found(report, "gold", "cpu_weight").promised == 0.5
    assert found(report, "silver", "cpu_weight").promised == 0.25
    assert found(report, "tin", "cpu_max").promised == pytest.approx(0.15)
    assert found(report, "bronze", "rate_max").promised == 150e6
    assert found(report, "gold", "rate_min").promised == 200e6
    # 900 Mbps that are not guaranteed to silver go to gold, which is the first.
    assert found(report, "gold", "priority").promised == pytest.approx(900e6)
    retained = [f for f in report.findings if f.promise == "retained"]
    assert len(retained) == 4 * 3
    assert {f.measured for f in retained} == {1.0}


def test_each_router_is_overloaded_in_turn(policy: Policy) -> None:
    seen: list[Scenario] = []

    def watched(scenario: Scenario) -> tuple[InvalidReason, ...]:
        seen.append(scenario)
        return ()

    verified(Arithmetic(policy, invalid=watched))
    attacks = {s.key: s for s in seen if s.key.startswith("attack:")}
    assert set(attacks) == {f"attack:{name}" for name in policy.routers}
    for key, scenario in attacks.items():
        aggressor = key.removeprefix("attack:")
        assert scenario.offered_pps[aggressor] == 2 * CORE_PPS
        assert scenario.overloaded == {aggressor}
        others = sum(pps for n, pps in scenario.offered_pps.items() if n != aggressor)
        assert 0 < others < CORE_PPS


def test_a_lost_cpu_weight_is_broken(policy: Policy) -> None:
    report = verified(Arithmetic(policy, weights={"gold": 100.0}))
    finding = found(report, "gold", "cpu_weight")
    assert finding.verdict == "broken"
    assert finding.measured == pytest.approx(1 / 3)
    assert finding.margin == pytest.approx(1 / 3 - 1 / 2)
    assert found(report, "silver", "cpu_weight").verdict == "held"


@pytest.mark.parametrize(
    ("forgotten", "router", "promise"),
    [
        ("cpu_max", "tin", "cpu_max"),
        ("rate_max", "bronze", "rate_max"),
        ("link", "gold", "priority"),
        ("link", "silver", "link_weight"),
    ],
)
def test_a_forgotten_key_is_broken(
    policy: Policy, forgotten: str, router: str, promise: str
) -> None:
    report = verified(Arithmetic(policy, forgets=frozenset({forgotten})))
    assert found(report, router, promise).verdict == "broken"


def test_a_guarantee_that_is_missed_is_broken_by_as_much_as_it_is(policy: Policy) -> None:
    def starve(scenario: Scenario, kept: Kept) -> Kept:
        silver = kept.get("silver", 0.0)
        lost = 0.05 * silver if scenario.key == "link:eth1:0" else 0.0
        return kept | {"silver": silver - lost, "gold": kept["gold"] + lost}

    report = verified(Arithmetic(policy, spoil=starve))
    finding = found(report, "silver", "rate_min")
    assert (finding.verdict, finding.promised) == ("broken", 100e6)
    assert finding.margin == pytest.approx(-5e6)


def test_what_an_aggressor_takes_is_told_by_aggressor(policy: Policy) -> None:
    def leak(scenario: Scenario, kept: Kept) -> Kept:
        return kept | {"gold": 0.9 * kept["gold"]} if scenario.key == "attack:tin" else kept

    report = verified(Arithmetic(policy, spoil=leak))
    assert report.count("broken") == 1
    finding = found(report, "gold", "retained", "tin")
    assert finding.verdict == "broken"
    assert finding.measured == pytest.approx(0.9)


def test_the_tolerance_decides_what_is_broken(policy: Policy) -> None:
    def leak(scenario: Scenario, kept: Kept) -> Kept:
        return kept | {"gold": 0.97 * kept["gold"]} if scenario.key == "attack:tin" else kept

    strict = verified(Arithmetic(policy, spoil=leak))
    loose = verified(Arithmetic(policy, spoil=leak), Options(tolerance=Tolerance(4.0)))
    assert (strict.count("broken"), loose.count("broken")) == (1, 0)


def halved_on_links(scenario: Scenario, kept: Kept) -> Kept:
    return {n: pps / 2 for n, pps in kept.items()} if "link" in scenario.key else kept


def test_a_link_that_is_never_full_tells_nothing_of_what_cpu_time_does_not_reach() -> None:
    """At 10 Gbit/s the routers' CPU shares forward too few frames to fill the link."""
    policy = parse_policy(POLICY.replace("rate: 1Gbps", "rate: 10Gbps"))
    report = verified(Arithmetic(policy, spoil=halved_on_links, lost_at_link=0))
    finding = found(report, "gold", "priority")
    assert finding.verdict == "not measured"
    assert str(finding.why).startswith("the link was never full: all routers together forwarded")


def test_a_guarantee_that_keeps_although_the_link_is_never_full_was_not_tried(
    policy: Policy,
) -> None:
    report = verified(Arithmetic(policy, spoil=halved_on_links))
    finding = found(report, "gold", "rate_min")
    assert finding.verdict == "not measured"
    assert str(finding.why).startswith(
        "the link was never full: all routers together forwarded 500 Mb"
    )


def test_a_guarantee_that_is_lost_at_a_link_that_is_never_full_is_broken(policy: Policy) -> None:
    """The link had room for the router's frames, and dropped them."""
    report = verified(Arithmetic(policy, spoil=halved_on_links))
    assert found(report, "gold", "priority").verdict == "broken"
    assert found(report, "silver", "rate_min").verdict == "broken"


def test_a_link_that_nothing_holds_to_its_rate_tells_nothing(policy: Policy) -> None:
    def fast(scenario: Scenario, kept: Kept) -> Kept:
        return {n: pps * 2 for n, pps in kept.items()} if "link" in scenario.key else kept

    report = verified(Arithmetic(policy, spoil=fast))
    assert str(found(report, "gold", "rate_min").why).startswith("the link exceeds its rate")


def test_invalid_trials_are_made_again_and_never_count(policy: Policy) -> None:
    times: dict[str, int] = {}

    def disturbed(scenario: Scenario) -> tuple[InvalidReason, ...]:
        times[scenario.key] = times.get(scenario.key, 0) + 1
        return (COMPILED,) if times[scenario.key] == 1 else ()

    report = verified(Arithmetic(policy, invalid=disturbed))
    assert (report.count("broken"), report.count("undecided")) == (0, 0)
    assert report.trials_without_verdict == len(times)
    assert report.trials == sum(times.values())
    pairs = {f.pairs for f in report.findings if f.promise == "retained"}
    assert pairs == {times["attack:tin"] - 1}


def test_where_every_trial_is_invalid_nothing_is_said(policy: Policy) -> None:
    report = verified(Arithmetic(policy, invalid=lambda _: (COMPILED,)))
    assert {f.verdict for f in report.findings} == {"not measured"}
    why = "no verdict: 6 of 6 trials invalid, because somebody compiled"
    assert {f.why for f in report.findings} == {why}


def test_a_router_that_forwards_nothing_is_broken_and_the_others_are_measured(
    policy: Policy,
) -> None:
    def dead(_: Scenario, kept: Kept) -> Kept:
        return kept | ({"tin": 0.0} if "tin" in kept else {})

    report = verified(Arithmetic(policy, spoil=dead))
    of_tin = [f for f in report.findings if (f.router, f.promise) == ("tin", "retained")]
    assert {(f.verdict, f.measured) for f in of_tin} == {("broken", 0.0)}
    assert {f.why for f in of_tin} == {"it forwarded no frame although it was alone"}
    assert found(report, "gold", "cpu_weight").verdict == "held"
    assert found(report, "gold", "retained", "silver").verdict == "held"


def test_where_no_router_forwards_anything_there_is_no_bar(policy: Policy) -> None:
    report = verified(Arithmetic(policy, spoil=lambda _, kept: dict.fromkeys(kept, 0.0)))
    why = "no router forwarded a frame, each being alone"
    assert found(report, "gold", "cpu_weight").why == why


def test_an_overload_that_cannot_be_made_tells_nothing(policy: Policy) -> None:
    host = Arithmetic(policy)
    host.overload_pps = 1_000.0  # nobody is ever overloaded: capacity looks tiny
    report = verified(host)
    finding = found(report, "gold", "cpu_weight")
    assert finding.verdict == "not measured"
    assert str(finding.why).endswith("idle: CPU time was not the limit")


def test_idle_cores_are_no_excuse_for_frames_that_are_lost(policy: Policy) -> None:
    """Each router gets its part of what is used, but half of the core is kept from all."""
    report = verified(Arithmetic(policy, withheld=0.5))
    finding = found(report, "gold", "cpu_weight")
    assert finding.verdict == "broken"
    assert finding.measured == pytest.approx(0.23, abs=0.01)


def test_what_overload_wastes_lowers_no_promise(policy: Policy) -> None:
    """Together the routers forward a third less than one alone: the policy promises no less."""

    def wasteful(scenario: Scenario, kept: Kept) -> Kept:
        if len([n for n in kept if scenario.offered_pps.get(n)]) == 1 or "link" in scenario.key:
            return kept
        total = sum(kept.values())
        return {n: pps * min(1.0, CORE_PPS * 2 / 3 / total) for n, pps in kept.items()}

    report = verified(Arithmetic(policy, spoil=wasteful))
    (crowd,) = report.crowds
    assert crowd.routers == tuple(policy.routers)
    assert crowd.alone_pps == pytest.approx(CORE_PPS)
    assert crowd.interval is not None
    assert [crowd.cost, *crowd.interval] == pytest.approx([1 / 3] * 3)
    # 0.8 of each share is offered: the attack leaves the others less than that.
    finding = found(report, "gold", "retained", "silver")
    assert (finding.verdict, (finding.measured or 1.0) < 0.9) == ("broken", True)


def test_a_crowd_that_costs_nothing(policy: Policy) -> None:
    (crowd,) = verified(Arithmetic(policy)).crowds
    assert crowd.cost == pytest.approx(0.0)


def test_a_reference_that_loses_frames_is_no_reference(policy: Policy) -> None:
    """A router that loses a tenth with and without the aggressor does not retain all."""

    def lossy(scenario: Scenario, kept: Kept) -> Kept:
        crowded = scenario.key.startswith(("attack:", "without:"))
        return kept | {"gold": 0.9 * kept["gold"]} if crowded else kept

    finding = found(verified(Arithmetic(policy, spoil=lossy)), "gold", "retained", "tin")
    assert finding.verdict == "broken"
    assert finding.measured == pytest.approx(0.9)
    assert finding.why == "without overload it forwards 90.0 % of its load"


def test_loads_follow_the_speed_of_the_machine(policy: Policy) -> None:
    """From some time on all forward at half the speed: nothing is broken by that."""
    host = Arithmetic(policy)

    def slower(_: Scenario, kept: Kept) -> Kept:
        host.core_pps = CORE_PPS / (1 if host.now_s < 40 else 2)  # from the next trial on
        return kept

    host.spoil = slower
    report = verified(host, Options(time_limit_s=600))
    assert report.count("broken") == 0
    crowd = report.crowds[0]
    assert crowd.cost == pytest.approx(0.0, abs=0.01)


def test_cores_that_the_host_has_not(policy: Policy) -> None:
    text = POLICY.replace("netns: gold,", "netns: gold, cores: [2, 3],")
    host = Arithmetic(parse_policy(text))
    report = verified(host)
    why = "2 cores for the routers and one to measure: this host has 2"
    assert found(report, "gold", "cpu_weight").why == why
    assert found(report, "silver", "cpu_weight").verdict == "held"
    assert found(report, "gold", "rate_min").verdict == "held", "the link is not about cores"
    names, _, _, fold = host.opened[-1]
    assert (set(names), fold) == (set(policy.routers), True)


def test_virtual_machines_are_named() -> None:
    text = POLICY.replace("netns: gold,", "qemu: 12,")
    report = verified(Arithmetic(parse_policy(text)))
    why = "a virtual machine cannot be mirrored in a test bed"
    assert {f.why for f in report.findings if f.router == "gold"} == {why}
    assert {f.promise for f in report.findings if f.router == "gold"} == {
        "cpu_weight", "retained", "rate_min",
    }  # fmt: skip
    assert found(report, "silver", "rate_min").verdict == "held"


def test_a_link_of_unknown_rate_is_named() -> None:
    text = POLICY.replace("{rate: 1Gbps}", "").replace("eth1: ", "nosuchnic: ")
    report = verified(Arithmetic(parse_policy(text)))
    why = "the rate of nosuchnic is not known on this host; set nics.nosuchnic.rate in the policy"
    assert found(report, "gold", "rate_min").why == why
    assert found(report, "gold", "cpu_weight").verdict == "held"


def test_one_router_has_nobody_to_be_kept_from() -> None:
    text = "isolane: 1\nname: one\nnics: {e: {rate: 1Gbps}}\nrouters: {a: {pid: 1}}"
    report = verified(Arithmetic(parse_policy(text)))
    (finding,) = report.findings
    assert (finding.promise, finding.why) == ("cpu_weight", "no other router shares its cores")


def test_lower_ceilings_hide_higher_ones() -> None:
    text = POLICY.replace("{egress: 150Mbps}", "{ingress: 5kpps, egress: [150Mbps, 100kpps]}")
    report = verified(Arithmetic(parse_policy(text)))
    ceilings = {(f.about, f.unit): f for f in report.findings if f.promise == "rate_max"}
    assert ceilings["ingress", "pps"].verdict == "held"
    hidden = "it reaches its ingress ceiling in pps first"
    assert ceilings["egress", "pps"].why == hidden
    assert ceilings["egress", "bps"].why == hidden


def test_too_many_routers_for_a_test_bed() -> None:
    many = "".join(f"  r{i}: {{pid: {i + 1}}}\n" for i in range(65))
    text = f"isolane: 1\nname: many\nnics: {{e: {{rate: 1Gbps}}}}\nrouters:\n{many}"
    with pytest.raises(MeasurementError, match="65 routers, and a test bed takes 64 at most"):
        verified(Arithmetic(parse_policy(text)))


def test_progress_is_told_of_the_whole_with_the_time_left(policy: Policy) -> None:
    steps: list[tuple[float, Progress]] = []
    host = Arithmetic(policy)

    def watch(step: Progress) -> None:
        steps.append((host.now_s, step))

    report = Verification(policy, host, watch=watch, clock=host.clock).execute()
    fractions = [step.fraction for _, step in steps]
    assert fractions == sorted(fractions)
    assert fractions[0] == 0.0
    assert 0.95 < fractions[-1] < 1.0
    for now_s, step in steps[len(steps) // 5 :]:
        assert step.left_s == pytest.approx(report.took_s - now_s, abs=0.25 * report.took_s)


def test_frames_lost_before_the_link_are_no_excuse_if_the_cpu_share_was_enough(
    policy: Policy,
) -> None:
    def starve(scenario: Scenario, kept: Kept) -> Kept:
        lost = 0.1 * kept["silver"] if scenario.key == "link:eth1:0" else 0.0
        return kept | ({"silver": kept["silver"] - lost, "gold": kept["gold"] + lost})

    finding = found(verified(Arithmetic(policy, spoil=starve)), "silver", "rate_min")
    assert (finding.verdict, finding.why) == ("broken", None)
    report = verified(Arithmetic(policy, spoil=starve, lost_at_link=0))
    finding = found(report, "silver", "rate_min")
    assert finding.verdict == "broken"
    assert str(finding.why).startswith("its frames were lost before the link, although its part")
    # On a machine of a fiftieth of the speed the part of the cores would not be enough.
    slow = Arithmetic(policy, spoil=starve, lost_at_link=0, core_pps=CORE_PPS / 50)
    finding = found(verified(slow), "silver", "rate_min")
    assert finding.verdict == "not measured"


def test_pairs_are_back_to_back_and_shuffled(policy: Policy) -> None:
    seen: list[str] = []

    def watched(scenario: Scenario) -> tuple[InvalidReason, ...]:
        seen.append(scenario.key)
        return ()

    verified(Arithmetic(policy, invalid=watched))
    rounds = [key for key in seen if key.startswith(("attack:", "without:"))]
    pairs = list(zip(rounds[::2], rounds[1::2], strict=True))
    for one, other in pairs:
        assert {one.split(":")[0], other.split(":")[0]} == {"attack", "without"}
        assert one.split(":")[1] == other.split(":")[1]
    firsts = [one.split(":")[0] for one, _ in pairs]
    assert 0.25 < firsts.count("attack") / len(firsts) < 0.75
    turns = [tuple(one.split(":")[1] for one, _ in pairs[i : i + 4]) for i in range(0, 44, 4)]
    assert {frozenset(turn) for turn in turns} == {frozenset(policy.routers)}
    assert len(set(turns)) > 5, "the order differs from round to round"


def test_the_seed_decides_the_order(policy: Policy) -> None:
    def order(seed: int) -> list[str]:
        seen: list[str] = []

        def watched(scenario: Scenario) -> tuple[InvalidReason, ...]:
            seen.append(scenario.key)
            return ()

        verified(Arithmetic(policy, invalid=watched), Options(seed=seed))
        return seen

    assert order(1) == order(1) != order(2)


def test_few_unlucky_pairs_break_nothing_and_are_shown(policy: Policy) -> None:
    times: dict[str, int] = {}

    def unlucky(scenario: Scenario, kept: Kept) -> Kept:
        times[scenario.key] = times.get(scenario.key, 0) + 1
        bad = scenario.key == "attack:tin" and times[scenario.key] <= 2
        return kept | ({"gold": 0.5 * kept["gold"]} if bad else {})

    report = verified(Arithmetic(policy, spoil=unlucky))
    finding = found(report, "gold", "retained", "tin")
    assert (finding.verdict, finding.low, finding.measured) == ("held", 0.5, 1.0)
    assert finding.pairs == finding.pairs_kept + 2 == times["attack:tin"]
    assert len(finding.values) == finding.pairs
    others = [f.pairs for f in report.findings if f.promise == "retained" and "gold" in f.about]
    assert max(others) < finding.pairs, "what is decided is not measured any further"


def test_what_is_as_often_kept_as_missed_is_undecided(policy: Policy) -> None:
    times: dict[str, int] = {}

    def torn(scenario: Scenario, kept: Kept) -> Kept:
        times[scenario.key] = times.get(scenario.key, 0) + 1
        bad = scenario.key == "attack:tin" and times[scenario.key] % 2
        return kept | ({"gold": 0.98 * kept["gold"]} if bad else {})

    report = verified(Arithmetic(policy, spoil=torn))
    finding = found(report, "gold", "retained", "tin")
    assert finding.verdict == "undecided"
    assert str(finding.why).startswith(f"kept in {finding.pairs_kept} of {finding.pairs} when")
    assert finding.error_bound is not None
    assert finding.error_bound > 0.05
    assert report.took_s <= report.time_limit_s + 10
    assert report.count("broken") == 0


def test_the_time_limit_ends_it_and_what_was_not_reached_is_undecided(policy: Policy) -> None:
    host = Arithmetic(policy)
    report = verified(host, Options(time_limit_s=20))
    assert report.count("held") + report.count("broken") == 0
    assert report.count("undecided") > 10
    assert host.now_s < 40, "the searches, and one pair in each stage"


def test_large_policies_have_as_much_time_as_they_need() -> None:
    names = "".join(f"  r{i}: {{pid: {i + 1}}}\n" for i in range(12))
    text = f"isolane: 1\nname: many\nnics: {{e: {{rate: 1Gbps}}}}\nrouters:\n{names}"
    report = verified(Arithmetic(parse_policy(text)))
    assert report.time_limit_s > 200
    assert report.count("held") == len(report.findings) == 12 + 12 * 11

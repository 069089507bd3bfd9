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
from isolane.run.runner import Step
from isolane.spec import Policy, parse_policy, wire_bps
from isolane.verify import Finding, Report
from isolane.verify.environment import Environment, Measured, Seen, Trials
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
    max_cores: int | None = 1
    mode: Literal["test bed", "real interfaces"] = "test bed"
    overload_pps: float = 4 * CORE_PPS
    opened: list[tuple[tuple[str, ...], int, float, bool]] = field(default_factory=list)

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
        caps = {n: min(1.0, pps[n] / CORE_PPS, self._cap(n)) for n in routers}
        weights = {
            n: self.weights.get(n, float(self.policy.routers[n].cpu_weight)) for n in routers
        }
        shares = share_out(weights, caps)
        self.cpu = shares
        pps = {n: min(pps[n], shares[n] * CORE_PPS) for n in routers}
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
        kept = self.host.forwarded(scenario, self.routers, self.line_bps)
        idle = 1 - sum(self.host.cpu.values())
        trials = {
            name: Seen(
                scenario.offered_pps.get(name, 0.0),
                pps,
                self.host.cpu[name],
                self.host.lost_at_link,
            )
            for name, pps in kept.items()
        }
        return Measured(trials, idle, self.host.invalid(scenario))


def verified(host: Arithmetic, **options: float) -> Report:
    return Verification(host.policy, host, Options(repeats=2, **options)).execute()  # type: ignore[arg-type]


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
    assert report.count("broken") == 0
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
    loose = Verification(
        policy, Arithmetic(policy, spoil=leak), Options(2, tolerance=Tolerance(4.0))
    ).execute()
    assert (strict.count("broken"), loose.count("broken")) == (1, 0)


def test_a_link_that_is_never_full_tells_nothing(policy: Policy) -> None:
    def slow(scenario: Scenario, kept: Kept) -> Kept:
        return {n: pps / 2 for n, pps in kept.items()} if "link" in scenario.key else kept

    report = verified(Arithmetic(policy, spoil=slow))
    about_links = [f for f in report.findings if "eth1" in f.about]
    assert len(about_links) == 6
    assert {f.verdict for f in about_links} == {"not measured"}
    assert str(found(report, "gold", "rate_min").why).startswith(
        "the link was never full: all routers together forwarded 500 Mb"
    )


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
    assert report.count("broken") == 0
    assert set(times.values()) == {3}
    assert report.trials_without_verdict == len(times)


def test_where_every_trial_is_invalid_nothing_is_said(policy: Policy) -> None:
    report = verified(Arithmetic(policy, invalid=lambda _: (COMPILED,)))
    assert {f.verdict for f in report.findings} == {"not measured"}
    why = "no verdict: 6 of 6 trials invalid, because somebody compiled"
    assert {f.why for f in report.findings} == {why}


def test_a_router_that_forwards_nothing_tells_nothing(policy: Policy) -> None:
    def dead(_: Scenario, kept: Kept) -> Kept:
        return kept | ({"tin": 0.0} if "tin" in kept else {})

    report = verified(Arithmetic(policy, spoil=dead))
    assert found(report, "gold", "cpu_weight").why == "tin forwarded no frame although it was alone"


def test_an_overload_that_cannot_be_made_tells_nothing(policy: Policy) -> None:
    host = Arithmetic(policy)
    host.overload_pps = 1_000.0  # nobody is ever overloaded: capacity looks tiny
    report = verified(host)
    why = found(report, "gold", "cpu_weight").why
    assert str(why).endswith("idle: CPU time was not the limit")


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


def test_progress_is_told(policy: Policy) -> None:
    steps: list[Step] = []
    Verification(policy, Arithmetic(policy), Options(repeats=1), steps.append).execute()
    assert all(0 <= step.done < step.total for step in steps)


def test_what_is_lost_before_the_link_says_nothing_about_it(policy: Policy) -> None:
    def starve(scenario: Scenario, kept: Kept) -> Kept:
        lost = 0.1 * kept["silver"] if scenario.key == "link:eth1:0" else 0.0
        return kept | ({"silver": kept["silver"] - lost, "gold": kept["gold"] + lost})

    for lost_at_link, verdict in ((1, "broken"), (0, "not measured")):
        report = verified(Arithmetic(policy, spoil=starve, lost_at_link=lost_at_link))
        finding = found(report, "silver", "rate_min")
        assert finding.verdict == verdict
    assert str(finding.why).startswith("its frames were lost before they reached the link")


def test_what_looks_broken_is_measured_again_before_it_is_said(policy: Policy) -> None:
    times: dict[str, int] = {}

    def unlucky(scenario: Scenario, kept: Kept) -> Kept:
        times[scenario.key] = times.get(scenario.key, 0) + 1
        bad = scenario.key == "attack:tin" and times[scenario.key] <= 2
        return kept | ({"gold": 0.5 * kept["gold"]} if bad else {})

    report = verified(Arithmetic(policy, spoil=unlucky))
    finding = found(report, "gold", "retained", "tin")
    assert (finding.verdict, finding.low, finding.measured) == ("held", 0.5, 1.0)
    assert (times["attack:tin"], times["alone:tin"]) == (6, 2)

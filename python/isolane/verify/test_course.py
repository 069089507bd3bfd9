"""The course of a verification: pairs, their order, when it ends, and what is told meanwhile."""

from __future__ import annotations

import pytest

from isolane.results.invalid import InvalidKind, InvalidReason
from isolane.spec import Policy, parse_policy
from isolane.spec.patterns import Pattern
from isolane.verify.pace import Progress
from isolane.verify.report_data import Options
from isolane.verify.scenarios import PATTERNS, Scenario
from isolane.verify.session import Verification
from isolane.verify.test_arithmetic_host import (
    COMPILED,
    CORE_PPS,
    POLICY,
    Arithmetic,
    Kept,
    found,
    verified,
)

PAUSED = InvalidReason(InvalidKind.PAUSED, "the hypervisor took 4 % of core 1")


@pytest.fixture
def policy() -> Policy:
    return parse_policy(POLICY)


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


def test_paused_trials_are_made_again_once(policy: Policy) -> None:
    """On a machine that is paused all the time they count: promises are decided all the same."""
    host = Arithmetic(policy, invalid=lambda _: (PAUSED,))
    report = verified(host, Options(time_limit_s=600))
    assert (report.count("broken"), report.count("undecided")) == (0, 0)
    assert report.count("held")
    assert report.trials == 2 * report.trials_without_verdict


def test_where_every_trial_is_invalid_nothing_is_said(policy: Policy) -> None:
    report = verified(Arithmetic(policy, invalid=lambda _: (COMPILED,)))
    assert {f.verdict for f in report.findings} == {"not measured"}
    why = "no verdict: 6 of 6 trials invalid, because somebody compiled"
    assert {f.why for f in report.findings} == {why}


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


def test_loads_rise_again_after_a_slow_phase(policy: Policy) -> None:
    host = Arithmetic(policy)
    loads: list[float] = []

    def slow_for_a_while(scenario: Scenario, kept: Kept) -> Kept:
        host.core_pps = CORE_PPS / (2 if 40 < host.now_s < 70 else 1)
        if scenario.key == "everyone":
            loads.append(scenario.offered_pps["tin"])
        return kept

    host.spoil = slow_for_a_while
    verified(host, Options(time_limit_s=600))
    assert min(loads) == pytest.approx(loads[0] / 2, rel=0.01)
    assert loads[-1] == pytest.approx(loads[0], rel=0.01)


def test_a_thorough_verification_tries_every_pattern(policy: Policy) -> None:
    fragile = Pattern(("fragments",))

    def spoil(scenario: Scenario, kept: Kept) -> Kept:
        hurt = scenario.patterns.get("tin") == fragile
        return {**kept, "silver": 0.9 * kept["silver"]} if hurt else kept

    host = Arithmetic(policy, spoil=spoil)
    report = verified(host, Options(time_limit_s=3600, thorough=True))
    retained = [f for f in report.findings if f.promise == "retained"]
    routers = len(policy.routers)
    assert len(retained) == routers * (routers - 1) * len(PATTERNS)
    broken = [(f.router, f.about) for f in report.findings if f.verdict == "broken"]
    assert broken == [("silver", "while tin is overloaded by fragments")]
    usual = verified(Arithmetic(policy, spoil=spoil), Options(time_limit_s=3600))
    assert usual.count("broken") == 0
    assert report.time_limit_s == 3600


def test_bursts_come_at_the_load_that_overloads(policy: Policy) -> None:
    seen: dict[str, float] = {}

    def note(scenario: Scenario, kept: Kept) -> Kept:
        if scenario.overloaded == {"tin"} and scenario.patterns:
            seen[scenario.key] = scenario.offered_pps["tin"]
        return kept

    verified(Arithmetic(policy, spoil=note), Options(time_limit_s=3600, thorough=True))
    assert seen["attack:tin:bursts 1ms/2ms"] == pytest.approx(seen["attack:tin"] / 2)
    assert seen["attack:tin:ramp"] == pytest.approx(seen["attack:tin"])


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

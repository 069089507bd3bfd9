"""Verifications on a host of arithmetic: one that keeps every promise, and ones that break one."""

from __future__ import annotations

import pytest

from isolane.errors import MeasurementError
from isolane.results.invalid import InvalidReason
from isolane.results.results import DropPoint
from isolane.spec import Policy, parse_policy
from isolane.verify.report_data import Options, Tolerance
from isolane.verify.scenarios import Scenario
from isolane.verify.test_arithmetic_host import (
    CORE_PPS,
    POLICY,
    Arithmetic,
    Kept,
    found,
    verified,
)


@pytest.fixture
def policy() -> Policy:
    return parse_policy(POLICY)


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


def test_what_frames_cost_the_nic_counts_against_the_weight(policy: Policy) -> None:
    report = verified(Arithmetic(policy, causes={"silver": 0.5}))
    assert found(report, "silver", "cpu_weight").measured == pytest.approx((0.85 / 4 + 0.5) / 1.35)
    assert found(report, "gold", "cpu_weight").verdict == "broken"
    assert found(report, "tin", "cpu_max").verdict == "held", "a cap is one of its own work"


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


def leak(scenario: Scenario, kept: Kept) -> Kept:
    return kept | {"gold": 0.9 * kept["gold"]} if scenario.key == "attack:tin" else kept


def test_what_an_aggressor_takes_is_told_by_aggressor(policy: Policy) -> None:
    report = verified(Arithmetic(policy, spoil=leak))
    assert report.count("broken") == 1
    finding = found(report, "gold", "retained", "tin")
    assert finding.verdict == "broken"
    assert finding.measured == pytest.approx(0.9)


def test_where_frames_were_lost_and_what_an_aggressor_took_is_told(policy: Policy) -> None:
    """The others need 0.8 x 0.85 of the core; all cost 1.13, 0.3 of it the NIC for tin."""
    lost: dict[DropPoint, int] = {"nic_queue": 60, "router_queue": 137, "egress": 3}
    causes = dict.fromkeys(policy.routers, 0.0) | {"tin": 0.3}
    report = verified(Arithmetic(policy, spoil=leak, causes=causes, lost=lost))
    finding = found(report, "gold", "retained", "tin")
    assert finding.verdict == "broken"
    assert finding.why == (
        "of what it lost, 30 % at the NIC, before anybody could tell whose they were, 68 % in its "
        "queue; to look at tin's frames, and refuse them, takes the NICs' threads 22 % of the "
        "cores, and the others need 68 %"
    )
    assert found(report, "silver", "retained", "tin").why is None, "it was kept"


def test_an_aggressor_that_costs_the_nics_nothing_is_not_named(policy: Policy) -> None:
    report = verified(Arithmetic(policy, spoil=leak))
    assert found(report, "gold", "retained", "tin").why is None


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

from __future__ import annotations

from typing import Any

import pytest

from isolane.errors import SpecError
from isolane.spec import IMIX, Experiment, Load, Traffic, parse_experiment


def experiment(**changes: Any) -> Experiment:
    base: dict[str, Any] = {
        "isolane": 1,
        "name": "two",
        "routers": [{"name": "victim", "path": "direct"}, {"name": "noise", "path": "direct"}],
        "load": {"victim": "0.27x", "noise": ["0x", "1x"]},
    }
    return Experiment.model_validate(base | changes)


def test_defaults_are_those_of_the_documentation() -> None:
    it = experiment()
    assert (it.title, it.description, it.arms, it.published) == ("two", "", (), None)
    assert (it.dut.cores, it.dut.receive) == (1, "softirq")
    assert (it.traffic.frame_size, it.traffic.ip, it.traffic.flows) == (64, 4, 100)
    assert it.traffic.line_rate_bps == 10e9
    assert (it.trial.duration_ns, it.trial.warmup_ns) == (500_000_000, 100_000_000)
    assert (it.trial.repeats, it.trial.seed) == (5, 1)
    assert it.resolved_arms()[0].moderation_ns == 50_000


def test_lists_are_zipped_and_scalars_repeated() -> None:
    points = experiment(load={"victim": ["1x", "2x"], "noise": "3x"}).points()
    loads = [[router.load.value for router in point.routers] for point in points]
    assert loads == [[1.0, 3.0], [2.0, 3.0]]
    assert [point.label for point in points] == ["victim 1x", "victim 2x"]
    assert [point.index for point in points] == [0, 1]


def test_labels_tell_what_sets_a_point_apart() -> None:
    assert [p.label for p in experiment(load={"victim": "1x", "noise": "1kpps"}).points()] == [
        "victim 1x, noise 1kpps"
    ]
    both = experiment(load={"victim": ["1x", "2x"], "noise": ["0x", "400kpps"]}).points()
    assert both[1].label == "victim 2x, noise 400kpps"


def test_a_swept_number_of_routers_divides_the_load() -> None:
    it = experiment(
        routers=[{"name": "vr", "path": "bridge", "count": [1, 4]}], load={"vr": "1Mpps"}
    )
    one, four = it.points()
    assert [point.label for point in (one, four)] == ["1 router", "4 routers"]
    assert [router.name for router in one.routers] == ["vr-1"]
    assert [router.name for router in four.routers] == ["vr-1", "vr-2", "vr-3", "vr-4"]
    assert {router.load for router in four.routers} == {Load(250e3, "pps")}
    assert {router.group for router in four.routers} == {"vr"}


def test_counts_are_zipped_with_loads() -> None:
    it = experiment(
        routers=[
            {"name": "victim", "path": "direct"},
            {"name": "noise", "path": "direct", "count": [1, 2]},
        ]
    )
    assert [point.label for point in it.points()] == [
        "1 noise router, noise 0x",
        "2 noise routers, noise 1x",
    ]
    assert [len(point.routers) for point in it.points()] == [2, 3]


def test_a_fixed_number_of_routers_has_numbered_names() -> None:
    it = experiment(
        routers=[{"name": "vr", "path": "direct", "count": 2}], load={"vr": ["1x", "2x"]}
    )
    assert [router.name for router in it.points()[0].routers] == ["vr-1", "vr-2"]
    assert it.router("vr-2") is it.router("vr") is it.routers[0]
    with pytest.raises(KeyError):
        it.router("vr-3")


def test_members_have_subnets_that_follow_each_other() -> None:
    it = experiment(
        routers=[{"name": "vr", "path": "direct", "count": 3, "address": "198.18.4.0/24"}],
        load={"vr": "1x"},
    )
    assert [str(router.address) for router in it.points()[0].routers] == [
        "198.18.4.0/24",
        "198.18.5.0/24",
        "198.18.6.0/24",
    ]


def test_routers_without_an_address_get_one_by_their_number() -> None:
    it = experiment(
        routers=[
            {"name": "a", "path": "direct", "count": 2, "address": "10.0.0.0/24"},
            {"name": "b", "path": "direct"},
        ],
        load={"a": "1x", "b": "1x"},
    )
    assert [str(router.address) for router in it.points()[0].routers] == [
        "10.0.0.0/24",
        "10.0.1.0/24",
        "198.18.2.0/24",
    ]
    six = experiment(traffic={"ip": 6, "frame_size": 84})
    assert [str(r.address) for r in six.points()[0].routers] == ["2001:2::/64", "2001:2:0:1::/64"]


def test_without_arms_there_is_one_named_after_the_path() -> None:
    (arm,) = experiment().resolved_arms()
    assert arm.name == "direct"
    assert [(router.group, router.kind, router.path) for router in arm.routers] == [
        ("victim", "container", "direct"),
        ("noise", "container", "direct"),
    ]
    (native,) = experiment(
        routers=[{"name": "host", "kind": "native"}], load={"host": "1x"}
    ).resolved_arms()
    assert (native.name, native.routers[0].path) == ("native", "none")


def test_arms_override_what_they_name_and_nothing_else() -> None:
    it = experiment(
        routers=[{"name": "vr", "path": "direct"}],
        load={"vr": "1x"},
        dut={"cores": 2, "moderation": "50us"},
        arms=[
            {"name": "as-it-is"},
            {"name": "threads", "receive": "threaded", "cores": 1},
            {"name": "slow", "path": "bridge", "moderation": "1ms"},
            {"name": "host", "kind": "native"},
        ],
    )
    arms = [
        (a.receive, a.moderation_ns, a.cores, a.routers[0].kind, a.routers[0].path)
        for a in it.resolved_arms()
    ]
    assert arms == [
        ("softirq", 50_000, 2, "container", "direct"),
        ("threaded", 50_000, 1, "container", "direct"),
        ("softirq", 1_000_000, 2, "container", "bridge"),
        ("softirq", 50_000, 2, "native", "none"),
    ]


def test_capacity_is_that_of_the_first_router_in_the_first_arm_unless_told() -> None:
    arms = [{"name": "a", "path": "bridge"}, {"name": "b", "path": "direct"}]
    reference = experiment(arms=arms).capacity_reference()
    assert (reference.arm.name, reference.router) == ("a", "victim")
    reference = experiment(arms=arms, capacity={"arm": "b", "router": "noise"}).capacity_reference()
    assert (reference.arm.name, reference.router) == ("b", "noise")


def test_capacity_is_needed_for_x_and_for_published_figures() -> None:
    absolute = {"victim": "1kpps", "noise": "1kpps"}
    row = {"arm": "a", "load": {"vr": "1x"}, "router": "vr", "metric": "throughput"}
    published = {"source": "s", "capacity": "1Mpps", "rows": [row]}
    assert experiment().needs_capacity
    assert not experiment(load=absolute).needs_capacity
    assert experiment(load=absolute, published=published).needs_capacity


def test_traffic_of_a_router_is_the_default_with_its_overrides() -> None:
    it = experiment(
        traffic={"frame_size": 128, "flows": 7, "line_rate": "1Gbps"},
        routers=[
            {"name": "victim", "path": "direct", "traffic": {"flows": 10, "frame_size": 256}},
            {"name": "noise", "path": "direct"},
        ],
    )
    assert it.traffic_of("noise") == it.traffic
    victim = it.traffic_of("victim")
    assert (victim.flows, victim.ip, victim.frame_size) == (10, 4, 256)
    assert victim.line_rate_bps == 1e9


def test_imix_is_seven_four_one() -> None:
    imix = Traffic(frame_size="imix")
    assert imix.frame_sizes() == IMIX
    assert imix.mean_frame_bytes == pytest.approx((7 * 64 + 4 * 594 + 1518) / 12)
    assert Traffic(frame_size="imix", ip=6).frame_sizes() == ((84, 7), (594, 4), (1518, 1))


def test_a_shared_wire_carries_the_sum_and_a_wire_of_its_own_only_one() -> None:
    load = {"victim": "600Mbps", "noise": "600Mbps"}  # 600 Mbit/s of frames are 788 on the wire
    traffic = {"line_rate": "1Gbps"}
    experiment(load=load, traffic=traffic)
    for path in ("bridge", "macvlan"):
        with pytest.raises(ValueError, match=r"victim, noise together take 1\.57 Gbps"):
            experiment(load=load, traffic=traffic, arms=[{"name": "shared", "path": path}])


def test_larger_frames_leave_more_room_on_the_line() -> None:
    load = {"victim": "980Mbps", "noise": "0x"}
    experiment(load=load, traffic={"line_rate": "1Gbps", "frame_size": 1518})
    with pytest.raises(ValueError, match=r"takes 1\.02 Gbps.*at most 234\.962kpps.*512-byte"):
        experiment(load=load, traffic={"line_rate": "1Gbps", "frame_size": 512})


def test_exactly_the_line_rate_is_accepted() -> None:
    experiment(load={"victim": "1.488095Mpps", "noise": "0x"}, traffic={"line_rate": "1Gbps"})


def test_hosts_with_too_few_cores() -> None:
    assert experiment().not_runnable_on(2) is None
    assert "needs 3 cores" in str(experiment(dut={"cores": 2}).not_runnable_on(2))
    assert "needs 2 cores" in str(experiment().not_runnable_on(1))
    marked = experiment(not_runnable={"host_cores_below": 4, "why": "because"})
    assert marked.not_runnable_on(3) == "because"
    assert marked.not_runnable_on(4) is None


def test_rows_of_other_arms_may_name_any_router() -> None:
    row = {"arm": "vm", "load": {"x": "1x"}, "router": "x", "metric": "delay", "value": "1ms"}
    published = {"source": "s", "capacity": "1Mpps", "rows": [row]}
    it = experiment(published=published)
    assert it.published is not None
    assert it.published.rows[0].value is not None
    assert it.published.rows[0].value.value == 1e6
    with pytest.raises(ValueError, match="figure about an unknown router 'x'"):
        experiment(published=published | {"rows": [row | {"arm": "direct"}]})


def test_published_rates_are_shares_of_the_published_capacity() -> None:
    row = {"arm": "vm", "load": {"x": "400kpps"}, "router": "x", "metric": "throughput"}
    published = experiment(
        published={"source": "s", "capacity": "1488kpps", "rows": [row | {"value": "744kpps"}]}
    ).published
    assert published is not None
    value = published.rows[0].value
    assert value is not None
    assert published.share(value) == pytest.approx(0.5)
    assert published.share(published.rows[0].load["x"]) == pytest.approx(400 / 1488)
    assert published.share(Load(0.3, "x")) == 0.3


def test_an_experiment_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        experiment().name = "other"  # type: ignore[misc]


def test_a_text_is_named_in_messages() -> None:
    with pytest.raises(SpecError, match=r"^<text>: the file is empty"):
        parse_experiment("")

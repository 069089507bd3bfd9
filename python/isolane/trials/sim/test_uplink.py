"""Path netback on a simulated host: each scheduler does what it promises, with real ones inside."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from isolane.results.results import Drawing
from isolane.spec import Experiment, load_experiment, parse_experiment
from isolane.spec.demands import Demand
from isolane.trials.backend import Observation, Setting
from isolane.trials.sim.build import SimModel, build
from isolane.trials.sim.catalogue import find_host
from isolane.trials.sim.engine import simulate_model
from isolane.trials.sim.host_drawing import draw
from isolane.trials.sim.observe import observe

pytestmark = pytest.mark.native

EXPERIMENTS = Path(__file__).parents[4] / "experiments"
LINK_PPS = 100e6 / 8 / (1518 + 20)
"""What a link of 100 Mbit/s takes of the longest frames."""
MS = 1_000_000


def experiment(arm: str, size: object = 1518, routers: tuple[str, ...] = ("one", "two")) -> Any:
    listed = ", ".join(
        f"{{name: {name}, kind: vm, hypervisor: uml, path: netback}}" for name in routers
    )
    loads = ", ".join(f"{name}: 1kpps" for name in routers)
    return parse_experiment(
        f"isolane: 1\nname: link\ntraffic: {{frame_size: {size}, line_rate: 10Gbps}}\n"
        f"routers: [{listed}]\nload: {{{loads}}}\narms: [{{name: it, {arm}}}]\n"
        "trial: {duration: 2s, warmup: 1s, seed: 1}\n"
    )


def model_of(
    spec: Experiment, kpps: Mapping[str, float], profile: str = "rathore2013", warmup_ms: int = 1000
) -> tuple[SimModel, Setting]:
    arm, point = spec.resolved_arms()[0], spec.points()[0]
    demands = tuple(Demand(router, kpps[router.name] * 1e3, None) for router in point.routers)
    setting = Setting(demands, warmup_ms * MS, 1000 * MS, "test")
    return build(find_host(profile), spec, arm, list(point.routers), setting), setting


def trial(arm: str, *kpps: float, size: object = 1518, profile: str = "rathore2013") -> Observation:
    """Simulate, and ask of the result what must hold of each: not a frame is unaccounted for."""
    names = ("one", "two", "three", "four")[: len(kpps)]
    spec = experiment(arm, size, names)
    model, setting = model_of(spec, dict(zip(names, kpps, strict=True)), profile)
    seen = observe(model, setting, simulate_model(model.json, "the test"))
    assert seen.conserved
    for router in seen.routers:
        assert router.offered_total == router.received_total + sum(router.lost.values())
    return seen


def rates(seen: Observation) -> list[float]:
    return [router.received_pps for router in seen.routers]


@pytest.mark.parametrize(("scheduler", "random"), [("credit", None), ("credit-random", True)])
def test_credit_is_served_in_turn_or_by_lot(scheduler: str, random: bool | None) -> None:
    spec = experiment(f"scheduler: {scheduler}, uplink_rate: 100Mbps")
    model, _ = model_of(spec, {"one": 8, "two": 8})
    queues = [stage.get("queue", {}) for stage in model.json["stages"]]
    (told,) = [queue["scheduler"] for queue in queues if "scheduler" in queue]
    assert (told["kind"], told.get("random")) == ("credit", random)
    assert rates(trial(f"scheduler: {scheduler}, uplink_rate: 100Mbps", 8, 8)) == pytest.approx(
        [LINK_PPS / 2] * 2, rel=0.02
    )


@pytest.mark.parametrize(("burst", "kept"), [("20ms", 1.0), ("4ms", 33 / 163)])
def test_a_credit_needs_a_link_that_takes_it_at_once(burst: str, kept: float) -> None:
    """40 Mbit/s for 50 ms are 163 frames, which are all there when the credit comes."""
    lossy = f"uplink_rate: 100Mbps, uplink_burst: {burst}, back_pressure: off"
    seen = trial(f"scheduler: credit-random, {lossy}, policy: {{one: {{rate_max: 40Mbps}}}}", 8)
    assert rates(seen) == pytest.approx([0.4 * LINK_PPS * kept], rel=0.03)


@pytest.mark.parametrize("scheduler", ["drr", "wfq", "hierarchical"])
def test_shares_follow_the_weights(scheduler: str) -> None:
    weights = "policy: {one: {link_weight: 4}, two: {link_weight: 1}}"
    got = rates(trial(f"scheduler: {scheduler}, uplink_rate: 100Mbps, {weights}", 20, 20))
    assert sum(got) == pytest.approx(LINK_PPS, rel=2e-3)
    assert got[0] / sum(got) == pytest.approx(0.8, abs=2e-3)


def test_rates_hold() -> None:
    policy = "{one: {rate_min: 60Mbps}, two: {rate_max: 10Mbps}, three: {}}"
    got = rates(
        trial(f"scheduler: hierarchical, uplink_rate: 100Mbps, policy: {policy}", 20, 20, 20)
    )
    assert got[1] == pytest.approx(LINK_PPS / 10, rel=0.01)
    assert got[0] >= 0.6 * LINK_PPS * 0.99
    assert sum(got) == pytest.approx(LINK_PPS, rel=2e-3)


def test_who_is_first_loses_nothing() -> None:
    policy = "{one: {priority: 0}, two: {priority: 1}}"
    seen = trial(f"scheduler: strict-priority, uplink_rate: 100Mbps, policy: {policy}", 5, 20)
    first, second = seen.routers
    assert first.received_total == first.offered_total
    assert first.received_pps + second.received_pps == pytest.approx(LINK_PPS, rel=2e-3)


@pytest.mark.parametrize("profile", ["rathore2013", "veth"])
def test_fifo_shares_by_the_queues_that_are_full(profile: str) -> None:
    """As measured: 67 % [66, 69] of 6 kpps beside 16 kpps (benches/RESULTS.md, 2026-11-26)."""
    seen = trial("scheduler: fifo, uplink_rate: 100Mbps", 6, 16, profile=profile)
    assert rates(seen) == pytest.approx([LINK_PPS / 2] * 2, rel=0.02)
    for router in seen.routers:
        assert router.lost["egress"] == sum(router.lost.values())


def test_without_a_look_at_the_link_frames_are_lost_and_not_kept_waiting() -> None:
    looks, not_ = (
        trial(f"scheduler: round-robin, uplink_rate: 100Mbps, back_pressure: {word}", 8, 8)
        for word in ("on", "off")
    )
    waited = [router.delay.arrived_p50_ns for router in looks.routers if router.delay]
    short = [router.delay.arrived_p50_ns for router in not_.routers if router.delay]
    assert min(w for w in waited if w) > 250 * MS, "two full queues of 1,256 frames"
    assert max(s for s in short if s) < 5 * MS, "what the link takes ahead of its rate"
    assert rates(looks) == pytest.approx([LINK_PPS / 2] * 2, rel=0.02)
    assert sum(rates(not_)) == pytest.approx(LINK_PPS, rel=0.01)


def test_shares_change_in_their_time() -> None:
    now = "policy: {one: {link_weight: 9}, two: {link_weight: 1}}"
    then = "{at: 500ms, policy: {one: {link_weight: 1}, two: {link_weight: 9}}}"
    seen = trial(f"scheduler: drr, uplink_rate: 100Mbps, {now}, changes: [{then}]", 20, 20)
    assert seen.series is not None
    first, second = (of.received for of in seen.series.routers)
    bins_ms = seen.series.bin_ns // MS
    # The warm-up of 1 s, and the first half of the window; a queue of one is 1,256 / 813 s long.
    for begin_ms, end_ms, share in ((1000, 1500, 0.9), (1510, 2000, 0.1)):
        bins = slice(begin_ms // bins_ms, end_ms // bins_ms)
        got = sum(first[bins]), sum(second[bins])
        assert got[0] / sum(got) == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize(
    ("arm", "mean", "largest", "exact"), [("wrr", 4.23, 15.06, 0.02), ("drr", 0.03, 0.08, 0.03)]
)
def test_priorities_that_change_each_second(
    arm: str, mean: float, largest: float, exact: float
) -> None:
    """As measured with real guests, percentage points (benches/RESULTS.md, 2026-11-26)."""
    spec = load_experiment(EXPERIMENTS / "papers" / "adamczyk2012" / "fig10-priorities.yaml")
    (chosen,) = (each for each in spec.resolved_arms() if each.name == arm)
    routers = spec.points()[0].routers
    demands = tuple(Demand(router, 8e3, None) for router in routers)
    setting = Setting(demands, spec.trial.warmup_ns, spec.trial.duration_ns, "test")
    model = build(find_host("veth"), spec, chosen, list(routers), setting)
    series = observe(model, setting, simulate_model(model.json, "the test")).series
    assert series is not None
    first, second = (of.received for of in series.routers)
    each = 1000 * MS // series.bin_ns
    begin = setting.warmup_ns // series.bin_ns
    off = []
    for turn in range(30):
        bins = slice(begin + turn * each, begin + (turn + 1) * each)
        mine, others = sum(first[bins]), sum(second[bins])
        off.append(100 * abs(mine / (mine + others) - (30 - turn) / 31))
    assert sum(off) / len(off) == pytest.approx(mean, abs=exact)
    assert max(off) == pytest.approx(largest, abs=exact)


def test_a_link_without_a_rate_is_as_fast_as_the_line() -> None:
    got = rates(trial("scheduler: drr", 20, 20))
    assert got == pytest.approx([20e3, 20e3], rel=1e-3)


def test_one_core_is_shared_by_guests_and_back_end() -> None:
    """An overload is lost; the back-end's time is divided by the frames that it took."""
    seen = trial("scheduler: drr", 2000, 2000, size=64, profile="veth")
    for router in seen.routers:
        assert router.received_frames > 0
        assert router.lost["nic_queue"] + router.lost["router_queue"] > 0
        assert router.cpu_ns is not None
    (core,) = seen.cores
    assert core.idle < 0.01
    assert core.parts is not None
    assert core.parts["shared"] > 0.1


def test_the_back_end_is_drawn() -> None:
    spec = experiment("scheduler: drr")
    drawing: Drawing = draw(
        find_host(None), spec, spec.resolved_arms()[0], spec.points()[0].routers
    )
    assert "network back-end" in {node.label for node in drawing.nodes}

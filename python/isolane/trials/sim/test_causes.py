"""Own and caused CPU time of simulated routers: the same rule, whatever the path."""

from __future__ import annotations

from typing import Any

import pytest

from isolane.spec import parse_experiment
from isolane.spec.demands import Demand
from isolane.trials.backend import Observation, Setting
from isolane.trials.sim.build import SimModel, build
from isolane.trials.sim.catalogue import find_host
from isolane.trials.sim.engine import simulate_model
from isolane.trials.sim.observe import observe

pytestmark = pytest.mark.native

SPEC = """\
isolane: 1
name: causes
traffic: {{frame_size: 64, line_rate: 10Gbps}}
routers: [{{name: a, {kind}}}, {{name: b, {kind}}}]
load: {{a: 100kpps, b: 100kpps}}
"""
CONTAINERS = tuple(
    f"kind: container, path: {p}" for p in ("direct", "bridge", "macvlan", "isolane")
)
MACHINES = tuple(
    f"kind: vm, path: {path}, nic: {nic}"
    for path, nic in (("bridge", "virtio"), ("macvtap", "e1000"), ("sriov-macvtap", "virtio"))
)


def trial(kind: str, a_pps: float, b_pps: float) -> tuple[SimModel, Observation, Any]:
    spec = parse_experiment(SPEC.format(kind=kind))
    arm, routers = spec.resolved_arms()[0], spec.points()[0].routers
    rates = {"a": a_pps, "b": b_pps}
    demands = tuple(Demand(router, rates[router.name], None) for router in routers)
    setting = Setting(demands, 5_000_000, 40_000_000, "causes")
    model = build(find_host("rathore2013"), spec, arm, routers, setting)
    found = simulate_model(model.json, "the test")
    return model, observe(model, setting, found), found


@pytest.mark.parametrize("kind", [*CONTAINERS, *MACHINES])
@pytest.mark.parametrize("b_pps", [30e3, 900e3])
def test_own_shared_and_rest_are_the_window(kind: str, b_pps: float) -> None:
    _, seen, found = trial(kind, 60e3, b_pps)
    for core in seen.cores:
        assert core.parts is not None
        assert sum(core.parts.values()) == pytest.approx(1, abs=2e-3), core.parts
    busy = sum(core["busy_ns"] - core["irq_ns"] for core in found["cores"])
    caused = sum(router.cpu_caused_ns or 0 for router in seen.routers)
    assert 0 < caused <= busy * 1.002
    for router in seen.routers:
        assert router.cpu_parts is not None
        assert sum(router.cpu_parts.values()) == router.cpu_caused_ns
        assert router.cpu_ns == router.cpu_parts.get("own")


@pytest.mark.parametrize("kind", CONTAINERS)
def test_equal_routers_cause_the_same_per_frame(kind: str) -> None:
    _, seen, _ = trial(kind, 60e3, 60e3)
    one, two = (router.cpu_caused_ns_per_frame for router in seen.routers)
    assert one is not None
    assert one == pytest.approx(two, rel=0.02)


def test_what_is_own_depends_on_the_path() -> None:
    own = {kind: trial(kind, 60e3, 60e3)[1].routers[0].cpu_parts for kind in CONTAINERS}
    direct, bridge, macvlan, isolane = (set(own[kind] or {}) for kind in CONTAINERS)
    assert direct == {"own"}
    assert bridge == {"receive", "backlog"}
    assert macvlan == {"receive"}
    assert isolane == {"own", "receive"}


def test_a_managed_neighbour_that_is_dropped_pays_for_its_drops() -> None:
    _, quiet, _ = trial(CONTAINERS[3], 60e3, 60e3)
    _, flood, _ = trial(CONTAINERS[3], 60e3, 2e6)
    before, after = quiet.routers[0].cpu_parts, flood.routers[0].cpu_parts
    assert before is not None
    assert after is not None
    assert after["receive"] == pytest.approx(before["receive"], rel=0.25), "its own frames only"
    neighbour = flood.routers[1].cpu_parts
    assert neighbour is not None
    assert neighbour["receive"] > 10 * after["receive"]

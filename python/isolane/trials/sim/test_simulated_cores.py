"""Linux's CPU schedulers on a simulated host, and what a policy makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from isolane.errors import SpecError
from isolane.spec import parse_experiment
from isolane.spec.demands import Demand
from isolane.trials.backend import Observation, Setting
from isolane.trials.sim.build import build
from isolane.trials.sim.catalogue import find_host
from isolane.trials.sim.engine import simulate_model
from isolane.trials.sim.observe import observe

pytestmark = pytest.mark.native

PROFILES = Path(__file__).parent / "profiles"
TEXT = """\
isolane: 1
name: busy
dut: {{receive: threaded, moderation: 50us}}
traffic: {{frame_size: 64, line_rate: 10Gbps}}
routers:
  - {{name: victim, role: victim}}
  - {{name: neighbour, role: aggressor, work: [none, cpu]}}
load: {{victim: {victim}kpps, neighbour: {neighbour}kpps}}
arms: [{{name: one, path: {path}{policies}}}]
"""
POLICIES = ", policy: {victim: {cpu_weight: 100}, neighbour: {cpu_weight: 100}}"


def profile_of(folder: Path, scheduler: str) -> str:
    """Write profile veth with another CPU scheduler."""
    text = (PROFILES / "veth.yaml").read_text()
    if scheduler == "cfs":
        text = text.replace("scheduler: eevdf", "scheduler: cfs").replace(
            "  slice_ns: 1400000\n", ""
        )
    (folder / "mine.yaml").write_text(text)
    return str(folder / "mine.yaml")


def trial(
    profile: str,
    *,
    path: str = "direct",
    managed: bool = False,
    work: bool = True,
    kpps: Mapping[str, int] | None = None,
) -> tuple[Observation, dict[str, Any]]:
    """Simulate, and return what was seen and the model."""
    loads = {"victim": 100, "neighbour": 0, **(kpps or {})}
    policies = POLICIES if managed else ""
    text = TEXT.format(path=path, policies=policies, **loads)
    spec = parse_experiment(text)
    arm, point = spec.resolved_arms()[0], spec.points()[int(work)]
    demands = tuple(Demand(r, loads[r.name] * 1e3, None) for r in point.routers)
    setting = Setting(demands, 60_000_000, 400_000_000, "test")
    model = build(find_host(profile), spec, arm, list(point.routers), setting)
    seen = observe(model, setting, simulate_model(model.json, "the test"))
    assert seen.conserved
    return seen, model.json


def lost(seen: Observation) -> int:
    """Return the victim's frames of the window that did not arrive in it."""
    victim = seen.routers[0]
    return victim.offered_frames - victim.received_frames


def test_a_neighbours_program_takes_a_routers_frames_under_eevdf_and_not_under_cfs(
    tmp_path: Path,
) -> None:
    loads = {"victim": 120, "neighbour": 100}
    under_cfs, _ = trial(profile_of(tmp_path, "cfs"), kpps=loads)
    assert lost(under_cfs) < 10, "who has slept goes first"
    under_eevdf, model = trial("veth", kpps=loads)
    assert lost(under_eevdf) > 1000
    assert under_eevdf.routers[0].lost["nic_queue"] >= lost(under_eevdf)
    assert model["cores"][0]["scheduler"] == {
        "kind": "eevdf", "slice_ns": 1_400_000, "irq_time_accounting": False
    }  # fmt: skip
    idle, _ = trial("veth", work=False, kpps=loads)
    assert lost(idle) < 10


@pytest.mark.parametrize(("path", "wire"), [("direct", "own"), ("isolane", "shared")])
def test_the_pacemaker_ends_turns_beside_a_program(path: str, wire: str) -> None:
    seen, model = trial("veth", path=path, managed=True, kpps={"neighbour": 150})
    assert lost(seen) < 10
    scheduler = model["cores"][0]["scheduler"]
    assert scheduler["beat_ns"] == 150_000
    threads = [of for of in model["contexts"] if of["kind"] == "thread"]
    assert {of["slice_ns"] for of in threads} == {100_000}
    batches = {of["name"] for of in threads if of.get("batch")}
    assert len(batches) == (2 if wire == "own" else 0), "on wires of their own none wakes first"
    program = next(of for of in model["contexts"] if of["name"] == "work/neighbour")
    assert "slice_ns" not in program


def test_without_a_program_it_beats_for_wires_of_their_own(tmp_path: Path) -> None:
    def beats(path: str, profile: str = "veth", neighbour: int = 0) -> int | None:
        kpps = {"neighbour": neighbour}
        _, model = trial(profile, path=path, managed=True, work=False, kpps=kpps)
        scheduler = model["cores"][0]["scheduler"]
        beat_ns: int | None = scheduler.get("beat_ns", scheduler.get("tick_ns"))
        return beat_ns

    assert beats("direct", neighbour=100) == 150_000
    assert beats("direct") == 1_000_000, "it looks that often"
    assert beats("isolane", neighbour=100) is None, "the NIC's thread wakes up as often"
    cfs = profile_of(tmp_path, "cfs")
    assert beats("direct", cfs, neighbour=100) == 150_000
    assert beats("direct", cfs) is None, "who wakes goes first"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            "  slice_ns: 1400000",
            "  latency_ns: 6000000",
            "host.latency_ns: scheduler eevdf has no such figure; accepted: none",
        ),
        (
            "scheduler: eevdf",
            "scheduler: cfs",
            "host.slice_ns: scheduler cfs has no such figure; accepted: none",
        ),
        (
            "kernel: linux-6",
            "kernel: linux-3.2",
            "host.scheduler: linux-3.2 has no EEVDF scheduler; accepted: cfs, or kernel: linux-6",
        ),
        (
            "slice_ns: 1400000",
            "slice_ns: 10",
            "host.slice_ns: a turn cannot last 10 ns; accepted: 1000 to 1000000000",
        ),
        (
            "moderation_ns: 50000, timer",
            "moderation_ns: 10, timer",
            "moderation_ns: a timer cannot end after 10 ns; accepted: 1000 or more",
        ),
    ],
)
def test_a_profile_has_figures_of_its_own_scheduler(
    before: str, after: str, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text((PROFILES / "veth.yaml").read_text().replace(before, after, 1))
    with pytest.raises(SpecError) as error:
        find_host(str(file))
    assert message in str(error.value)
    assert error.value.exit_code == 2


def test_under_cfs_a_program_makes_no_beats_and_takes_nothing(tmp_path: Path) -> None:
    seen, model = trial(
        profile_of(tmp_path, "cfs"), path="isolane", managed=True, kpps={"neighbour": 150}
    )
    assert "tick_ns" not in model["cores"][0]["scheduler"]
    assert lost(seen) < 10


def test_the_core_of_the_nic_has_beats_beside_a_program_there() -> None:
    text = TEXT.format(path="isolane", policies=POLICIES, victim=100, neighbour=0)
    text = text.replace("dut: {", "dut: {cores: 2, ")
    # The first router is on core 0, beside the thread of the NIC.
    first, second = (line for line in text.splitlines() if "role: " in line)
    text = text.replace(f"{first}\n{second}", f"{second}\n{first}")
    spec = parse_experiment(text)
    arm, point = spec.resolved_arms()[0], spec.points()[1]
    demands = tuple(Demand(r, 100e3 if r.name == "victim" else 0.0, None) for r in point.routers)
    setting = Setting(demands, 60_000_000, 100_000_000, "test")
    model = build(find_host("veth"), spec, arm, list(point.routers), setting)
    beats = [core["scheduler"].get("beat_ns") for core in model.json["cores"]]
    assert beats == [150_000, None]

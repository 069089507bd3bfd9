"""Runs on a simulated host, with the real simulator."""

from __future__ import annotations

import math
from contextlib import nullcontext
from pathlib import Path
from typing import NoReturn

import pytest

from isolane.errors import NotSupported
from isolane.results.folder import JOURNAL, RunFolder
from isolane.results.results import Summary
from isolane.run.runner import Run
from isolane.spec import Experiment, parse_experiment
from isolane.spec.demands import Demand
from isolane.spec.kinds import NICS, SIMULATED
from isolane.trials.backend import Expected, Setting
from isolane.trials.sim import sim_backend
from isolane.trials.sim.build import build
from isolane.trials.sim.catalogue import find_host
from isolane.trials.sim.sim_backend import SimBackEnd

pytestmark = pytest.mark.native

TWO = """\
isolane: 1
name: two
dut: {{cores: {cores}}}
traffic: {{frame_size: {size}, line_rate: 1Gbps}}
routers:
  - {{name: a, {kind}, role: victim}}
  - {{name: b, {kind}, role: aggressor}}
load: {{a: {a}, b: {b}}}
trial: {{duration: 50ms, warmup: 10ms, repeats: {repeats}, seed: {seed}}}
"""

KINDS = [
    (f"kind: {kind}, path: {path}{f', nic: {nic}' if nic else ''}", kind)
    for kind, paths in SIMULATED.items()
    for path in paths
    for nic in (NICS[path] if kind == "vm" else (None,))
    if kind != "native" and path != "dom0"
]


def experiment(kind: str = "kind: container, path: sriov", **changes: object) -> Experiment:
    values: dict[str, object] = {
        "a": "100kpps", "b": "[100kpps, 1000kpps]", "cores": 1, "size": 64, "repeats": 2, "seed": 1,
    }  # fmt: skip
    return parse_experiment(TWO.format(kind=kind, **{**values, **changes}))


def run(spec: Experiment, folder: Path, profile: str | None = None, jobs: int = 1) -> Summary:
    back_end = SimBackEnd(spec, profile, jobs)
    back_end.check(spec.resolved_arms())
    try:
        made = RunFolder.create(folder, spec.to_yaml(), back_end.host())
        return Run(spec, back_end, made, clock=lambda: 0.0).execute()
    finally:
        back_end.close()


@pytest.mark.parametrize(("kind", "word"), KINDS)
@pytest.mark.parametrize("size", [64, "imix"])
def test_every_path_forwards_to_the_frame(
    kind: str, word: str, size: object, tmp_path: Path
) -> None:
    spec = experiment(kind, size=size, a="2kpps", b="[1kpps, 20kpps]", repeats=1)
    profile = "ahn" if word == "xen" else "rathore2013"
    run(spec, tmp_path / "run", profile)
    trials = RunFolder.open(tmp_path / "run").trials()
    assert len(trials) == 2
    for trial in trials:
        assert trial.status == "ok", trial.reason
        assert trial.conserved
        for router in trial.routers:
            assert router.offered_total > 0
            assert router.offered_total == router.received_total + sum(router.lost.values())
        for core in trial.cores:
            assert core.user + core.system + core.softirq + core.idle == pytest.approx(1)
    light = trials[0] if trials[0].point == 0 else trials[1]
    assert all(router.received_frames > 0 for router in light.routers)


def test_overload_is_lost_at_the_nic_and_every_frame_is_accounted_for(tmp_path: Path) -> None:
    run(experiment(b="[200kpps, 1388kpps]"), tmp_path / "run")
    trials = RunFolder.open(tmp_path / "run").trials()
    lost = [trial.routers[1].lost for trial in trials if trial.point == 1]
    assert all(drops["nic_queue"] > 1000 for drops in lost)
    assert all(drops["unaccounted"] == 0 for drops in lost)


def test_the_same_seed_gives_the_same_bytes_in_processes_or_not(tmp_path: Path) -> None:
    for name, jobs in (("one", 1), ("two", 2)):
        run(experiment(), tmp_path / name, jobs=jobs)
    run(experiment(seed=2), tmp_path / "other")
    one, two, other = ((tmp_path / name / JOURNAL).read_bytes() for name in ("one", "two", "other"))
    assert one == two
    assert one != other


@pytest.mark.parametrize(
    ("offered_pps", "jobs", "begun"),
    [(1e7, None, True), (1e3, None, False), (1e3, 2, True), (1e7, 1, False)],
)
def test_worker_processes_begin_for_many_frames_or_when_asked_for(
    offered_pps: float, jobs: int | None, begun: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_here(jobs: int) -> NoReturn:
        raise NotSupported(f"{jobs} processes")

    monkeypatch.setattr(sim_backend, "workers", lambda jobs: jobs or 2)  # whatever this host has
    monkeypatch.setattr(sim_backend, "executor", none_here)
    spec = experiment()
    routers = tuple(spec.points()[0].routers)
    demands = tuple(Demand(router, offered_pps, None) for router in routers)
    setting = Setting(demands, warmup_ns=10_000_000, window_ns=50_000_000)
    expected = [Expected(spec.resolved_arms()[0], routers, setting)] * 2
    with pytest.raises(NotSupported, match="2 processes") if begun else nullcontext():
        SimBackEnd(spec, jobs=jobs).foresee(expected)


def test_loads_in_x_are_multiples_of_the_simulated_capacity(tmp_path: Path) -> None:
    summary = run(experiment(a="0.2x", b="[0.1x, 0.7x]", repeats=1), tmp_path / "run")
    assert summary.capacity is not None
    assert 0.5e6 < summary.capacity.pps.median < 1.5e6
    assert {cell.load_x for cell in summary.cells} == {0.2, 0.1, 0.7}
    assert any("prediction" in gap.why for gap in summary.not_measured)
    assert summary.simulated == "rathore2013"


def test_two_cores_forward_more_than_one(tmp_path: Path) -> None:
    def together(cores: int) -> float:
        loads = {"a": "700kpps", "b": "[700kpps, 701kpps]"}
        summary = run(experiment(cores=cores, repeats=1, **loads), tmp_path / f"{cores}")
        return max(found.throughput_pps.median for found in summary.aggregates)

    assert together(2) > 1.1 * together(1)


def test_xen_beside_another_kind_is_not_supported() -> None:
    text = TWO.format(
        kind="path: bridge", a="1kpps", b="1kpps", cores=1, size=64, repeats=1, seed=1
    ).replace("{name: a, path: bridge", "{name: a, kind: xen, path: bridge")
    spec = parse_experiment(text)
    with pytest.raises(NotSupported, match="kind xen cannot be simulated beside others"):
        SimBackEnd(spec, "ahn").check(spec.resolved_arms())


def test_loads_in_x_beyond_the_profiles_nics_are_told(tmp_path: Path) -> None:
    """What 1x is comes out in the run; ten times as much is more than 1 Gbit/s in any case."""
    fast = experiment(a="0.1x", b="[0x, 10x]", repeats=1)
    traffic = fast.traffic.model_copy(update={"line_rate_bps": 10e9})
    spec = fast.model_copy(update={"traffic": traffic})
    gaps = [gap.why for gap in run(spec, tmp_path / "fast", "rathore2013").not_measured]
    told = [why for why in gaps if "the NICs of profile rathore2013 carry 1 Gbps" in why]
    assert len(told) == 1
    assert "and the simulated wires 10 Gbps (traffic.line_rate)" in told[0]
    slow = run(experiment(repeats=1), tmp_path / "slow", "rathore2013")
    assert not [gap for gap in slow.not_measured if "the NICs of profile" in gap.why]


def test_the_series_of_a_trial_has_every_frame(tmp_path: Path) -> None:
    run(experiment(repeats=1), tmp_path / "run")
    folder = RunFolder.open(tmp_path / "run")
    trials, series = folder.trials(), folder.series()
    assert [one.trial for one in series] == [trial.trial for trial in trials]
    for trial, one in zip(trials, series, strict=True):
        assert (one.bin_ns, list(one.window())) == (10_000_000, [1, 2, 3, 4, 5])
        for router, of_router in zip(trial.routers, one.routers, strict=True):
            assert sum(of_router.sent) == router.offered_total
            assert sum(of_router.received) == router.received_total
            sent_in_window = sum(of_router.sent[i] for i in one.window())
            assert sent_in_window == router.offered_frames
            assert router.window_shift is None, "50 ms are too short"
            assert router.delay is not None
            p99_ns = [d for d in of_router.delay_p99_ns if d is not None]
            assert router.delay.arrived_p50_ns is not None
            assert max(p99_ns) >= 0.93 * router.delay.arrived_p50_ns
            if math.isfinite(router.delay.p99_ns):  # else more than 1 % were lost
                assert max(p99_ns) >= 0.93 * router.delay.p99_ns


def test_patterns_say_when_frames_are_sent(tmp_path: Path) -> None:
    patterns = "[constant, poisson, bursts 5ms/20ms, ramp, from 30ms]"
    kind = f"kind: container, path: sriov, traffic: {{pattern: {patterns}}}"
    spec = experiment(kind, a="100kpps", b=f"[{', '.join(['100kpps'] * 5)}]", repeats=1)
    run(spec, tmp_path / "run")
    opened = RunFolder.open(tmp_path / "run")
    found = {trial.routers[1].pattern: trial.routers[1] for trial in opened.trials()}
    sent = {
        trial.routers[1].pattern: series.routers[1].sent
        for trial, series in zip(opened.trials(), opened.series(), strict=True)
    }
    assert set(found) == {"constant", "poisson", "bursts 5ms/20ms", "ramp", "from 30ms"}
    for pattern, router in found.items():
        # 50 ms have two bursts and a half: the warm-up of 10 ms takes one.
        wanted = 0.8 * 5000 if "bursts" in pattern else 5000
        assert abs(router.offered_frames - wanted) < 300, pattern
    assert [frames > 0 for frames in sent["bursts 5ms/20ms"][:6]] == [True, False] * 3
    # 2.5 times the load for the last 20 ms of a window of 50, after a warm-up of 10.
    assert sent["from 30ms"][:4] == (0, 0, 0, 0)
    assert sent["from 30ms"][4:6] == pytest.approx((2500, 2500), rel=0.011)
    assert list(sent["ramp"][:6]) == sorted(sent["ramp"][:6])
    assert len(set(sent["constant"][:6])) <= 2 < len(set(sent["poisson"][:6]))


def test_what_frames_are_is_not_simulated(tmp_path: Path) -> None:
    kind = "kind: container, path: sriov, traffic: {pattern: poisson+fragments}"
    spec = experiment(kind, b="100kpps")
    with pytest.raises(NotSupported, match=r"router a: pattern poisson\+fragments cannot be sim"):
        run(spec, tmp_path / "run")


def test_a_simulated_host_has_no_capture_points(tmp_path: Path) -> None:
    plain = experiment(b="100kpps", repeats=1)
    for keys, missing in (
        ((), []),
        (("capture_points",), ["Where the time goes"]),
        (("capture",), ["Where the time goes, and capture files"]),
    ):
        trial = plain.trial.model_copy(update=dict.fromkeys(keys, True))
        folder = tmp_path / "".join(("run", *keys))
        told = run(plain.model_copy(update={"trial": trial}), folder).not_measured
        assert [gap.what for gap in told if "time goes" in gap.what] == missing
        assert not (folder / "captures").exists()


@pytest.mark.parametrize(
    ("keys", "refused"),
    [
        ("hypervisor: uml", "hypervisor uml cannot be simulated, only kvm"),
        ("hypervisor: tcg", "hypervisor tcg cannot be simulated, only kvm"),
        ("nic: vector", "NIC model vector"),
        ("image: none.qcow2", "router a with an image of one's own cannot be simulated"),
        ("hypervisor: kvm, vcpus: 2", "router a with 2 virtual CPUs cannot be simulated"),
    ],
)
def test_a_hypervisor_without_a_model_is_refused(keys: str, refused: str) -> None:
    spec = experiment(f"kind: vm, path: tap, {keys}")
    with pytest.raises(NotSupported, match=refused):
        SimBackEnd(spec).check(spec.resolved_arms())
    known = experiment("kind: vm, path: tap, hypervisor: kvm")
    SimBackEnd(known).check(known.resolved_arms())


@pytest.mark.parametrize("word", ["driver", "socket", "off"])
def test_an_early_drop_is_not_in_the_model(word: str) -> None:
    text = TWO.format(
        kind="kind: vm, hypervisor: uml", a="1kpps", b="1kpps", cores=1, size=64, repeats=1, seed=1
    )
    spec = parse_experiment(f"{text}\narms: [{{name: n, path: netback, early_drop: {word}}}]\n")
    (arm,) = spec.resolved_arms()
    assert arm.uplink.early_drop == word
    if word == "off":
        SimBackEnd(spec).check([arm])
        return
    with pytest.raises(NotSupported, match=f"arm n: early_drop {word} cannot be simulated, only"):
        SimBackEnd(spec).check([arm])


@pytest.mark.parametrize(
    ("kind", "profile"),
    [
        ("path: bridge, work: cpu", "veth"),
        ("path: macvlan, work: cpu", "veth"),
        ("kind: vm, path: macvtap", "rathore2013"),
    ],
)
def test_routers_on_one_wire_are_on_one_core_as_live(kind: str, profile: str) -> None:
    loads = {"a": "1kpps", "b": "1kpps", "cores": 2, "size": 64, "repeats": 1, "seed": 1}
    text = TWO.format(kind=kind, **loads).replace("role: victim", "role: router")
    spec = parse_experiment(text.replace("role: aggressor", "role: router"))
    (arm,), (point,) = spec.resolved_arms(), spec.points()
    demands = tuple(Demand(router, 1e5, None) for router in point.routers)
    setting = Setting(demands, 10_000_000, 50_000_000, "x")
    model = build(find_host(profile), spec, arm, list(point.routers), setting)
    cores = {core for context in model.simulation.contexts for core in context.cores}
    assert cores == {"cpu0"}


def test_the_line_carries_frames_of_the_router_that_defines_1x() -> None:
    text = TWO.format(kind="path: direct, traffic: {frame_size: 64}", a="1x", b="[0x, 2x]",
                      cores=1, size=1518, repeats=1, seed=1)  # fmt: skip
    spec = parse_experiment(text)
    found = SimBackEnd(spec, "veth").overload_pps(spec.resolved_arms()[0])
    assert found == pytest.approx(1e9 / 8 / 84, rel=1e-6), "smallest frames of 1 Gbit/s"


def test_what_has_no_influence_is_told(tmp_path: Path) -> None:
    text = TWO.format(
        kind="path: direct", a="1kpps", b="1kpps", cores=1, size=84, repeats=1, seed=1
    )
    text = text.replace("{frame_size", "{ip: 6, frame_size").replace("seed: 1", "cpu_profile: 99")
    told = {gap.what for gap in run(parse_experiment(text), tmp_path / "run").not_measured}
    assert {"What IPv6 costs", "Where the processor goes"} <= told

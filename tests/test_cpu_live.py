"""CPU time on real test beds: it adds up, the kernel agrees, and equal arms cause the same."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest
from isolane.run.folder import RunFolder
from isolane.run.results import Trial

from tests.live import isolane

pytestmark = [pytest.mark.root, pytest.mark.native, pytest.mark.usefixtures("needs_root")]

EXPERIMENT = """\
isolane: 1
name: cpu
traffic: {frame_size: 64}
routers: [{name: one, role: victim}, {name: two, role: aggressor}]
load: {one: 20kpps, two: [20kpps, 60kpps]}
arms:
  - {name: direct, path: direct}
  - {name: threads, path: direct, receive: threaded}
  - {name: bridge, path: bridge}
  - {name: macvlan, path: macvlan}
  - {name: isolane, path: isolane}
trial: {duration: 300ms, warmup: 50ms, repeats: 1, seed: 1, null_dut: false}
"""
SAME_ARMS = """\
isolane: 1
name: same-arms
traffic: {frame_size: 64}
routers: [{name: one, path: macvlan}, {name: two, path: macvlan}]
load: {one: 20kpps, two: 20kpps}
arms: [{name: first}, {name: second}]
trial: {duration: 200ms, warmup: 50ms, repeats: 9, seed: 1, null_dut: false}
"""
NOISE = 0.25
"""Two identical arms, medians of nine short trials on a machine that is busy with other things."""


def run(text: str, folder: Path) -> list[Trial]:
    experiment = folder / "experiment.yaml"
    experiment.write_text(text)
    done = isolane("run", experiment, "--output", folder / "run")
    assert done.returncode == 0, done.stderr
    return RunFolder.open(folder / "run").trials()


def test_each_path_charges_its_parts_to_its_routers(tmp_path: Path) -> None:
    trials = run(EXPERIMENT, tmp_path)
    assert len({(trial.arm, trial.point) for trial in trials}) == 10, "invalid ones are repeated"
    for trial in trials:
        where = f"{trial.arm}, {trial.point_label}: {trial.reason}"
        (core,) = (core for core in trial.cores if core.part == "dut")
        assert core.parts is not None, where
        assert all(audit.events > 0 for audit in trial.cpu_audit), where
        one, two = trial.routers
        if trial.arm in ("bridge", "macvlan"):
            assert one.cpu_ns is None, where
            assert core.parts["own"] == 0, where
            parts = {"receive", "backlog"} if trial.arm == "bridge" else {"receive"}
        else:
            assert one.cpu_ns is not None, where
            parts = {"own", "receive"} if trial.arm == "isolane" else {"own"}
        for router in (one, two):
            assert router.cpu_parts is not None, where
            assert set(router.cpu_parts) - {"transmit"} == parts, where
            assert sum(router.cpu_parts.values()) == router.cpu_caused_ns, where


@pytest.mark.acceptance
def test_own_shared_and_rest_add_up_on_every_path_and_the_kernel_agrees(tmp_path: Path) -> None:
    for trial in run(EXPERIMENT, tmp_path):
        where = f"{trial.arm}, {trial.point_label}: {trial.reason}"
        (core,) = (core for core in trial.cores if core.part == "dut")
        assert core.parts is not None, where
        assert sum(core.parts.values()) == pytest.approx(1, abs=0.005), where
        for audit in trial.cpu_audit:
            used = trial.cores[audit.core].parts
            assert used is not None, where
            on_top = used["interrupts"] + used["steal"]  # see Agreement
            assert abs(audit.tasks_difference) < 0.02 + on_top, where
            assert 0 < audit.overhead < 0.2, where
        assert trial.cpu_audit[core.core].idle_difference == pytest.approx(0, abs=0.2), where
        caused = sum(router.cpu_caused_ns or 0 for router in trial.routers)
        told = (core.parts["own"] + core.parts["shared"]) * trial.window_s * 1e9
        # The receiver's end is polled elsewhere, and some polls move under pressure.
        assert caused == pytest.approx(told, rel=0.05), where
        assert all(router.cpu_caused_ns_per_frame for router in trial.routers), where


@pytest.mark.acceptance
def test_identical_arms_cause_the_same_time_per_frame(tmp_path: Path) -> None:
    costs: dict[tuple[str, str], list[float]] = {}
    for trial in run(SAME_ARMS, tmp_path):
        for router in trial.routers:
            assert router.cpu_caused_ns_per_frame is not None
            found = costs.setdefault((trial.arm, router.router), [])
            found.append(router.cpu_caused_ns_per_frame)
    medians = {key: statistics.median(values) for key, values in costs.items()}
    for name in ("one", "two"):
        ratio = medians["first", name] / medians["second", name]
        assert ratio == pytest.approx(1, abs=NOISE), medians
    assert medians["first", "one"] == pytest.approx(medians["first", "two"], rel=0.02)

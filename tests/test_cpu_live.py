"""CPU time on real test beds: it adds up, the kernel agrees, and equal arms cause the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from isolane.results.folder import RunFolder
from isolane.results.results import Trial

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
            seen = set(router.cpu_parts) - {"transmit"}
            # On a host without time the generator may have sent nothing of it in the window.
            assert seen == parts if router.generated_frames else seen <= parts, where
            assert sum(router.cpu_parts.values()) == router.cpu_caused_ns, where

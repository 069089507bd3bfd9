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
trial: {duration: DURATION, warmup: 50ms, repeats: 1, seed: 1, null_dut: false}
"""


def run(text: str, folder: Path) -> list[Trial]:
    experiment = folder / "experiment.yaml"
    experiment.write_text(text)
    done = isolane("run", experiment, "--output", folder / "run")
    assert done.returncode == 0, done.stderr
    return RunFolder.open(folder / "run").trials()


DURATIONS = ("300ms", "1200ms", "4800ms")
"""Of one run after the other: the machine may have no core for routers in a short window."""


def test_each_path_charges_its_parts_to_its_routers(tmp_path: Path) -> None:
    complete: set[str] = set()
    for duration in DURATIONS:
        (folder := tmp_path / duration).mkdir()
        trials = run(EXPERIMENT.replace("DURATION", duration), folder)
        points = {(trial.arm, trial.point) for trial in trials}
        assert len(points) == 10, "invalid ones are repeated"
        complete |= {trial.arm for trial in trials if has_all_its_parts(trial)}
        if complete == {arm for arm, _ in points}:
            return
    pytest.fail(f"parts of routers are missing on all arms but {complete}")


def has_all_its_parts(trial: Trial) -> bool:
    """Check what a trial charges its routers; tell whether they were charged for all they do."""
    where = f"{trial.arm}, {trial.point_label}: {trial.reason}"
    (core,) = (core for core in trial.cores if core.part == "dut")
    assert core.parts is not None, where
    if trial.arm in ("bridge", "macvlan"):
        assert all(router.cpu_ns is None for router in trial.routers), where
        assert core.parts["own"] == 0, where
        parts = {"receive", "backlog"} if trial.arm == "bridge" else {"receive"}
    else:
        assert all(router.cpu_ns is not None for router in trial.routers), where
        parts = {"own", "receive"} if trial.arm == "isolane" else {"own"}
    seen = []
    for router in trial.routers:
        assert router.cpu_parts is not None, where
        told = set(router.cpu_parts) - {"transmit"}
        if trial.arm == "isolane" and router.lost["router_queue"]:
            told -= {"drop"}
        assert told <= parts, where
        seen.append(told)
        assert sum(router.cpu_parts.values()) == router.cpu_caused_ns, where
    looked = all(audit.events > 0 for audit in trial.cpu_audit)  # a core may have had nothing to do
    return looked and all(one == parts for one in seen)

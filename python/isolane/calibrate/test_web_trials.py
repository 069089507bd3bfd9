"""Fits to runs of load balancers: each trial is simulated as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from isolane.calibrate.live import job_of, run_problem
from isolane.reproduce.model import Options
from isolane.results.folder import RunFolder
from isolane.spec import parse_experiment
from isolane.trials.sim.test_sim_backend import run
from isolane.trials.sim.trial import run_trial

pytestmark = pytest.mark.native

TEXT = """\
isolane: 1
name: asked
traffic: {mode: http, object: [0B, 64KiB]}
routers: [{name: lb}]
load: {lb: 16conn}
arms: [{name: direct, path: direct}, {name: bridge, path: bridge}]
trial: {duration: 60ms, warmup: 20ms, repeats: 1}
"""


def test_each_trial_has_its_own_object(tmp_path: Path) -> None:
    found = parse_experiment(TEXT)
    run(found, tmp_path / "run", "veth")
    trials = RunFolder.open(tmp_path / "run").trials()
    rates = {}
    for trial in trials:
        job = job_of(found, trial, Options(seed=1, profile="veth"))
        ((router,), (asked,)) = trial.routers, job.routers
        assert router.web is not None
        assert router.web.object_bytes == asked.object_bytes
        rates[trial.arm, asked.object_bytes] = run_trial(job).routers[0].received_pps
        assert rates[trial.arm, asked.object_bytes] == pytest.approx(router.received_pps, rel=0.05)
    assert rates["direct", 0] > 2 * rates["direct", 64 << 10]


def test_costs_of_load_balancers_and_of_who_asks_them_are_fitted(tmp_path: Path) -> None:
    run(parse_experiment(TEXT), tmp_path / "run", "veth")
    problem = run_problem(tmp_path / "run", Options(seed=1, profile="veth"))
    free = set(problem.free)
    assert {"costs.proxy.frame_ns", "costs.proxy.byte_ns"} <= free
    assert {"costs.peer.frame_ns", "costs.peer.byte_ns", "costs.bridge-map.frame_ns"} <= free
    assert "costs.answer.frame_ns" not in free

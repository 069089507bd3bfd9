from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from isolane.trials.sim import sim_backend
from isolane.trials.sim.catalogue import find_host
from tests.live import in_process

pytestmark = pytest.mark.native

RUN = """\
isolane: 1
name: tiny
routers: [{name: a, path: direct}]
load: {a: [200kpps, 3Mpps]}
trial: {duration: 50ms, warmup: 10ms, repeats: 2}
"""


@pytest.mark.slow
def test_a_profile_is_fitted_and_tells_how_far_it_is_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sim_backend, "workers", lambda _: 1)  # a process takes longer to start
    spec, run, profile = tmp_path / "tiny.yaml", tmp_path / "run", tmp_path / "here.yaml"
    spec.write_text(RUN)
    words = ["--on", "sim", "--profile", "veth", "--output", run]
    assert in_process("run", spec, *words).returncode in {0, 3}, "without a victim: no verdict"
    options = ["--trials", "1", "--rounds", "1", "--jobs", "1", "--output"]
    fitted = ("calibrate", run, *options, profile)
    done = in_process(*fitted, "--details")
    assert done.returncode == 0, done.stderr
    assert "Throughput of the trials outside the fit" in done.stdout
    short = in_process(*fitted, "--no-intervals").stdout.splitlines()
    assert short[0].startswith("mean absolute error ")
    assert any(line.startswith("furthest off: ") for line in short)
    assert f"profile: {profile}" in short
    assert len(short) <= 8
    assert (
        "On 2 throughputs (medians of 3 trials) of the run run" in find_host(profile).profile.error
    )
    rounds = re.findall(r"(.*), round (\d+) of at most (\d+):", done.stderr)
    assert rounds
    assert all(int(number) <= int(limit) == 1 for _, number, limit in rounds), done.stderr
    profile.unlink()
    for trials, message in (
        ("x", "accepted: numbers such as"),
        ("1,²", "accepted: numbers such as"),
        ("1," + "9" * 5000, "accepted: numbers such as"),
        ("0,999", "--trials: trial 999 is not in this run; accepted: 0 to"),
        ("0,1,77,3", "--trials: trial 77 is not in this run"),
    ):
        done = in_process("calibrate", run, "--trials", trials, "--output", profile)
        assert done.returncode == 2
        assert message in done.stderr
        assert not profile.exists()
    done = in_process("calibrate", tmp_path, "--output", profile)
    assert done.returncode == 2, done.stderr


def test_json_tells_intervals_what_is_informative_and_the_naive_errors(tmp_path: Path) -> None:
    words = ("--scale", "0.2", "--rounds", "1", "--jobs", "1", "--output", tmp_path / "p.yaml")
    done = in_process("calibrate", "ahn", *words, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [cost["interval"]["state"] for cost in told["costs"]] == ["determined"] * 3
    for cost in told["costs"]:
        interval = cost["interval"]
        assert interval["low"] < cost["value_ns"] < interval["high"]
    metrics = [(figure["metric"], figure["informative"]) for figure in told["figures"]]
    # A core that is always full says nothing of costs.
    assert sorted(metrics) == [("cpu", False)] * 3 + [("throughput", True)] * 3
    assert all(figure["naive_error"] is None for figure in told["figures"]), "one trial an arm"
    score = told["score"]
    assert score["informative_figures"] == 3
    assert score["informative_mean_error"] == pytest.approx(2 * score["mean_error"], rel=1e-3)
    fast = in_process("calibrate", "ahn", *words, "--json", "--no-intervals")
    assert json.loads(fast.stdout)["costs"][0]["interval"] is None


def test_trials_are_those_of_a_run(tmp_path: Path) -> None:
    done = in_process("calibrate", "ahn", "--trials", "0", "--output", tmp_path / "p.yaml")
    assert done.returncode == 2
    assert "--trials: picks trials of a run" in done.stderr
    assert not (tmp_path / "p.yaml").exists()


def test_a_part_that_a_paper_does_not_have_is_refused(tmp_path: Path) -> None:
    done = in_process(
        "calibrate", "rathore2013", "--hold-out", "x", "--output", tmp_path / "p.yaml"
    )
    assert done.returncode == 2
    assert "accepted: 'figures 7 and 8', 'tables 1 and 2'" in done.stderr
    done = in_process("calibrate", "ahn", "--hold-out", "x", "--output", tmp_path / "p.yaml")
    assert done.returncode == 2
    assert not (tmp_path / "p.yaml").exists()

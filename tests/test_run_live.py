"""`isolane run`, from an experiment file to a run folder, with real frames.

On a machine that is busy with other things a trial may give no verdict; all
frames are accounted for nevertheless.
"""

from __future__ import annotations

import json
import signal
from functools import partial
from pathlib import Path

import polars as pl
import pytest
from isolane.results.folder import RunFolder
from isolane.results.results import Summary, Trial
from isolane.results.series import AFTER_NS

from tests.came_through import came_through
from tests.conftest import Tiny
from tests.live import (
    assert_same_host,
    await_free,
    has,
    in_process,
    isolane,
    quiet_host,
    running,
)
from tests.loading import loaded, loading

pytestmark = [pytest.mark.root, pytest.mark.native, pytest.mark.usefixtures("needs_root")]

CONTAINERS = tuple(
    f"{path} {receive}"
    for path in ("direct", "bridge", "macvlan")
    for receive in ("softirq", "threaded")
)
FILES = {
    "experiment.yaml", "host.json", "options.json", "record.jsonl", "report.html", "run.log",
    "series.jsonl", "series.parquet", "summary.json", "trials.jsonl", "trials.parquet",
}  # fmt: skip
NATIVE = """\
isolane: 1
name: host
traffic: {{frame_size: {size}, ip: {ip}}}
routers: [{{name: host, kind: native}}]
load: {{host: 5kpps}}
arms: [{{name: softirq, receive: softirq}}, {{name: threaded, receive: threaded}}]
trial: {{duration: 100ms, warmup: 20ms, repeats: 1, retries: 0, null_dut: false}}
"""
SIZE = {4: "imix", 6: "84"}
"""IMIX holds frames of 64 bytes, which IPv6 with a signature does not fit into."""
RUNS = 5
TURNS = 20
MISPLACED = 0.02
"""Share of frames that may be polled elsewhere: the kernel's backlog moves under pressure."""


def run(experiment: Path, folder: Path, *options: str) -> list[Trial]:
    done = isolane("run", experiment, "--output", folder, *options)
    assert done.returncode == 0, done.stderr
    return RunFolder.open(folder).trials()


def assert_sound(trials: list[Trial], count: int) -> None:
    """Every frame accounted for."""
    assert len(trials) == count
    for trial in trials:
        where = f"{trial.arm}, {trial.point_label}: {trial.reason}"
        assert trial.status != "failed", where
        assert trial.conserved, where
        for router in trial.routers:
            assert router.offered_total == router.received_total + sum(router.lost.values()), where
            assert router.lost["unaccounted"] == 0, where
            assert router.duplicated == router.reordered == 0, where
            # 121 ms at a rate in whole frames per ms; the first frames of streams are spread out
            assert abs(router.offered_total - router.offered_pps * 0.121) <= 1, where
        assert came_through(trial.routers), where
        assert trial.placement is not None


def sound_run(experiment: Path, folder: Path, count: int) -> list[Trial]:
    """Run an experiment until frames were polled on the DUT's cores within a window.

    Somebody else may have those cores for a whole window, and for that of each trial of a run.
    """
    for turn in range(RUNS):
        before = quiet_host()
        trials = run(experiment, folder / f"run-{turn}")
        assert_same_host(before)
        assert_sound(trials, count)
        if any(trial.placement and trial.placement.frames_on_dut for trial in trials):
            return trials
    pytest.fail(f"no frame was polled on the DUT's cores in {RUNS} runs")


@pytest.mark.parametrize("ip", [4, 6])
def test_every_path_forwards_to_the_frame(ip: int, tiny: Tiny, tmp_path: Path) -> None:
    experiment = tiny(arms=CONTAINERS, ip=ip, size=SIZE[ip], load="{one: 5kpps, two: 2kpps}")
    trials = sound_run(experiment, tmp_path, len(CONTAINERS))
    assert {trial.arm for trial in trials} == {arm.replace(" ", "-") for arm in CONTAINERS}


@pytest.mark.parametrize("ip", [4, 6])
def test_the_host_itself_forwards_to_the_frame(ip: int, tmp_path: Path) -> None:
    experiment = tmp_path / "host.yaml"
    experiment.write_text(NATIVE.format(ip=ip, size=SIZE[ip]))
    trials = sound_run(experiment, tmp_path, 2)
    assert {(r.kind, r.path) for trial in trials for r in trial.routers} == {("native", "none")}


def test_the_run_folder_is_complete(tiny: Tiny, tmp_path: Path) -> None:
    experiment, folder = tiny(), tmp_path / "deep" / "run"
    done = isolane("run", experiment, "--output", folder, "--json")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in folder.iterdir()} == FILES
    assert (folder / "experiment.yaml").read_bytes() == experiment.read_bytes()
    summary = Summary.model_validate_json((folder / "summary.json").read_bytes())
    assert Summary.model_validate_json(done.stdout) == summary
    assert summary.complete
    assert summary.trials == 2
    assert summary.trials_failed == 0
    assert {cell.router for cell in summary.cells} <= {"one", "two"}
    assert [drawing.arm for drawing in summary.drawings] == ["direct-softirq"]
    assert f"report: {folder / 'report.html'}" in done.stderr
    opened = RunFolder.open(folder)
    assert opened.host().cores >= 2
    assert opened.summary() == summary
    assert "trial 1: direct-softirq" in (folder / "run.log").read_text()
    assert_parquet_equals_journal(folder, opened.trials())
    assert_series_have_every_frame(opened)
    page = (folder / "report.html").read_text()
    assert ("<script" in page) == bool(summary.cells), "plots wherever a trial was valid"


def assert_series_have_every_frame(opened: RunFolder) -> None:
    for trial, series in zip(opened.trials(), opened.series(), strict=True):
        assert series.trial == trial.trial
        for router, found in zip(trial.routers, series.routers, strict=True):
            assert sum(found.sent) == router.offered_total - router.lost["generator"]
            if sum(found.received) < router.received_total:  # they came after the last bin
                assert router.delay is not None
                assert router.delay.max_ns > AFTER_NS
                continue
            assert sum(found.received) == router.received_total
            here = router.received_frames > 1
            assert (router.gaps is not None) == here or router.receiver_lost


def assert_parquet_equals_journal(folder: Path, trials: list[Trial]) -> None:
    rows = pl.read_parquet(folder / "trials.parquet").to_dicts()
    pairs = [(trial, router) for trial in trials for router in trial.routers]
    assert len(rows) == len(pairs)
    for row, (trial, router) in zip(rows, pairs, strict=True):
        for name in ("trial", "arm", "point", "repeat", "status", "conserved", "window_s"):
            assert row[name] == getattr(trial, name)
        for name in ("router", "offered_total", "received_total", "received_pps", "loss_ratio"):
            assert row[name] == getattr(router, name)
        assert {point: row[f"lost_{point}"] for point in router.lost} == router.lost
        # None where somebody else had the machine for the whole window.
        assert row["delay_p99_ns"] == (router.delay.p99_ns if router.delay else None)
        assert trial.placement is not None
        assert row["placement_ok"] == trial.placement.ok


def test_an_existing_run_is_not_overwritten(tiny: Tiny, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine").write_text("mine")
    await_free()
    done = in_process("run", tiny(), "--output", tmp_path / "run")
    assert done.returncode == 2
    assert "is not empty" in done.stderr
    assert "--resume" in done.stderr
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["mine"]


def test_losses_of_an_overloaded_router_are_charged_to_its_nic(tiny: Tiny, tmp_path: Path) -> None:
    load = "{one: 10kpps, two: 2.5Mpps}"
    for turn in range(TURNS):
        trials = run(tiny(load=load, size="64", duration="200ms"), tmp_path / f"run-{turn}")
        one, two = trials[0].routers
        if two.lost["nic_queue"]:  # else there was too little time to send more than it forwards
            break
    assert trials[0].conserved, trials[0].reason
    assert two.lost["nic_queue"] > 0, "the router kept up with 2.5 Mpps"
    elsewhere = sum(two.lost[point] for point in ("router_queue", "no_route", "unaccounted"))
    assert elsewhere == 0
    assert two.offered_total == two.received_total + sum(two.lost.values())
    assert one.offered_total == one.received_total + sum(one.lost.values())


def test_loads_in_capacities_are_multiples_of_the_one_measured(tiny: Tiny, tmp_path: Path) -> None:
    load = "{one: 0.05x, two: [0x, 0.1x]}"
    done = isolane("run", tiny(load=load, size="64"), "--output", tmp_path / "run")
    folder = RunFolder.open(tmp_path / "run")
    trials = folder.trials()
    assert [trial.purpose for trial in trials[:3]] == ["capacity"] * 3
    if done.returncode != 0:  # a machine too busy to overload one router
        assert "the capacity of one router could not be measured" in done.stderr
        assert "Traceback" not in done.stderr
        return
    summary = folder.summary()
    assert summary is not None
    assert summary.capacity is not None
    assert (summary.capacity.arm, summary.capacity.router) == ("direct-softirq", "one")
    measured = [trial for trial in trials if trial.purpose != "capacity"]
    assert measured
    for trial in measured:
        one = trial.routers[0]
        assert one.load_x == 0.05
        assert one.offered_pps == pytest.approx(0.05 * summary.capacity.pps.median, rel=1e-9)


def test_an_interrupted_run_goes_on_where_it_was(tiny: Tiny, tmp_path: Path) -> None:
    experiment = tiny(arms=("direct softirq", "bridge threaded"), repeats=3)
    for turn in range(RUNS):
        with running(tmp_path / f"one-{turn}", experiment) as (process, target):
            journal = target / "trials.jsonl"
            process.until(partial(has, journal, b"\n", 4))
            if process.end(signal.SIGINT) == 130:
                break
    else:
        pytest.fail(f"each of {RUNS} runs was over before it was interrupted")
    kept = journal.read_bytes()
    earlier = RunFolder.open(target).trials()
    assert 4 <= len(earlier) < 12
    unfinished = RunFolder.open(target).summary()
    assert unfinished is not None
    assert not unfinished.complete

    done = isolane("run", "--resume", target, "--json")
    assert done.returncode == 0, done.stderr
    assert journal.read_bytes().startswith(kept), "what was measured is not measured again"
    trials = RunFolder.open(target).trials()
    keys = [(trial.arm, trial.point, trial.repeat) for trial in trials]
    assert len(keys) == len(set(keys)) == 12
    assert [trial.trial for trial in trials] == list(range(12))
    summary = json.loads(done.stdout)
    assert summary["complete"]
    assert summary["started_unix_s"] == unfinished.started_unix_s
    assert_parquet_equals_journal(target, trials)


def test_a_dry_run_loads_nothing_that_it_can_do_without(tiny: Tiny) -> None:
    done = loading("run", str(tiny()), "--dry-run")
    assert "this host can run it" in done.stderr
    assert not loaded(done) & {
        "polars",
        "numpy",
        "pyroute2",
        "isolane.enforce",
        "isolane.run.runner",
    }


def test_a_dry_run_touches_nothing(tiny: Tiny, tmp_path: Path) -> None:
    before = quiet_host()
    done = in_process("run", tiny(), "--output", tmp_path / "run", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "this host can run it" in done.stderr
    assert not (tmp_path / "run").exists()
    assert_same_host(before)

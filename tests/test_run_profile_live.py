"""`isolane run --cpu-profile`, live: each sample is somebody's, and all of them add up."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path

import pytest
from isolane.cpu_profile.sampled_stacks import HOST, NICS
from isolane.results.folder import RunFolder
from isolane.results.trial_profile import ProfiledStack

from tests.live import assert_same_host, isolane, quiet_host

pytestmark = [pytest.mark.root, pytest.mark.native, pytest.mark.usefixtures("needs_root")]

TEXT = """\
isolane: 1
name: profiled
routers:
  - {name: one, role: victim}
  - {name: two, role: aggressor}
load: {one: [20kpps, 20kpps], two: [0pps, 70kpps]}  # too little to look for a maximum
arms:
  - {name: direct, path: direct, receive: threaded}
  - {name: bridge, path: bridge}
  - {name: isolane, path: isolane}
trial: {duration: 100ms, warmup: 50ms, repeats: 2, retries: 0, null_dut: false}
"""
LOW = """\
isolane: 1
name: low
routers: [{name: one}]
load: {one: [50kpps]}
arms: [{name: macvlan, path: macvlan}]
trial: {duration: 500ms, warmup: 50ms, repeats: 2, retries: 0, null_dut: false}
"""
HZ, LIMIT_S = 997, 300.0


def test_samples_of_trials_add_up_and_stand_in_the_results(tmp_path: Path) -> None:
    file, folder, before = tmp_path / "profiled.yaml", tmp_path / "run", quiet_host()
    file.write_text(TEXT)
    done = isolane("run", file, "--output", folder, "--cpu-profile", HZ, "--details")
    assert done.returncode == 0, done.stderr
    assert_same_host(before)
    run = RunFolder.open(folder)
    trials = {trial.trial: trial for trial in run.trials()}
    profiles = {one.trial: one for one in run.profiles()}
    measured = [n for n, t in trials.items() if t.purpose == "measure" and t.status != "failed"]
    assert sorted(profiles) == sorted(measured)
    assert len(measured) == 12
    for number, profile in profiles.items():
        trial = trials[number]
        assert profile.window_ns == 100_000_000
        assert profile.frames == {r.router: r.received_frames for r in trial.routers}
        assert {one.owner for one in profile.stacks} <= {"one", "two", NICS, HOST}
        assert {one.core for one in profile.stacks} <= set(profile.cores)
        busy = sum(one.samples for one in profile.stacks)
        if profile.clock == "cpu-clock":  # no more than ticks, a fifth more than on average
            assert busy <= len(profile.cores) * (1.2 * HZ * 0.1 + 2)
        assert busy + profile.idle_samples + profile.lost_samples > 0
    summary = run.summary()
    assert summary is not None
    valid = [t for t in trials.values() if t.purpose == "measure" and t.status == "ok"]
    assert sum(one.trials for one in summary.cpu_profiles) == len(valid)
    for one in summary.cpu_profiles:
        found = one.figures
        assert found.all.samples + found.idle_samples == found.all_samples
        assert sum(owner.samples for owner in found.owners) == found.all.samples
        own = [t.trial for t in valid if (t.arm, t.point) == (one.arm, one.point)]
        stacks = [stack for n in own for stack in profiles[n].stacks]
        assert sum(stack.samples for stack in stacks) == found.all.samples
        files = folder / "cpu-profile" / f"{one.arm}-{one.point + 1}"
        lines = files.with_name(f"{files.name}.folded").read_text().splitlines()
        assert sum(int(line.rpartition(" ")[2]) for line in lines) == found.all.samples
        assert files.with_name(f"{files.name}.svg").read_text().startswith("<svg")
        json.loads(files.with_name(f"{files.name}.speedscope.json").read_text())
    if summary.cpu_profiles:
        assert "Where the processor goes at " in done.stdout
        assert "Flame graph: " in (folder / "report.html").read_text()
        assert f"CPU profiles: {folder / 'cpu-profile'}" in done.stdout


def test_softirqs_of_a_core_that_mostly_idles_are_met(tmp_path: Path) -> None:
    """The kernel tells nobody of ticks while the idle task is current, whatever runs on top."""
    file, deadline = tmp_path / "low.yaml", time.monotonic() + LIMIT_S
    file.write_text(LOW)
    found: list[ProfiledStack] = []
    for number in itertools.count():
        folder = tmp_path / f"run-{number}"
        done = isolane("run", file, "--output", folder, "--cpu-profile", HZ)
        assert done.returncode == 0, done.stderr
        stacks = [stack for one in RunFolder.open(folder).profiles() for stack in one.stacks]
        found += [s for s in stacks if s.owner == NICS and "net_rx_action" in s.kernel]
        if sum(stack.samples for stack in found if not stack.thread) >= 5:
            break
        assert time.monotonic() < deadline, stacks
    for stack in found:  # where it was, not how it was met
        assert not {"hrtimer_interrupt", "__hrtimer_run_queues"} & set(stack.kernel[-3:])


def test_a_run_that_was_not_asked_has_none_and_a_resumed_one_goes_on_with_it(
    tmp_path: Path,
) -> None:
    file, folder = tmp_path / "profiled.yaml", tmp_path / "run"
    file.write_text(TEXT)
    plain = isolane("run", file, "--output", tmp_path / "plain", "--arms", "direct")
    assert plain.returncode == 0, plain.stderr
    assert RunFolder.open(tmp_path / "plain").profiles() == []
    assert not (tmp_path / "plain" / "cpu-profile").exists()
    options = ("--arms", "direct", "--cpu-profile", HZ)
    done = isolane("run", file, "--output", folder, *options)
    assert done.returncode == 0, done.stderr
    before = len(RunFolder.open(folder).profiles())
    other = isolane("run", "--resume", folder, "--cpu-profile", HZ + 1)
    assert other.returncode == 2
    assert "--cpu-profile" in other.stderr
    more = isolane("run", "--resume", folder, "--repeats", 3)
    assert more.returncode == 0, more.stderr
    trials = RunFolder.open(folder).trials()
    measured = [t for t in trials if t.purpose == "measure" and t.status != "failed"]
    assert len(RunFolder.open(folder).profiles()) == len(measured) > before

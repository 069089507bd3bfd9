"""An experiment whose router works besides: frames are conserved, and the time is its own."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from isolane.results.folder import RunFolder
from isolane.results.results import RouterTrial

from tests.live import assert_same_host, isolane, quiet_host
from tests.test_patterns_live import assert_sound
from tests.test_run_live import run

pytestmark = [
    pytest.mark.root,
    pytest.mark.native,
    pytest.mark.usefixtures("needs_root", "needs_guest_kernel"),
]

WORKS: Final = ("none", "cpu")
TEXT: Final = """\
isolane: 1
name: busy
traffic: {frame_size: 84}
routers:
  - {name: one, role: victim}
  - {name: two, role: aggressor, work: [none, cpu]}
load: {one: 2kpps, two: 1kpps}
arms:
  - {name: bridge, path: bridge}
  - {name: managed, path: direct, policy: {one: {cpu_weight: 100}, two: {cpu_weight: 100}}}
  - {name: uml, kind: vm, hypervisor: uml, path: tap}
trial: {duration: DURATION, warmup: 20ms, repeats: 1, retries: 0, null_dut: false}
"""


DURATIONS: Final = ("300ms", "600ms", "1200ms", "2400ms", "4800ms")
"""Of one run after the other: the machine may have no core for a router's work in a short one."""


def test_work_is_the_routers_own(tmp_path: Path) -> None:
    file, before = tmp_path / "busy.yaml", quiet_host()
    for turn, duration in enumerate(DURATIONS):
        file.write_text(TEXT.replace("DURATION", duration))
        trials = run(file, tmp_path / f"run-{turn}")
        assert_same_host(before)
        for trial in trials:
            assert_sound(trial)
        routers = {
            (trial.arm, trial.routers[1].work): trial.routers
            for trial in trials
            if trial.purpose == "measure"
        }
        assert len(routers) == 3 * 2
        assert all(one.work == "none" for one, _ in routers.values())
        assert routers["bridge", "none"][1].cpu_ns == 0, "it is stopped"
        worked = {arm: [worked_ns(routers[arm, work][1]) for work in WORKS] for arm, _ in routers}
        if all(busy > quiet for quiet, busy in worked.values()):
            return
    pytest.fail(f"nobody worked in each of the arms, in {len(DURATIONS)} runs: {worked}")


DISK: Final = """\
isolane: 1
name: reads
traffic: {frame_size: 84}
routers:
  - {name: one, kind: vm, hypervisor: uml, path: tap}
  - {name: two, kind: vm, hypervisor: uml, path: tap, work: disk, work_from: 50ms}
load: {one: 2kpps, two: 0pps}
trial: {duration: DURATION, warmup: 20ms, repeats: 1, retries: 0, null_dut: false}
"""


def test_a_guest_reads_its_disk_in_a_part_of_the_window(tmp_path: Path) -> None:
    file, before = tmp_path / "reads.yaml", quiet_host()
    for turn, duration in enumerate(DURATIONS):
        file.write_text(DISK.replace("DURATION", duration))
        folder = tmp_path / f"run-{turn}"
        done = isolane("run", file, "--output", folder)
        (trial,) = [one for one in RunFolder.open(folder).trials() if one.purpose == "measure"]
        assert_same_host(before)
        if "do not know the times" in (trial.reason or ""):
            assert done.returncode == 1
            continue  # the machine had no core for a second
        assert done.returncode == 0, done.stderr
        assert_sound(trial)
        quiet, reads = trial.routers
        assert (quiet.work, reads.work) == ("none", "disk")
        assert quiet.cpu_guest is not None
        assert reads.cpu_guest is not None
        served, others = reads.cpu_guest["emulator"], quiet.cpu_guest["emulator"]
        if served > others and reads.cpu_guest["programs"] > quiet.cpu_guest["programs"]:
            return
    pytest.fail(f"nobody read a disk in {len(DURATIONS)} runs: {trial}")


def worked_ns(router: RouterTrial) -> int:
    """Return a router's own CPU time; of a guest that of its programs, which forward nothing."""
    assert router.cpu_ns is not None, "the work is a thread of its own"
    return router.cpu_ns if router.cpu_guest is None else router.cpu_guest["programs"]

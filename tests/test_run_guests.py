"""`isolane run` with virtual machines, beside containers, from file to report."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from isolane.guests import DIRECTORY
from isolane.guests.leftovers import processes_of
from isolane.results.folder import RunFolder
from isolane.results.results import RouterTrial, Trial
from isolane.results.series import TrialSeries

from tests import test_capture_points_live as capture_points
from tests.came_through import was_at_work
from tests.live import assert_same_host, has, quiet_host, running
from tests.test_run_live import assert_sound, run

pytestmark = [
    pytest.mark.root,
    pytest.mark.beside,
    pytest.mark.native,
    pytest.mark.usefixtures("needs_root", "needs_guest_kernel"),
]

TURNS = 5

GUESTS = """\
isolane: 1
name: guests
traffic: {{frame_size: {size}, flows: 10}}
routers: [{{name: one, role: victim}}, {{name: two, role: aggressor}}]
load: {{one: 5kpps, two: 2kpps}}
arms:
{arms}
trial: {{duration: {duration}, warmup: 20ms, repeats: 1, retries: 0, seed: 1, null_dut: false,
         capture_points: true}}
"""


def experiment(folder: Path, paths: tuple[str, ...], duration: str = "100ms") -> Path:
    arms = [
        f"  - {{name: guest-{path}, kind: vm, hypervisor: uml, path: {path}}}" for path in paths
    ]
    shares = "scheduler: hierarchical, uplink_rate: 1Gbps, policy: {two: {rate_max: 500Mbps}}"
    arms = [arm.replace("path: netback", f"path: netback, {shares}") for arm in arms]
    arms.insert(0, "  - {name: container, path: direct}")
    file = folder / "guests.yaml"
    file.write_text(GUESTS.format(arms="\n".join(arms), size="imix", duration=duration))
    return file


def test_guests_forward_to_the_frame_beside_containers(tmp_path: Path) -> None:
    paths = ("bridge", "macvtap", "netback")
    before = quiet_host()
    trials = run(experiment(tmp_path, paths), tmp_path / "run")
    assert_same_host(before)
    assert_sound(trials, 1 + len(paths))
    every = RunFolder.open(tmp_path / "run").series()
    for trial, series in zip(trials, every, strict=True):
        ran = {(router.kind, router.path, router.hypervisor) for router in trial.routers}
        guest = trial.arm.startswith("guest-")
        path = trial.arm.removeprefix("guest-")
        assert ran == {("vm", path, "uml") if guest else ("container", "direct", None)}
        for router in trial.routers:
            told = f"{trial.arm}: {router.router} has threads or polls of its own"
            assert router.cpu_ns or not was_at_work(router, series), told
            assert_parts(series, router, guest)
        assert_stamped(trial)
    report = (tmp_path / "run" / "report.html").read_text()
    assert "ran under User-Mode Linux" in report


@pytest.mark.usefixtures("needs_qemu_guests")
def test_guests_of_three_sorts_in_one_experiment(tmp_path: Path) -> None:
    arms = (
        "  - {name: uml, kind: vm, hypervisor: uml, path: tap}",
        "  - {name: virtio, kind: vm, hypervisor: tcg, path: tap}",
        "  - {name: e1000, kind: vm, hypervisor: tcg, path: macvtap, nic: e1000}",
    )
    file = tmp_path / "guests.yaml"
    text = GUESTS.format(arms="\n".join(arms), size=64, duration="100ms")
    one = text.replace(", {name: two, role: aggressor}", "").replace(", two: 2kpps", "")
    file.write_text(one)  # which boots in half the time
    before = quiet_host()
    trials = run(file, tmp_path / "run")
    assert_same_host(before)
    assert_sound(trials, len(arms))
    ran = {t.arm: {(r.hypervisor, r.nic) for r in t.routers} for t in trials}
    assert ran == {
        "uml": {("uml", "vector")},
        "virtio": {("tcg", "virtio")},
        "e1000": {("tcg", "e1000")},
    }
    every = RunFolder.open(tmp_path / "run").series()
    for trial, series in zip(trials, every, strict=True):
        (router,) = trial.routers
        assert router.cpu_ns or not was_at_work(router, series), trial.arm
        assert_parts(series, router, guest=True)
        assert_stamped(trial)
    report = (tmp_path / "run" / "report.html").read_text()
    assert "ran under User-Mode Linux" in report
    assert "ran under QEMU with TCG" in report


def test_a_guest_that_is_killed_fails_its_trial_alone(tmp_path: Path) -> None:
    # Six points of one bench, so that it is killed in a trial and not while it boots.
    load = "load: {one: 5kpps, two: [1kpps, 2kpps, 3kpps, 4kpps, 5kpps, 6kpps]}"
    file = experiment(tmp_path, paths=("tap",), duration="400ms")
    text = file.read_text().replace("load: {one: 5kpps, two: 2kpps}", load)
    file.write_text(text.replace("  - {name: container, path: direct}\n", ""))
    before = quiet_host()
    for turn in range(TURNS):
        with running(tmp_path / str(turn), file) as (process, target):
            journal = target / "trials.jsonl"
            process.until(partial(has, journal, b"guest-tap"))
            time.sleep(0.2)
            for number in processes_of(DIRECTORY / "two"):
                with suppress(ProcessLookupError):  # it went with another one
                    os.kill(number, signal.SIGKILL)
            if status := process.end():
                assert status == 1, process.stderr
                break
    else:
        pytest.fail(f"each of {TURNS} runs was over before the guest was killed")
    assert "Traceback" not in process.stderr
    trials = RunFolder.open(target).trials()
    failed = [trial for trial in trials if trial.status == "failed"]
    assert len(failed) == 1
    assert failed[0].arm == "guest-tap"
    assert "two" in (failed[0].reason or "")
    assert "has ended" in (failed[0].reason or "")
    assert len(trials) == 6, "the others were measured"
    assert all(trial.conserved for trial in trials if trial.status != "failed")
    assert_same_host(before)


def assert_stamped(trial: Trial) -> None:
    """Frames of routers but aggressors were seen wherever they pass the host."""
    for router in trial.routers:
        if router.role == "aggressor":
            assert router.parts is None
        else:
            capture_points.assert_parts(router, capture_points.PASSED[router.path])


def assert_parts(series: TrialSeries, router: RouterTrial, guest: bool) -> None:
    """What a guest's own time was for is told, and adds up."""
    if not guest:
        assert router.cpu_guest is None
        return
    assert router.cpu_guest is not None
    assert sum(router.cpu_guest.values()) == router.cpu_ns
    assert router.cpu_guest["processors"] > 0 or not was_at_work(router, series)

"""Virtual machines as routers, with real guests under User-Mode Linux."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from isolane.errors import MeasurementError, NotSupported, TestbedError
from isolane.procfs import cpu_cgroup_root
from isolane.run.folder import RunFolder
from isolane.run.results import Trial
from isolane.testbed import BedPlan, RouterPlan, Testbed, clean
from isolane.testbed.guests import UmlGuest, uml_guest

from tests.live import await_free, background, isolane
from tests.testbed.test_cleanup import SOURCE, host, released, unchanged

pytestmark = pytest.mark.root

EXPERIMENT = """\
isolane: 1
name: machines
traffic: {{frame_size: imix, flows: 10}}
routers:
  - {{name: one, role: victim, kind: vm, path: tap, hypervisor: uml}}
  - {{name: two, role: aggressor, kind: vm, path: tap}}
load: {load}
trial: {{duration: {duration}, warmup: 20ms, repeats: 1, retries: 0, seed: 1}}
"""
PROGRAM = """
import sys
from isolane.testbed import *
from isolane.testbed import exclusive
plan = BedPlan((RouterPlan("one", "vm", "tap", None, "uml"),), "softirq", 50_000, (0,), (1,), 4)
with exclusive() as journal:
    print("begin", flush=True)
    with Testbed(plan, journal):
        print("built", flush=True)
        sys.stdin.read()
"""


def machines(count: int = 1) -> BedPlan:
    names = [f"vr-{number + 1}" for number in range(count)]
    routers = tuple(RouterPlan(name, "vm", "tap", None, "uml") for name in names)
    *measure, dut = sorted(os.sched_getaffinity(0))
    return BedPlan(routers, "softirq", 50_000, (dut,), tuple(measure), 4)


def groups() -> list[Path]:
    found = cpu_cgroup_root()
    assert found is not None
    return sorted(found[1].glob("isolane-guests-*"))


def kill(processes: list[int]) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):  # it ends with another one of them
            os.kill(process, signal.SIGKILL)


def experiment(folder: Path, load: str, duration: str = "100ms") -> Path:
    file = folder / "machines.yaml"
    file.write_text(EXPERIMENT.format(load=load, duration=duration))
    return file


def assert_conserved(trial: Trial) -> None:
    assert trial.status != "failed", trial.reason
    assert trial.conserved, trial
    for router in trial.routers:
        assert router.offered_total == router.received_total + sum(router.lost.values())
        assert router.lost["unaccounted"] == 0
        assert router.duplicated == router.reordered == 0
        assert (router.kind, router.path, router.hypervisor) == ("vm", "tap", "uml")


@pytest.mark.native
def test_every_frame_is_accounted_for_below_and_above_what_machines_forward(
    tmp_path: Path,
) -> None:
    file = experiment(tmp_path, "{one: [2kpps, 2kpps], two: [2kpps, 300kpps]}")
    done = isolane("run", file, "--output", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    quiet, flooded = RunFolder.open(tmp_path / "run").trials()
    for trial in (quiet, flooded):
        assert_conserved(trial)
        for core in trial.cores:  # the machines' time is part of what adds up
            assert core.parts is not None
            assert sum(core.parts.values()) == pytest.approx(1, abs=0.1)
        for router in trial.routers:
            assert router.cpu_ns
    assert sum(router.received_total for router in quiet.routers) > 400
    assert flooded.routers[1].lost["router_queue"] > 1000, flooded.routers[1].lost
    summary = json.loads((tmp_path / "run" / "summary.json").read_bytes())
    labels = [node["label"] for node in summary["drawings"][0]["nodes"]]
    assert {"one (User-Mode Linux)", "two (User-Mode Linux)"} <= set(labels)
    assert groups() == []


def test_a_machine_sees_nothing_of_the_host_but_its_programs(journal: Any) -> None:
    before = host()
    with Testbed(machines(), journal) as bed:
        (threads,) = bed.guest_threads.values()
        (group,) = groups()
        assert set(map(int, (group / "vr-1" / "cgroup.procs").read_text().split())) <= set(threads)
        hypervisor = Path(f"/proc/{threads[0]}")
        root = hypervisor / "root"
        assert sorted(path.name for path in (root / "guest").iterdir()) == [
            "bin", "dev", "init", "lib", "lib64", "proc", "sbin", "sys", "usr",
        ]  # fmt: skip
        for folder in ("root", "home", "etc", "run"):
            assert not (root / folder).exists()
        for folder in ("guest", "guest/usr", "usr"):
            with pytest.raises(OSError, match="Read-only"):
                (root / folder / "written").touch()
        inside = (hypervisor / "ns" / "net").stat().st_ino
        assert inside == Path("/run/netns/isolane-dut").stat().st_ino
        assert inside != Path("/proc/self/ns/net").stat().st_ino
    assert unchanged(before)
    assert groups() == []


def test_a_machine_that_dies_is_named_with_its_last_words(journal: Any) -> None:
    with Testbed(machines(2), journal) as bed:
        bed.check_alive()
        bed.counters()
        kill(bed.guest_threads["vr-2"])
        time.sleep(0.05)
        for ask in (bed.check_alive, bed.counters):
            with pytest.raises(MeasurementError, match="virtual machine vr-2 has ended"):
                ask()
    assert groups() == []


def test_a_machine_that_does_not_boot_is_named_with_its_console(
    journal: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = UmlGuest._command

    def command(guest: UmlGuest, line: int) -> list[str]:
        return [word.replace("init=/init", "init=/none") for word in whole(guest, line)]

    monkeypatch.setattr(UmlGuest, "_command", command)
    before = host()
    with (
        pytest.raises(TestbedError, match=r"vr-1 did not boot; its console: .*panic"),
        Testbed(machines(), journal),
    ):
        pass
    assert unchanged(before)
    assert groups() == []


def test_a_machine_that_is_never_ready_is_given_up(
    journal: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uml_guest, "BOOT_S", 0.3)
    begun = time.monotonic()
    with (
        pytest.raises(TestbedError, match=r"vr-1 was not ready after 0.3 s; its console"),
        Testbed(machines(), journal),
    ):
        pass
    assert time.monotonic() - begun < 3
    assert groups() == []


def test_ipv6_is_refused_before_anything_is_made(journal: Any) -> None:
    base = machines()
    plan = BedPlan(base.routers, "softirq", 50_000, base.dut_cores, base.measure_cores, 6)
    with pytest.raises(NotSupported, match="IPv4 only"), Testbed(plan, journal):
        pass


@pytest.mark.parametrize("moment_s", [0.05, 0.5, None])
def test_nothing_of_a_machine_outlives_a_kill_and_the_next_command(
    moment_s: float | None, journal: Any
) -> None:
    """``moment_s`` after the start of building; None: once it is built."""
    before = host()
    with released(journal):
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdin is not None
        with process.stdin, process.stdout:
            assert process.stdout.readline() == "begin\n"
            if moment_s is None:
                assert process.stdout.readline() == "built\n"
                assert groups()
            else:
                time.sleep(moment_s)
            process.kill()
            process.wait()
    clean()
    assert unchanged(before)
    assert groups() == []


@pytest.mark.native
def test_a_machine_killed_in_a_trial_fails_that_trial_and_the_rest_goes_on(tmp_path: Path) -> None:
    file = experiment(tmp_path, "{one: [2kpps, 3kpps, 4kpps], two: 1kpps}", "1s")
    target = tmp_path / "run"
    await_free()
    with background(tmp_path / "out", "run", file, "--output", target, "--no-aa") as process:
        journal = target / "trials.jsonl"
        process.until(lambda: journal.exists() and bool(journal.read_bytes()))
        (group,) = groups()
        kill([int(word) for word in (group / "one" / "cgroup.procs").read_text().split()])
        assert process.end() == 1
        assert "1 of 3 trials failed; repeat them with" in process.stderr
    trials = RunFolder.open(target).trials()
    failed = [trial for trial in trials if trial.status == "failed"]
    assert [trial.trial for trial in failed] == [1]
    assert "virtual machine one has ended" in str(failed[0].reason)
    assert len(trials) == 3
    for trial in (trials[0], trials[2]):
        assert_conserved(trial)
    assert groups() == []

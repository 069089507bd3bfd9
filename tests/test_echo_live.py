"""Routers that answer, live: each request is answered, or counted where it ended."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from isolane.errors import MeasurementError
from isolane.run.folder import RunFolder
from isolane.testbed import BedPlan, RouterPlan, Testbed, exclusive

from tests.came_through import came_through
from tests.live import assert_same_host, isolane, quiet_host
from tests.test_patterns_live import arrived, assert_sound

pytestmark = [pytest.mark.root, pytest.mark.native, pytest.mark.usefixtures("needs_root")]

TEXT = """\
isolane: 1
name: echo
traffic: {{ip: {ip}, frame_size: 84}}
routers:
  - {{name: one, role: victim, traffic: {{mode: echo, flows: 10}}}}
  - {{name: two, traffic: {{mode: icmp-echo, flows: 10}}}}
  - {{name: three, role: aggressor}}
load: {{one: 5kpps, two: 5kpps, three: {three}}}
arms:
{arms}
trial: {{duration: 50ms, warmup: 10ms, repeats: 1, retries: 0, null_dut: {null_dut}}}
"""


def experiment(ip: int, arms: list[str], null_dut: str = "false", three: str = "1kpps") -> str:
    lines = "\n".join(f"  - {arm}" for arm in arms)
    return TEXT.format(ip=ip, arms=lines, null_dut=null_dut, three=three)


@pytest.mark.parametrize(("ip", "paths"), [(4, ("direct", "bridge", "isolane")), (6, ("macvlan",))])
def test_each_request_is_answered_or_counted(
    ip: int, paths: tuple[str, ...], tmp_path: Path
) -> None:
    file, before = tmp_path / "echo.yaml", quiet_host()
    arms = [f"{{name: {path}, path: {path}}}" for path in paths]
    null_dut = "true" if ip == 4 else "false"
    file.write_text(experiment(ip, arms, null_dut, "[1kpps, 400kpps]"))
    done = isolane("run", file, "--output", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert_same_host(before)
    trials = RunFolder.open(tmp_path / "run").trials()
    measured = [trial for trial in trials if trial.purpose == "measure"]
    assert len(measured) == 2 * len(paths)
    for trial in trials:
        assert_sound(trial)
    for trial in measured:
        assert [router.mode for router in trial.routers] == ["echo", "icmp-echo", "forward"]
        if trial.point == 0:
            assert came_through(trial.routers[:2]), trial.arm
        assert trial.routers[2].lost["unanswered"] == 0


def test_a_full_socket_is_where_requests_are_lost(tmp_path: Path) -> None:
    file = tmp_path / "echo.yaml"
    text = experiment(4, ["{name: direct, path: direct}"])
    file.write_text(text.replace("one: 5kpps", "one: [5kpps, 900kpps]"))
    done = isolane("run", file, "--output", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    trials = RunFolder.open(tmp_path / "run").trials()
    for trial in trials:
        assert_sound(trial)
    flooded = next(t for t in trials if t.purpose == "measure" and t.point == 1).routers[0]
    # What came to the router's IP layer was answered, or found no room in the socket.
    assert arrived(flooded) == flooded.received_total + sum(
        flooded.lost[point] for point in ("unanswered", "no_route", "egress")
    )


@pytest.mark.usefixtures("needs_guest_kernel")
def test_a_guest_answers(tmp_path: Path) -> None:
    file, before = tmp_path / "echo.yaml", quiet_host()
    file.write_text(experiment(4, ["{name: uml, kind: vm, hypervisor: uml, path: netback}"]))
    done = isolane("run", file, "--output", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert_same_host(before)
    measured = [t for t in RunFolder.open(tmp_path / "run").trials() if t.purpose == "measure"]
    for trial in measured:
        assert_sound(trial)
        assert came_through(trial.routers), trial.arm


def test_a_responder_that_ends_is_named() -> None:
    measure, dut = sorted(os.sched_getaffinity(0))[:2]
    router = RouterPlan("one", "container", "direct", None, mode="echo")
    plan = BedPlan((router,), "softirq", 50_000, (dut,), (measure,), 4)
    with exclusive() as journal, Testbed(plan, journal) as bed:
        bed.check_alive()
        (responder,) = bed.responder_threads["one"]
        assert os.sched_getaffinity(responder) == {dut}
        os.kill(responder, signal.SIGKILL)
        os.waitid(os.P_PID, responder, os.WEXITED | os.WNOWAIT)
        with pytest.raises(MeasurementError, match="responder of router one has ended"):
            bed.check_alive()

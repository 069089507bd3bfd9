"""Routers that answer, live: each request is answered, or counted where it ended."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from isolane.errors import MeasurementError
from isolane.procfs import named_processes
from isolane.testbed import BedPlan, RouterPlan, Testbed, exclusive

from tests.came_through import came_through
from tests.live import LIMIT_S, assert_same_host, isolane, kill_inside, quiet_host
from tests.test_patterns_live import arrived, assert_sound
from tests.test_run_live import run

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
RESPONDER = "isl-responder"
TURNS = 20
"""A stalled generator sends little."""


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
    trials = run(file, tmp_path / "run")
    assert_same_host(before)
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
    for turn in range(TURNS):
        trials = run(file, tmp_path / f"run-{turn}")
        for trial in trials:
            assert_sound(trial)
        flooded = next(t for t in trials if t.purpose == "measure" and t.point == 1).routers[0]
        # What came to the router's IP layer was answered, or found no room in the socket.
        assert arrived(flooded) == flooded.received_total + sum(
            flooded.lost[point] for point in ("unanswered", "no_route", "egress")
        )
        if flooded.lost["unanswered"]:  # else too little was sent
            break
    assert flooded.lost["unanswered"] > 0


@pytest.mark.usefixtures("needs_guest_kernel")
def test_a_guest_answers(tmp_path: Path) -> None:
    file, before = tmp_path / "echo.yaml", quiet_host()
    file.write_text(experiment(4, ["{name: uml, kind: vm, hypervisor: uml, path: netback}"]))
    measured = [t for t in run(file, tmp_path / "run") if t.purpose == "measure"]
    assert_same_host(before)
    for trial in measured:
        assert_sound(trial)
        assert came_through(trial.routers), trial.arm


@contextlib.contextmanager
def bed() -> Iterator[Testbed]:
    """A router with a responder in it."""
    measure, dut = sorted(os.sched_getaffinity(0))[:2]
    router = RouterPlan("one", "container", "direct", None, mode="echo")
    plan = BedPlan((router,), "softirq", 50_000, (dut,), (measure,), 4)
    with exclusive() as journal, Testbed(plan, journal) as built:
        yield built


def test_a_responder_that_ends_is_named() -> None:
    with bed() as built:
        built.check_alive()
        (responder,) = built.responder_threads["one"]
        assert os.sched_getaffinity(responder) == {built.plan.dut_cores[0]}
        os.kill(responder, signal.SIGKILL)
        os.waitid(os.P_PID, responder, os.WEXITED | os.WNOWAIT)
        with pytest.raises(MeasurementError, match="responder of router one has ended"):
            built.check_alive()


def test_a_responder_goes_with_whoever_started_it() -> None:
    before = quiet_host()
    kill_inside(bed)
    assert isolane("clean").returncode == 0
    assert_same_host(before)
    deadline = time.monotonic() + LIMIT_S
    while any(name == RESPONDER for _, name in named_processes()):
        assert time.monotonic() < deadline, "it is still there"
        time.sleep(0.01)

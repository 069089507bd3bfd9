"""A router that is a process: it and all that comes from it get their share of the CPU."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from isolane import scheduling
from isolane.children import die_with_parent
from isolane.enforce import Enforcer
from isolane.enforce.enforcer import POLICY_DIR
from isolane.enforce.policy_plan import SLICE_NS
from isolane.enforce.router_facts import MissingRouter
from isolane.errors import SpecError
from isolane.procfs import cpu_ns, descendants
from isolane.spec.policy import parse_policy

from tests.live import LIMIT_S

pytestmark = [pytest.mark.root, pytest.mark.native]

TAG = f"process-{os.getpid()}"
POLICY = """\
isolane: 1
name: processes
routers:
  app: {{process: {pid}, cpu_weight: 300, cpu_max: 40%, cores: [0]{more}}}
"""
CAP = 0.4
BUSY_S = 0.5
PERIOD_S = 0.01
_FORKS = """
import os, signal, time
signal.signal(signal.SIGUSR1, lambda *_: os.fork() or time.sleep(600))
if os.fork() == 0:
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    print("ready", flush=True)
while True:
    time.sleep(0.1)  # a signal just before it is heard after it
"""


@pytest.fixture
def enforcer() -> Iterator[Enforcer]:
    found = Enforcer(directory=POLICY_DIR.with_name(f"policy-{TAG}"), group=f"isolane-{TAG}")
    try:
        yield found
    finally:
        found.clear()
        shutil.rmtree(found.directory, ignore_errors=True)


@pytest.fixture
def begin() -> Iterator[Callable[[str], int]]:
    """Start a Python program in a session of its own; gives its number once it is ready."""
    started: list[subprocess.Popen[bytes]] = []

    def start(program: str) -> int:
        process = subprocess.Popen(
            ["python3", "-c", program],
            stdout=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - it makes one system call
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline()
        return process.pid

    yield start
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(LIMIT_S)
        assert process.stdout is not None
        process.stdout.close()


def group_of(thread: int, enforcer: Enforcer) -> bool:
    """Whether a thread is in the router's cgroup."""
    return f"{enforcer.group}/app" in Path(f"/proc/{thread}/cgroup").read_text()


def test_it_and_its_children_move_and_go_back(
    enforcer: Enforcer, begin: Callable[[str], int]
) -> None:
    pid = begin(_FORKS)
    family = descendants(pid)
    assert len(family) == 2
    before = {one: os.sched_getaffinity(one) for one in family}
    scheduled = {one: scheduling.get_scheduling(one) for one in family}
    policy = parse_policy(POLICY.format(pid=pid, more=""))
    assert enforcer.apply(policy).changes
    assert not enforcer.apply(policy).changes
    for one in family:
        assert group_of(one, enforcer)
        assert os.sched_getaffinity(one) == {0}
    (router,) = enforcer.status().routers
    expected = {"cpu_weight": "300", "cpu_max": "40%", "cores": "0"}
    assert router.present
    assert router.in_force == expected == router.entitlement | {"cpu_max": "40%"}
    os.kill(pid, signal.SIGUSR1)  # a child that comes later belongs to it, too
    deadline = time.monotonic() + LIMIT_S
    while len(later := set(descendants(pid)) - set(family)) < 1:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert all(group_of(one, enforcer) for one in later)
    slices = {scheduling.get_scheduling(one)[2] for one in (*family, *later)}
    assert slices == {SLICE_NS if scheduling.has_slices() else 0}
    assert enforcer.status().drift == ()
    enforcer.clear()
    for one in (*family, *later):
        assert not group_of(one, enforcer)
    assert {one: os.sched_getaffinity(one) for one in family} == before
    assert {one: scheduling.get_scheduling(one) for one in family} == scheduled
    assert {scheduling.get_scheduling(one)[2] for one in later} <= {
        slice_ns for _, _, slice_ns in scheduled.values()
    }


def test_one_that_is_busy_keeps_to_its_cap(enforcer: Enforcer, begin: Callable[[str], int]) -> None:
    pid = begin("print('busy', flush=True)\nwhile True: pass")
    enforcer.apply(parse_policy(POLICY.format(pid=pid, more="")))
    began_s, before_ns = time.monotonic(), cpu_ns(pid)
    while True:
        time.sleep(BUSY_S)
        used_s, passed_s = (cpu_ns(pid) - before_ns) / 1e9, time.monotonic() - began_s
        # A hypervisor's pause may count as the process's time; it then waits until that is made up.
        if 0 < used_s < CAP * passed_s + 2 * PERIOD_S:
            break
        assert passed_s < LIMIT_S, f"{used_s} of {passed_s} s"


def test_one_that_has_ended_is_waited_for(enforcer: Enforcer, begin: Callable[[str], int]) -> None:
    pid = begin(_FORKS)
    policy = parse_policy(POLICY.format(pid=pid, more=""))
    enforcer.apply(policy)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    (found,) = enforcer.status().found
    assert isinstance(found, MissingRouter)
    assert found.reason == f"there is no process {pid}"
    assert enforcer.status().drift == ()
    assert [one.name for one in enforcer.apply(policy).waiting] == ["app"]


def test_what_is_said_of_its_frames_needs_a_nic() -> None:
    with pytest.raises(SpecError, match="no NIC, but router 'app' has no interface to itself"):
        parse_policy(POLICY.format(pid=9, more=", rate_max: 1Mbps"))

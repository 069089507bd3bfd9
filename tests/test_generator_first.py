"""In short trials the generator's thread runs before all ordinary ones, and ends by itself."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from isolane.enforce.find.conftest import wait_for
from isolane.enforce.settings.pacemaking import running

from tests.live import LIMIT_S
from tests.managed_wires import bench

pytestmark = [pytest.mark.root, pytest.mark.native]

TURNS = 50
SHORT_NS, LONG_NS = 200_000_000, 1_000_000_000
WATCH = """
import os, select, sys
tasks, seen = f"/proc/{sys.argv[1]}/task", set()
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0.002)[0]:
    for task in os.listdir(tasks):
        try:
            head, _, tail = open(f"{tasks}/{task}/stat").read().rpartition(")")
        except OSError:
            continue
        if head.endswith("(isl-generate"):
            seen.add(int(tail.split()[38]))
print(*seen)
"""
"""Prints under which policies (sched_setscheduler(2)) a generator's thread was seen to run."""


def names_of_threads() -> list[str]:
    names = []
    for task in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError):  # threads come and go
            names.append(task.read_text().strip())
    return names


@contextlib.contextmanager
def watched(seen: set[int]) -> Iterator[None]:
    """Watch this process, from another core than the generator's, and once the watch has begun.

    To start an interpreter may take longer than a short trial.
    """
    words = ["taskset", "-c", str(max(os.sched_getaffinity(0))), sys.executable, "-c", WATCH]
    with subprocess.Popen(
        [*words, str(os.getpid())], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as watch:
        try:
            assert watch.stdout is not None
            assert watch.stdout.readline() == "ready\n"
            yield
            out, _ = watch.communicate(timeout=LIMIT_S)
            seen.update(map(int, out.split()))
        finally:
            watch.kill()


def may_go_first() -> bool:
    """Whether this kernel lets a thread go first, and the generator asks for it."""
    major, minor = os.uname().release.split(".")[:2]
    if (int(major), int("".join(filter(str.isdigit, minor)))) < (6, 5):
        return False
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        return False
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return True


@pytest.mark.parametrize("window_ns", [SHORT_NS, LONG_NS])
def test_the_generator_goes_first_where_the_kernel_would_not_stop_it(window_ns: int) -> None:
    first = may_go_first() and window_ns == SHORT_NS
    last, seen = os.SCHED_FIFO if first else os.SCHED_OTHER, set[int]()
    with bench() as offer:
        for _ in range(TURNS):
            with watched(seen):
                found = offer(1e3, 1e3, window_ns=window_ns)
            assert found.conserved
            for router in found.routers:
                due = 1e3 * window_ns / 1e9
                assert abs(router.offered_frames - due) <= 1, "each is sent or missed"
            if last in seen:
                break
    assert last in seen
    assert first or os.SCHED_FIFO not in seen
    wait_for(lambda: "isl-generate" not in names_of_threads())  # it is joined a moment before
    assert not list(running("isolane-testbed"))

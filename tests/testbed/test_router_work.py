"""Routers that work: their programs run when they are told to, and are the routers' own."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from isolane.errors import MeasurementError
from isolane.testbed import UML, BedPlan, Machine, Testbed, clean, exclusive

from tests.testbed.test_forwarding import assert_forwards

pytestmark = [pytest.mark.root, pytest.mark.beside]

LIMIT_S = 120.0


def used(threads: list[int]) -> int:
    """Return what threads have taken of their core, ticks."""
    fields = [Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split() for one in threads]
    return sum(int(each[11]) + int(each[12]) for each in fields)


def state(thread: int) -> str:
    """Return the letter of a thread's state, X where it is gone."""
    try:
        told = Path(f"/proc/{thread}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "X"
    return told.rpartition(")")[2].split()[0]


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def working(plan: BedPlan, **changes: Any) -> BedPlan:
    first, *others = plan.routers
    return replace(plan, routers=(replace(first, works=True, **changes), *others))


@pytest.mark.parametrize("path", ["direct", "bridge"])
def test_a_container_works_when_it_is_told_to(
    path: str, journal: Any, plan: Callable[..., BedPlan], traffic: Any
) -> None:
    with Testbed(working(plan(path, 2)), journal) as bed:
        ((name, (thread,)),) = bed.responder_threads.items()
        assert name == "vr-1"
        until(lambda: state(thread) == "T", "it is stopped at first")
        assert os.sched_getaffinity(thread) == {bed.plan.dut_cores[0]}
        assert "CapBnd:\t0000000000000000" in Path(f"/proc/{thread}/status").read_text()
        bed.work(["vr-1"])
        before = used([thread])
        until(lambda: used([thread]) > before + 5, "it works")
        assert_forwards(bed, 4, traffic)
        bed.work(["vr-2"])
        until(lambda: state(thread) == "T", "it does not work")
        bed.check_alive()
        os.kill(thread, signal.SIGKILL)
        until(lambda: state(thread) in "ZX", "it has ended")
        with pytest.raises(MeasurementError, match="the work of router vr-1 has ended"):
            bed.check_alive()
    assert not Path(f"/proc/{thread}").exists()


def test_kill_9_ends_the_work(plan: Callable[..., BedPlan]) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            work_for_ever(working(plan("direct", 2)), writing)
        finally:
            os._exit(1)
    os.close(writing)
    try:
        with open(reading) as told:  # noqa: PTH123 - a descriptor
            thread = int(told.readline())
        before = used([thread])
        until(lambda: used([thread]) > before, "it works")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    until(lambda: state(thread) in "ZX", "it has ended")
    with exclusive():
        clean()


def work_for_ever(plan: BedPlan, writing: int) -> None:
    """Build a bed whose first router works, tell by which thread, and wait for the end."""
    with exclusive() as journal, Testbed(plan, journal) as bed:
        bed.work(["vr-1"])
        ((_, (thread,)),) = bed.responder_threads.items()
        os.write(writing, f"{thread}\n".encode())
        signal.pause()


@pytest.mark.usefixtures("needs_guest_kernel", "needs_qemu_guests")
@pytest.mark.parametrize(
    ("machine", "part"), [(UML, "programs"), (Machine("tcg", "virtio"), "processors")]
)
def test_a_guest_works_when_it_is_told_to(
    machine: Machine, part: str, journal: Any, plan: Callable[..., BedPlan], traffic: Any
) -> None:
    path = "tap" if machine is UML else "macvtap"
    with Testbed(
        working(plan(path, receive="softirq"), kind="vm", machine=machine), journal
    ) as bed:
        threads = bed.guest_threads["vr-1"][part]  # type: ignore[index]
        assert threads
        bed.work(["vr-1"])
        before = used(threads)
        until(lambda: used(threads) > before + 20, "it works")
        assert_forwards(bed, 4, traffic)
        bed.work(())
        until(lambda: _rests(threads), "it does not work")


def _rests(threads: list[int]) -> bool:
    before = used(threads)
    time.sleep(0.2)
    return used(threads) - before <= 2

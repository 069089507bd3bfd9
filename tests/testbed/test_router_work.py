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
from isolane.guests import GuestPart
from isolane.testbed import UML, BedPlan, Machine, Testbed, WorkTime, clean, exclusive

from tests.testbed.test_forwarding import assert_forwards

pytestmark = [pytest.mark.root, pytest.mark.beside]

LIMIT_S = 120.0
CPU = WorkTime("cpu")


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
    return replace(plan, routers=(replace(first, **{"works": ("cpu",), **changes}), *others))


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
        bed.work({"vr-1": CPU})
        before = used([thread])
        until(lambda: used([thread]) > before + 5, "it works")
        assert_forwards(bed, 4, traffic)
        bed.work({"vr-2": CPU})
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
        bed.work({"vr-1": CPU})
        ((_, (thread,)),) = bed.responder_threads.items()
        os.write(writing, f"{thread}\n".encode())
        signal.pause()


@pytest.mark.usefixtures("needs_guest_kernel", "needs_qemu_guests")
@pytest.mark.parametrize(
    ("machine", "part"), [(UML, "programs"), (Machine("tcg", "virtio"), "processors")]
)
def test_a_guest_works_and_reads_its_disk_when_it_is_told_to(
    machine: Machine, part: GuestPart, journal: Any, plan: Callable[..., BedPlan], traffic: Any
) -> None:
    path = "tap" if machine is UML else "macvtap"
    of_guest = {"kind": "vm", "machine": machine, "works": ("cpu", "disk")}
    with Testbed(working(plan(path, receive="softirq"), **of_guest), journal) as bed:
        parts = bed.guest_threads["vr-1"]
        threads = [thread for each in parts.values() for thread in each]
        until(lambda: _rests(threads), "nothing works at first")
        bed.work({"vr-1": CPU})
        before = used(parts[part])
        until(lambda: used(parts[part]) > before + 20, "it works")
        assert_forwards(bed, 4, traffic)
        bed.work({})
        until(lambda: _rests(threads), "it does not work")
        bed.work({"vr-1": WorkTime("disk")})
        before, served = used(threads), used(parts["emulator"])
        until(lambda: used(threads) > before + 20, "it reads")
        if machine is UML:  # requests are served by a process of its own, and that is no program
            until(lambda: used(parts["emulator"]) > served + 5, "its disk is read")
        assert_forwards(bed, 4, traffic)
        bed.work({"vr-1": CPU})
        bed.work({})
        until(lambda: _rests(threads), "it does not work any more")


@pytest.mark.usefixtures("needs_guest_kernel", "needs_qemu_guests")
@pytest.mark.parametrize("machine", [UML, Machine("tcg", "virtio")])
def test_work_begins_and_stops_in_time(
    machine: Machine, journal: Any, plan: Callable[..., BedPlan]
) -> None:
    path = "tap" if machine is UML else "macvtap"
    several, (other,) = working(plan("direct", 1)), plan(path, 1).routers
    guest = replace(other, name="vr-2", kind="vm", machine=machine, works=("cpu",))
    with Testbed(replace(several, routers=(*several.routers, guest)), journal) as bed:
        mine = [thread for each in bed.guest_threads["vr-2"].values() for thread in each]
        for router, threads in (("vr-1", bed.responder_threads["vr-1"]), ("vr-2", mine)):
            until(lambda: _rests(threads), f"{router} rests at first")  # noqa: B023
            until(lambda: _worked(bed, router, threads), f"{router} works")  # noqa: B023
            until(lambda: _rests(threads), f"{router} has stopped")  # noqa: B023
            bed.work({router: WorkTime("cpu", 0.1, 1000.0)})
            bed.work({})
            time.sleep(0.3)
            # A core that is away rests, too, but not for so long.
            rest = lambda: all(_rests(threads) for _ in range(3))  # noqa: B023, E731
            until(rest, f"{router}: what it was told is forgotten")


def _worked(bed: Testbed, router: str, threads: list[int]) -> bool:
    """Have a router work for a while; whether it did, which a core that is away prevents."""
    before = used(threads)
    bed.work({router: WorkTime("cpu", 0.05, 0.4)})
    time.sleep(0.7)
    return used(threads) > before + 5


def _rests(threads: list[int]) -> bool:
    before = used(threads)
    time.sleep(0.2)
    return used(threads) - before <= 2

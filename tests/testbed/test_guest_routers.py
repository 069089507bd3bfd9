"""Virtual machines as routers: every frame forwarded or lost at a named place, whatever happens."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from isolane.errors import MeasurementError
from isolane.guests import DIRECTORY
from isolane.guests.leftovers import processes_of
from isolane.testbed import UML, BedPlan, Machine, Testbed

from tests.testbed.test_counters import blasted_until, of, refused_by_the_wire
from tests.testbed.test_forwarding import assert_forwards

pytestmark = [pytest.mark.root, pytest.mark.beside, pytest.mark.usefixtures("needs_guest_kernel")]

FRAMES = 40


@pytest.fixture
def guests(plan: Callable[..., BedPlan]) -> Callable[..., BedPlan]:
    def make(
        path: str,
        routers: int = 1,
        ip: int = 4,
        receive: str = "softirq",
        machine: Machine = UML,
    ) -> BedPlan:
        made = plan(path, routers, ip, receive=receive)
        machines = (replace(r, kind="vm", machine=machine) for r in made.routers)
        return replace(made, routers=tuple(machines))

    return make


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    assert not DIRECTORY.exists()


@pytest.mark.parametrize(
    ("path", "receive", "ip"),
    [
        ("tap", "softirq", 4),
        ("tap", "softirq", 6),
        ("bridge", "softirq", 6),
        ("macvtap", "threaded", 6),
        ("netback", "softirq", 6),
    ],
)
def test_each_guest_forwards_its_frames(
    path: str, receive: str, ip: int, journal: Any, guests: Any, traffic: Any
) -> None:
    """A run has the other paths with IPv4 (tests/test_run_guests.py)."""
    with Testbed(guests(path, 2, ip, receive), journal) as bed:
        assert len(bed.wires) == 2
        assert_forwards(bed, ip, traffic)


@pytest.mark.usefixtures("needs_qemu_guests")
def test_each_guest_under_qemu_forwards_its_frames(journal: Any, guests: Any, traffic: Any) -> None:
    """Bridges have that under a policy (tests/test_managed_links.py), as macvtaps."""
    with Testbed(guests("netback", 2, machine=Machine("tcg", "virtio")), journal) as bed:
        assert_forwards(bed, 4, traffic)


@pytest.mark.usefixtures("needs_qemu_guests")
def test_one_under_qemu_forwards_is_flooded_and_dies(
    journal: Any, guests: Any, traffic: Any
) -> None:
    """What its NIC does not read in time is lost in the macvtap, which counts it."""
    setting = guests("tap", 1, 6, machine=Machine("tcg", "e1000"))
    with Testbed(setting, journal) as bed:
        assert_forwards(bed, 6, traffic)
        core = setting.measure_cores[0]
        where = "vr-1", "router_queue"
        sent, got, _ = blasted_until(where, bed, bed.wires[0], core, traffic)
        assert 0 < got < sent
        bed.check_alive()
        for process in processes_of(DIRECTORY / "vr-1"):
            with suppress(ProcessLookupError):  # it went with another one
                os.kill(process, signal.SIGKILL)
        with pytest.raises(MeasurementError, match="guest vr-1 "):
            bed.counters()


def test_a_guest_and_a_container_share_a_bridge(journal: Any, guests: Any, traffic: Any) -> None:
    made = guests("bridge", 2)
    routers = (made.routers[0], replace(made.routers[1], kind="container"))
    with Testbed(replace(made, routers=routers), journal) as bed:
        for wire in bed.wires:
            accounting = traffic.account(bed, wire)
            traffic.send(wire, [traffic.frame(wire)] * FRAMES)
            got, lost = accounting.balance(FRAMES)
            assert (got, lost.total) == (FRAMES, 0)


@pytest.mark.parametrize(("why", "ip"), [("missing", 6), ("ttl", 4)])
def test_no_route(why: str, ip: int, journal: Any, guests: Any, traffic: Any) -> None:
    elsewhere = "203.0.113.9" if ip == 4 else "2001:db8::9"
    with Testbed(guests("tap", 1, ip), journal) as bed:
        wire = bed.wires[0]
        accounting = traffic.account(bed, wire)
        ttl, dst = (1, None) if why == "ttl" else (64, elsewhere)
        traffic.send(wire, [traffic.frame(wire, source=n, ttl=ttl, dst=dst) for n in range(FRAMES)])
        got, lost = accounting.balance(FRAMES)
        assert (got, of(lost)) == (0, {"no_route": FRAMES})


@pytest.mark.parametrize(
    ("path", "point"),
    [
        ("tap", "nic_queue"),
        ("tap", "router_queue"),
        ("macvtap", "router_queue"),
        ("netback", "router_queue"),
    ],
)
def test_more_than_a_guest_can_forward(
    path: str, point: str, journal: Any, guests: Any, traffic: Any
) -> None:
    """Its NIC's ring and its socket's buffer are full most of the time."""
    setting = guests(path)
    with Testbed(setting, journal) as bed:
        core = setting.measure_cores[0]
        sent, got, _ = blasted_until(("vr-1", point), bed, bed.wires[0], core, traffic)
        assert 0 < got < sent


def test_one_that_is_flooded_takes_no_frame_of_another(
    journal: Any, guests: Any, traffic: Any
) -> None:
    setting = guests("bridge", 2)
    with Testbed(setting, journal) as bed:
        core = setting.measure_cores[0]
        where = "vr-2", "router_queue"
        _, _, lost = blasted_until(where, bed, bed.wires[1], core, traffic)
        assert of(lost, "vr-1") == {}


def test_frames_that_do_not_get_onto_the_wire(journal: Any, guests: Any, traffic: Any) -> None:
    setting = guests("tap")
    with Testbed(setting, journal) as bed:
        lost = refused_by_the_wire(bed, bed.wires[0], setting.measure_cores[0], traffic)
        assert lost.of("vr-1")["egress"] > 0
        assert lost.of(None)["egress"] == 0


def test_one_that_dies_is_named_with_its_last_words(journal: Any, guests: Any) -> None:
    with Testbed(guests("tap", 2), journal) as bed:
        bed.check_alive()
        for process in processes_of(DIRECTORY / "vr-2"):
            with suppress(ProcessLookupError):  # it went with another one
                os.kill(process, signal.SIGKILL)
        with pytest.raises(MeasurementError, match="guest vr-2 "):
            bed.counters()
        with pytest.raises(MeasurementError, match="the guest of router vr-2 has ended"):
            bed.check_alive()


def count_for_ever(bed: Testbed) -> None:
    while True:
        bed.check_alive()
        with suppress(MeasurementError):  # it may be on its way, and not answer any more
            bed.counters()


def test_a_back_end_that_dies_is_named(journal: Any, guests: Any) -> None:
    with Testbed(guests("netback", 2), journal) as bed:
        bed.check_alive()
        threads, routers = bed.back_end_threads
        assert routers == ("vr-1", "vr-2")
        os.kill(min(threads), signal.SIGKILL)
        with pytest.raises(MeasurementError, match="the network back-end has ended"):
            count_for_ever(bed)


def test_its_threads_are_on_its_core_and_nowhere_else(journal: Any, guests: Any) -> None:
    setting = guests("tap", 2)
    with Testbed(setting, journal) as bed:
        parts = bed.guest_threads
        threads = {
            name: [t for part in each.values() for t in part] for name, each in parts.items()
        }
        assert set(threads) == {"vr-1", "vr-2"}
        assert not set(threads["vr-1"]) & set(threads["vr-2"])
        for each in parts.values():
            assert len(each["processors"]) == 1
            assert each["emulator"]
        for mine in threads.values():
            assert len(mine) > 2
            for thread in mine:
                with suppress(ProcessLookupError):  # a program of the guest's that just ended
                    assert os.sched_getaffinity(thread) == set(setting.dut_cores)


def test_a_guest_has_no_network_but_its_nics(journal: Any, guests: Any) -> None:
    with Testbed(guests("tap"), journal) as bed:
        (parts,) = bed.guest_threads.values()
        threads = [thread for part in parts.values() for thread in part]
        spaces = {_network_of(thread) for thread in threads} - {None}
        others = {path.stat().st_ino for path in Path("/run/netns").glob("isolane-*")}
        others.add(Path("/proc/self/ns/net").stat().st_ino)
    # The first thread is that of unshare(1) until it has its namespaces.
    assert spaces
    assert not spaces & others


def _network_of(thread: int) -> int | None:
    with suppress(OSError):
        return Path(f"/proc/{thread}/ns/net").stat().st_ino
    return None

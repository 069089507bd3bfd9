"""Guests under a policy: whose cgroup they are in, who goes first, and that nothing of it stays."""

from __future__ import annotations

import os

import pytest
from isolane.enforce.cpu_cgroups import Groups
from isolane.enforce.policy_plan import FEEDER_NICE
from isolane.procfs import descendants
from isolane.run.live.bench import Equipment
from isolane.run.live.managed import clear_leftovers
from isolane.testbed import Testbed, clean, exclusive, kernel

from tests.came_through import was_at_work
from tests.live import assert_same_host, kill_inside, quiet_host
from tests.managed_guests import CAP, bench

pytestmark = [
    pytest.mark.root,
    pytest.mark.native,
    pytest.mark.usefixtures("needs_root", "needs_guest_kernel"),
]

GROUP = "isolane-testbed"


def members(router: str) -> set[int]:
    groups = Groups(GROUP)
    found = (groups.path(router) / groups.members).read_text().split()
    return {int(number) for number in found}


@pytest.mark.parametrize(
    ("path", "ip"), [("tap", 6), ("isolane", 4), ("bridge", 4), ("macvtap", 4)]
)
def test_each_guest_is_in_its_cgroup_and_goes_before_what_feeds_it(path: str, ip: int) -> None:
    _in_its_cgroup(path, ip, "uml")


@pytest.mark.usefixtures("needs_qemu_guests")
@pytest.mark.parametrize(("path", "ip"), [("tap", 4), ("isolane", 6), ("bridge", 4)])
def test_the_same_under_qemu(path: str, ip: int) -> None:
    _in_its_cgroup(path, ip, "tcg")


def _in_its_cgroup(path: str, ip: int, hypervisor: str) -> None:
    before = quiet_host()
    with bench(path, ip, hypervisor) as (built, offer):
        _look(built.equipment, feeders={"tap": 1, "isolane": 2}.get(path, 0))
        seen = offer(2e3, 1e3)
        assert seen.conserved
        for router in seen.routers:  # whoever has the generator's core all the time lets none leave
            assert router.received_frames or not router.generated_frames
            assert router.cpu_ns or not was_at_work(router, seen.series)
    assert not Groups(GROUP).top.exists()
    assert_same_host(before)


def _look(equipment: Equipment, *, feeders: int) -> None:
    groups = Groups(GROUP)
    assert isinstance(equipment.bed, Testbed)
    for router, process in equipment.bed.guest_processes.items():
        inside = members(router)
        guest = set(descendants(process))
        assert guest <= inside
        assert len(inside - guest) == feeders
        for thread in inside - guest:
            assert kernel.get_scheduling(thread)[1] == FEEDER_NICE
        weight, cap = {"one": (400, None if feeders else CAP), "two": (100, None)}[router]
        for file, value in groups.settings(weight, cap).items():
            assert (groups.path(router) / file).read_text().strip() == value
        core = equipment.cores.dut
        assert all(os.sched_getaffinity(thread) == set(core) for thread in inside)


def test_an_overloaded_guest_loses_what_is_too_much_at_its_nic() -> None:
    with bench("tap") as (_, offer):
        for _ in range(50):
            seen = offer(500e3, 1e3)
            assert seen.conserved
            lost = seen.routers[0].lost
            if lost["nic_queue"] > lost["router_queue"]:  # else it had too little of its core
                break
        assert lost["nic_queue"] > lost["router_queue"]


def test_what_is_too_much_for_a_guest_is_dropped_before_its_queue() -> None:
    with bench("isolane") as (built, offer):
        for _ in range(50):
            seen = offer(500e3, 1e3)
            assert seen.conserved
            if seen.routers[0].lost["router_queue"]:
                break
        assert seen.routers[0].lost["router_queue"] > 0
        assert built.equipment.managed.dropped()["one", "router_queue"] > 0


def test_what_a_killed_run_left_is_removed_with_its_guests_and_groups() -> None:
    before = quiet_host()
    kill_inside(lambda: bench("tap"))
    assert Groups(GROUP).top.is_dir(), "it outlives the command that made it"
    with exclusive():
        clean()
        clear_leftovers()
    assert not Groups(GROUP).top.exists()
    assert_same_host(before)

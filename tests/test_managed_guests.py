"""Guests under a policy: whose cgroup they are in, who goes first, and that nothing of it stays."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

import pytest
from isolane import scheduling
from isolane.enforce.cpu_cgroups import Groups
from isolane.enforce.group_plan import own_threads_group
from isolane.enforce.policy_plan import FEEDER_NICE, SLICE_NS
from isolane.procfs import cpu_ns, descendants
from isolane.testbed import Testbed, clean, exclusive
from isolane.trials.live.bench import Equipment
from isolane.trials.live.testbed_policy import clear_leftovers, enforcer

from tests.came_through import was_at_work
from tests.live import assert_same_host, kill_inside, quiet_host
from tests.managed_guests import CAP, bench

pytestmark = [
    pytest.mark.root,
    pytest.mark.beside,
    pytest.mark.native,
    pytest.mark.usefixtures("needs_root", "needs_guest_kernel"),
]

GROUP = "isolane-testbed"
PERIOD_S = 0.01


def members(router: str) -> set[int]:
    return set(Groups(GROUP).threads(router))


def contents(router: str, files: Iterable[str]) -> dict[str, str]:
    """Return what files of a router's cgroup have in them."""
    return {file: (Groups(GROUP).path(router) / file).read_text().strip() for file in files}


@pytest.mark.parametrize(
    ("path", "ip"), [("tap", 6), ("isolane", 4), ("bridge", 4), ("macvtap", 4)]
)
def test_each_guest_is_in_its_cgroup_and_goes_before_what_feeds_it(path: str, ip: int) -> None:
    _in_its_cgroup(path, ip, "uml")


@pytest.mark.usefixtures("needs_qemu_guests")
@pytest.mark.parametrize(("path", "ip"), [("tap", 4), ("isolane", 6)])
def test_the_same_under_qemu(path: str, ip: int) -> None:
    _in_its_cgroup(path, ip, "tcg")


def _in_its_cgroup(path: str, ip: int, hypervisor: str) -> None:
    before = quiet_host()
    with bench(path, ip, hypervisor) as (built, offer):
        _look(built.equipment, feeders={"tap": 1, "isolane": 2}.get(path, 0))
        forwarding: set[str] = set()
        for _ in range(50):  # whoever has the guest's core for all of a trial lets it forward none
            seen = offer(2e3, 1e3)
            assert seen.conserved
            for router in seen.routers:
                assert router.cpu_ns or not was_at_work(router, seen.series)
            forwarding |= {router.router for router in seen.routers if router.received_total}
            if len(forwarding) == 2:
                break
        else:
            pytest.fail(f"only {forwarding} forwarded")
    assert not Groups(GROUP).top.exists()
    assert_same_host(before)


def _look(equipment: Equipment, *, feeders: int) -> None:
    bed, groups = equipment.bed, Groups(GROUP)
    assert isinstance(bed, Testbed)
    for router, process in bed.guest_processes.items():
        weight, cap = {"one": (400, CAP), "two": (100, None)}[router]
        within = cap is not None and feeders > 0
        own = own_threads_group(router) if within else router
        guest = set(descendants(process))
        feeding = (members(router) | members(own)) - guest
        assert guest <= members(own)
        assert len(feeding) == feeders
        assert not within or members(router) == feeding
        assert all(scheduling.get_scheduling(thread)[1] == FEEDER_NICE for thread in feeding)
        for group, wanted in (
            (own, groups.cap_files(cap)),
            (router, groups.weight_files(weight)),
            (router, groups.cap_files(None if within else cap)),
        ):
            assert contents(group, wanted) == wanted
        core = set(equipment.cores.dut)
        assert all(os.sched_getaffinity(thread) == core for thread in guest | feeding)
        if scheduling.has_slices():
            threads = [scheduling.get_scheduling(thread) for thread in guest]
            assert threads == [(os.SCHED_OTHER, 0, SLICE_NS)] * len(guest)


@pytest.mark.parametrize("path", ["tap", "isolane"])
def test_a_guest_keeps_to_its_cap_and_still_forwards_what_it_can(path: str) -> None:
    with bench(path) as (built, offer):
        assert isinstance(built.equipment.bed, Testbed)
        guest = built.equipment.bed.guest_processes["one"]
        began_s, before_ns, forwarded = time.monotonic(), _used_ns(guest), 0
        for _ in range(50):
            seen = offer(500e3, 1e3)
            assert seen.conserved
            forwarded += seen.routers[0].received_total
            # A hypervisor's pause may count as the guest's time; it then waits until that is made
            # up.
            passed_s, used_s = time.monotonic() - began_s, (_used_ns(guest) - before_ns) / 1e9
            if forwarded and 0 < used_s < CAP * passed_s + 2 * PERIOD_S:
                return
        pytest.fail(f"{forwarded} frames in {used_s} of {passed_s} s")


def _used_ns(guest: int) -> int:
    return sum(map(cpu_ns, descendants(guest)))


def test_a_cap_comes_and_goes_while_a_guest_runs() -> None:
    with bench("tap", capped=False) as (built, offer):
        assert isinstance(built.equipment.bed, Testbed)
        guest, hand = set(descendants(built.equipment.bed.guest_processes["one"])), enforcer()
        everyone = members("one")
        within = own_threads_group("one")
        for cap, own in (("50%", within), ("none", "one"), ("20%", within)):
            assert hand.set_keys("one", {"cpu_max": cap}).changes
            assert guest <= members(own)
            assert members(own) | members("one") == everyone
            assert Groups(GROUP).path(within).exists() == (cap != "none")
            status = hand.status()
            assert status.drift == ()
            (one, _) = status.routers
            assert one.in_force.get("cpu_max", "none") == cap
            assert one.in_force["cpu_weight"] == "400"
            assert set(hand.threads()["one"]) == everyone
            assert offer(1e3, 1e3).conserved
        file, uncapped = list(Groups(GROUP).cap_files(None).items())[-1]
        (Groups(GROUP).path(own) / file).write_text(uncapped)
        (drift,) = hand.status().drift
        assert (drift.setting, drift.found) == (f"{own}: {file}", uncapped)


def test_an_overloaded_guest_loses_what_is_too_much_at_its_nic() -> None:
    with bench("tap", capped=False) as (_, offer):
        for _ in range(50):
            seen = offer(500e3, 1e3)
            assert seen.conserved
            lost = seen.routers[0].lost
            if lost["nic_queue"] > lost["router_queue"]:  # else it had too little of its core
                break
        assert lost["nic_queue"] > lost["router_queue"]


def test_what_is_too_much_for_a_guest_is_dropped_before_its_queue() -> None:
    with bench("isolane", capped=False) as (built, offer):
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
    assert Groups(GROUP).path(own_threads_group("one")).is_dir(), "it outlives who made it"
    with exclusive():
        clean()
        clear_leftovers()
    assert not Groups(GROUP).top.exists()
    assert_same_host(before)

"""Guests under a policy: whose cgroup they are in, who goes first, and that nothing of it stays."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from isolane.enforce.cpu_cgroups import Groups
from isolane.enforce.policy_plan import FEEDER_NICE
from isolane.procfs import descendants
from isolane.run.backend import Demand, Observation, Setting
from isolane.run.live.bench import Equipment, LiveBench
from isolane.run.live.live_backend import LiveBackEnd
from isolane.run.live.managed import clear_leftovers
from isolane.spec import Experiment, parse_experiment
from isolane.testbed import clean, exclusive, kernel

from tests.live import LIMIT_S, assert_same_host, quiet_host

pytestmark = [
    pytest.mark.root,
    pytest.mark.native,
    pytest.mark.usefixtures("needs_root", "needs_guest_kernel"),
]

GROUP = "isolane-testbed"
EXPERIMENT = """\
isolane: 1
name: managed-guests
traffic: {{ip: {ip}, frame_size: 84}}
routers:
  - {{name: one, kind: vm, path: {path}, policy: {{cpu_weight: 400{cap}}}}}
  - {{name: two, kind: vm, path: {path}, policy: {{cpu_weight: 100}}}}
load: {{one: 1pps, two: 1pps}}
"""


CAP = 0.5
"""Of the first one, where its threads are processes alone."""


def experiment_of(path: str, ip: int = 4) -> Experiment:
    cap = "" if path == "tap" else f", cpu_max: {100 * CAP:g}%"
    return parse_experiment(EXPERIMENT.format(path=path, ip=ip, cap=cap))


@contextmanager
def bench(path: str, ip: int = 4) -> Iterator[LiveBench]:
    experiment = experiment_of(path, ip)
    (arm,), routers = experiment.resolved_arms(), experiment.points()[0].routers
    with (
        exclusive() as journal,
        closing(LiveBackEnd(experiment, journal)) as back_end,
        back_end.bench(arm, routers) as built,
    ):
        assert isinstance(built, LiveBench)
        yield built


def offer(built: LiveBench, path: str, *rates_pps: float) -> Observation:
    routers = experiment_of(path).points()[0].routers
    demands = (Demand(r, pps, None) for r, pps in zip(routers, rates_pps, strict=True))
    return built.trial(Setting(tuple(demands), 100_000_000, 200_000_000))


def members(router: str) -> set[int]:
    groups = Groups(GROUP)
    found = (groups.path(router) / groups.members).read_text().split()
    return {int(number) for number in found}


@pytest.mark.parametrize(("path", "ip"), [("tap", 4), ("tap", 6), ("bridge", 4), ("macvtap", 4)])
def test_each_guest_is_in_its_cgroup_and_goes_before_what_feeds_it(path: str, ip: int) -> None:
    before = quiet_host()
    with bench(path, ip) as built:
        _look(built.equipment, own_wire=path == "tap")
        seen = offer(built, path, 2e3, 1e3)
        assert seen.conserved
        assert all(router.received_frames for router in seen.routers)
        assert all(router.cpu_ns for router in seen.routers)
    assert not Groups(GROUP).top.exists()
    assert_same_host(before)


def _look(equipment: Equipment, *, own_wire: bool) -> None:
    groups = Groups(GROUP)
    for router, process in equipment.bed.guest_processes.items():
        inside = members(router)
        guest = set(descendants(process))
        assert guest <= inside
        feeders = inside - guest
        assert len(feeders) == (1 if own_wire else 0)
        for thread in feeders:
            assert kernel.get_scheduling(thread)[1] == FEEDER_NICE
        weight, cap = {"one": (400, None if own_wire else CAP), "two": (100, None)}[router]
        for file, value in groups.settings(weight, cap).items():
            assert (groups.path(router) / file).read_text().strip() == value
        core = equipment.cores.dut
        assert all(os.sched_getaffinity(thread) == set(core) for thread in inside)


def test_an_overloaded_guest_loses_what_is_too_much_at_its_nic() -> None:
    with bench("tap") as built:
        for _ in range(50):
            seen = offer(built, "tap", 500e3, 1e3)
            assert seen.conserved
            if seen.routers[0].lost["nic_queue"]:  # else there was too little time to send it
                break
        assert seen.routers[0].lost["nic_queue"] > seen.routers[0].lost["router_queue"]


def test_what_a_killed_run_left_is_removed_with_its_guests_and_groups() -> None:
    before = quiet_host()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with bench("tap"):
                os.write(writing, b"up")
                time.sleep(LIMIT_S)
        finally:
            os._exit(1)
    os.close(writing)
    assert os.read(reading, 2) == b"up"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reading)
    assert Groups(GROUP).top.is_dir(), "it outlives the command that made it"
    with exclusive():
        clean()
        clear_leftovers()
    assert not Groups(GROUP).top.exists()
    assert_same_host(before)

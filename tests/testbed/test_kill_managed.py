"""``kill -9`` between any two writes of a test bed under a policy: a clean leaves nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import pytest
from isolane.enforce.host_access import Host
from isolane.enforce.settings import Group, tasks
from isolane.errors import TestbedError
from isolane.spec import parse_experiment
from isolane.testbed import NETNS_DIR, clean, exclusive, kernel
from isolane.testbed.namespace_thread import run_in_thread
from isolane.testbed.netns import Namespace
from isolane.trials.live import testbed_policy
from isolane.trials.live.live_backend import LiveBackEnd

from tests.live import assert_same_host, quiet_host
from tests.look import hold_map, look_around

pytestmark = [pytest.mark.root, pytest.mark.native]

EXPERIMENT = """\
isolane: 1
name: kills
traffic: {frame_size: 64, flows: 10}
routers:
  - {name: one, role: victim, policy: {cpu_weight: 200, rate_min: 10Mbps}}
  - {name: two, role: aggressor, work: [none, cpu], policy: {cpu_weight: 100, rate_max: 100Mbps}}
load: {one: 5kpps, two: 2kpps}
arms: [{name: isolane, path: isolane}]
"""
WRITES = {"os.remove", "os.rename", "os.mkdir", "os.rmdir"}
STEP = 8
"""All writes would take a minute; those of one step more each time do, in the long run."""
LIMIT_S = 60.0


@dataclass
class Killer:
    """Ends this process by SIGKILL before its n-th write to a file system."""

    last: int
    pipe: int
    writes: int = 0
    armed: bool = False

    def __call__(self, event: str, words: tuple[Any, ...]) -> None:
        opened = event == "open" and (words[2] or 0) & (os.O_WRONLY | os.O_RDWR)
        if not self.armed or not (opened or event in WRITES):
            return
        self.writes += 1
        if self.writes == self.last:
            os.write(self.pipe, f"killed before {event} {words[0]}".encode())
            os.kill(os.getpid(), signal.SIGKILL)


@contextlib.contextmanager
def policy_on_a_bed(killer: Killer) -> Iterator[None]:
    """A test bed with a policy on it, whose writes the killer watches."""
    with exclusive() as journal:
        experiment = parse_experiment(EXPERIMENT)
        (arm,) = experiment.resolved_arms()
        killer.armed = True
        with LiveBackEnd(experiment, journal).bench(arm, experiment.points()[0].routers):
            yield


def live_and_die(last: int, pipe: int) -> NoReturn:
    """Build a test bed, put a policy on it, end that, take it down; or be killed on the way."""
    killer = Killer(last, pipe)
    sys.addaudithook(killer)
    said = "it came to its end"
    try:
        with policy_on_a_bed(killer):
            pass
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is told
        said = repr(error)
    os.write(pipe, said.encode())
    os._exit(0)


def killed_before(last: int) -> str:
    """Have a process do that; return what it said last."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        live_and_die(last, writing)
    os.close(writing)
    with open(reading, "rb") as stream:  # noqa: PTH123 - a descriptor
        said = stream.read().decode()
    os.waitpid(child, 0)
    return said


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_kill_9_between_any_two_writes_leaves_nothing_after_a_clean() -> None:
    before = quiet_host()
    first = 1 + int(time.time()) % STEP
    for last in range(first, 1000, STEP):
        said = killed_before(last)
        if said == "it came to its end":
            break
        assert said.startswith("killed before"), said
        with exclusive():
            clean()
            testbed_policy.clear_leftovers()
        found = look_around()
        # At once, but for what ends with the process that was killed.
        for kind in ("namespaces", "cgroups", "network", "mounts", "isolane's files"):
            assert found[kind] == before[kind], f"{said}, the {last}th write: {found[kind]}"
        assert_same_host(before)
    assert last > 40, "it was hardly begun when it ended"


def maps_of_the_bed() -> list[int]:
    """Maps of the programs on the links of the test bed that is there."""
    found = []
    for name in os.listdir(NETNS_DIR):  # noqa: PTH208 - they are names
        namespace = Namespace(name, os.open(NETNS_DIR / name, os.O_RDONLY | os.O_CLOEXEC))
        found += [number for program in namespace.programs() for number in program.map_ids]
        namespace.close()
    return found


def test_a_clean_ends_with_the_last_table_and_makes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    before = quiet_host()
    child = os.fork()
    if child == 0:
        try:
            with policy_on_a_bed(Killer(0, 0)):
                os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)  # no second pytest goes on when the bed cannot be built
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    maps = set(run_in_thread(maps_of_the_bed))
    assert maps, "there are programs on the bed's links"
    held = [hold_map(number) for number in maps]

    def let_go() -> None:
        for descriptor in held:
            os.close(descriptor)

    letting_go = threading.Timer(1.0, let_go)
    letting_go.start()
    made: list[Host] = []
    monkeypatch.setattr(Host, "plane", property(made.append))
    with exclusive():
        clean()
        left = [number for number in maps if kernel.map_exists(number)]
        assert testbed_policy.clear_leftovers()
    letting_go.join()
    assert not left
    assert not made
    assert_same_host(before)


def test_a_group_that_cannot_be_removed_says_who_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_EMPTY_S", 0.02)
    host_ = Host(group=f"isolane-e2e-{os.getpid()}")
    group = Group("")
    group.write(host_, value=True)
    theirs = host_.groups.top / "theirs"
    theirs.mkdir()
    try:
        with pytest.raises(TestbedError, match=r"cannot remove .*: the cgroup theirs is in it"):
            group.write(host_, None)
    finally:
        theirs.rmdir()
        group.write(host_, None)
        host_.close()
    assert group.read(host_) is None

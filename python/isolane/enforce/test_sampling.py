"""What samples and notes make of the counters of a policy in force."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from isolane._native import PortCounts, QueueCounts
from isolane.enforce import sampling
from isolane.enforce.host_access import Host
from isolane.enforce.policy_notes import without_numbers
from isolane.enforce.policy_state import AppliedSetting, State
from isolane.enforce.router_facts import RouterSample
from isolane.enforce.settings import Member, Program, Scheduling
from isolane.procfs import started
from isolane.spec.policy import parse_policy

POLICY = parse_policy(
    "isolane: 1\nname: p\nnics: {nic0: {rate: 1Gbps}}\n"
    "routers: {vr1: {netns: vr1}, vr2: {netns: vr2}}\n"
)


def queue(**counts: int) -> QueueCounts:
    names = (
        *("waiting", "offered", "offered_bytes", "dropped_queue", "dropped_rate", "dropped_cpu"),
        *("dropped_size", "dropped_share", "served", "forwarded", "forwarded_bytes", "untagged"),
    )
    return QueueCounts(**{**dict.fromkeys(names, 0), **counts})


@dataclass
class FakeGroups:
    """Cgroups: what their threads have had, and who is in them."""

    used_ns: dict[str, int] = field(default_factory=dict)
    members: dict[str, list[int]] = field(default_factory=dict)

    def cpu_ns(self, router: str) -> int | None:
        return self.used_ns.get(router)

    def threads(self, router: str) -> list[int]:
        if router not in self.members:
            raise FileNotFoundError
        return self.members[router]


def host(
    queues: dict[int, QueueCounts],
    ports: dict[int, PortCounts] | None = None,
    groups: FakeGroups | None = None,
    there: tuple[str, ...] = (),
) -> Host:
    plane = SimpleNamespace(
        queue_counts=queues.get,
        queue=lambda _: None,
        port_counts=(ports or {}).__getitem__,
    )
    made = SimpleNamespace(
        attached_plane=lambda: plane,
        groups=groups or FakeGroups(),
        ifindex=lambda _, ifname: 1 if ifname in there else None,
        lost=lambda *_: 0,
    )
    return cast("Host", made)


def state(**numbers: int) -> State:
    named = {name.replace("__", ":"): number for name, number in numbers.items()}
    return State(Path("/none"), numbers=named)


def test_frames_without_a_number_are_told_of_the_router_that_they_were_for() -> None:
    found = state(queue__vr1__eth0=3, queue__vr1__eth1=4, queue__vr2__eth0=5)
    counts = sampling.untagged(host({3: queue(), 4: queue(untagged=9), 5: queue()}), found, POLICY)
    assert counts == {"vr1": 9, "vr2": 0}
    (note,) = without_numbers(counts)
    assert note.startswith("vr1: the driver of a NIC leaves no place")
    assert "cpu_max" in note
    nobody = cast("Host", SimpleNamespace(attached_plane=lambda: None))
    assert without_numbers(sampling.untagged(nobody, found, POLICY)) == ()


def sample(at: Host, found: State) -> RouterSample:
    """Return the sample of the first router."""
    return sampling.take(at, found, POLICY).routers[0]


def with_member(found: State, thread: int, began: int) -> State:
    key = Member("vr1", "thread of eth0", thread, began).key
    found.applied[key] = AppliedSetting("", "isolane/vr1", router="vr1")
    return found


def test_a_router_whose_threads_have_all_ended_does_not_run() -> None:
    own, queues = started() or 0, {3: queue(offered=9)}
    runs = with_member(state(queue__vr1__eth0=3), os.getpid(), own)
    assert sample(host(queues), runs).present
    ended = with_member(state(queue__vr1__eth0=3), os.getpid(), own - 1)
    gone = sample(host(queues), ended)
    assert not gone.present
    assert gone.offered == 9, "what it had is still counted"
    # A machine's threads of later are in its cgroup.
    later = FakeGroups(members={"vr1/machine": [os.getpid()]})
    assert sample(host(queues, groups=later), ended).present


def test_a_tap_that_nothing_polls_runs_while_it_is_there() -> None:
    found = state(queue__vr1__tap0=3)
    key = Program("egress_tc", "/host", "tap0").key
    found.applied[key] = AppliedSetting(None, "ours", router="vr1")
    assert sample(host({3: queue()}, there=("tap0",)), found).present
    assert not sample(host({3: queue()}), found).present


@pytest.fixture
def spent(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    by_thread: dict[int, int] = {}
    monkeypatch.setattr(sampling, "cpu_ns", lambda thread: by_thread.get(thread, 0))
    return by_thread


def test_cpu_time_is_what_the_cgroup_says_whoever_has_come_and_gone(spent: dict[int, int]) -> None:
    own = os.getpid()
    found = with_member(state(), own, started() or 0)
    spent |= {own: 5, 7: 11}
    counted = FakeGroups({"vr1": 900}, {"vr1": [own, 7]})
    assert sample(host({}, groups=counted), found).cpu_ns == 900
    # Where nobody counts it: of all who are there now, those of later too.
    listed = FakeGroups(members={"vr1": [own], "vr1/machine": [7]})
    assert sample(host({}, groups=listed), found).cpu_ns == 16
    assert sample(host({}), found).cpu_ns == 5


@pytest.mark.parametrize(
    ("leads_to", "frames", "size"),
    [
        (("nic",), 110, 11_000),
        (("own",), 100, 10_000),
        (("nic", "own"), 100, 10_000),
        ((), 100, 10_000),
    ],
)
def test_what_xdp_sends_straight_to_a_nic_is_added_to_what_passes_a_port(
    leads_to: tuple[str, ...], frames: int, size: int
) -> None:
    found = state(queue__vr1__eth0=3, port__vr1__eth1=4)
    found.numbers |= {f"egress_dev:vr1:eth{n}:{end}": n for n, end in enumerate(leads_to)}
    queues = {3: queue(forwarded=100, forwarded_bytes=10_000)}
    port = PortCounts(offered=13, offered_bytes=1_000, dropped_rate=2, dropped_size=1)
    got = sample(host(queues, {4: port}), found)
    assert (got.forwarded, got.forwarded_bytes) == (frames, size)


def test_threads_that_polled_are_missed_when_they_end_and_a_machines_are_not() -> None:
    own, found = started() or 0, state()
    for setting in (
        Member("vr1", "thread of eth0", os.getpid(), own - 1),
        Scheduling("vr1", "thread of eth0", os.getpid(), own - 1),
        Scheduling("nic", "thread of nic0", os.getpid(), own - 1),
        Scheduling("nic", "thread of nic1", os.getpid(), own),
        Member("vm", "thread", os.getpid(), own - 1),
    ):
        found.applied[setting.key] = AppliedSetting(None, None)
    assert sampling.lost_threads_of(found) == {"vr1 (eth0)", "nic0"}

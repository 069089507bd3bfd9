"""What samples and notes make of the counters of a policy in force."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

from isolane._native import QueueCounts
from isolane.enforce import sampling
from isolane.enforce.host_access import Host
from isolane.enforce.policy_notes import without_numbers
from isolane.enforce.policy_state import State
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


def host(queues: dict[int, QueueCounts]) -> Host:
    plane = SimpleNamespace(queue_counts=queues.get)
    return cast("Host", SimpleNamespace(attached_plane=lambda: plane))


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

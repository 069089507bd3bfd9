"""Paths and profiles: what is refused, and in which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from isolane.errors import SpecError
from isolane.spec.hostmodel import PathData, ProfileData
from isolane.spec.loader import load_file

PATH = """\
isolane: 1
kind: vm
path: macvtap
nic: virtio
title: a path
source: a test
ring: port
first: take
stages:
  take: {context: softirq, cost: a, shared: true, next: work}
  work: {context: process, cost: [a, b], queue: tap, next: wire}
"""

PROFILE = """\
isolane: 1
name: mine
title: a host
source: a test
host: {kernel: linux-6, switch_ns: 1000, wake_ns: 2000, source: a test}
rings:
  port: {capacity: 256, moderation_ns: 50000, irq_ns: 1000, source: a test}
queues:
  tap: {capacity: 500, source: a test}
costs:
  a: {frame_ns: 100, source: a test}
  b: {frame_ns: 200, byte_ns: 0.5, source: a test}
fitted:
  costs.a.frame_ns: {low: 10, high: 1000, why: a test}
"""


def refused(tmp_path: Path, text: str, model: type[PathData | ProfileData]) -> str:
    file = tmp_path / "f.yaml"
    file.write_text(text)
    with pytest.raises(SpecError) as error:
        load_file(file, model, "a file")
    assert error.value.exit_code == 2
    return str(error.value).replace(f"{file}:", "")


def test_good_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "path.yaml").write_text(PATH)
    (tmp_path / "profile.yaml").write_text(PROFILE)
    path = load_file(tmp_path / "path.yaml", PathData, "a path")
    profile = load_file(tmp_path / "profile.yaml", ProfileData, "a profile")
    assert [name for name, _ in path.ordered()] == ["take", "work"]
    assert path.name == "vm-macvtap-virtio"
    assert profile.figure("costs.b.byte_ns") == 0.5
    assert profile.figure("costs.c.byte_ns") is None
    other = profile.replaced({"costs.a.frame_ns": 7.0, "rings.port.irq_ns": 9.0})
    assert (other.costs["a"].frame_ns, other.rings["port"].irq_ns) == (7.0, 9.0)
    assert profile.costs["a"].frame_ns == 100.0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "next: wire",
            "next: take",
            (
                "11: stages.work.next: the path goes in a cycle: take -> work -> take; "
                "accepted: a way that ends at the wire"
            ),
        ),
        (
            "next: work",
            "next: wrok",
            (
                "10: stages.take.next: unknown stage 'wrok'; accepted: take, work, wire "
                "(did you mean work?)"
            ),
        ),
        ("first: take", "first: x", "8: first: unknown stage 'x'; accepted: take, work"),
        (
            "next: work",
            "next: wire",
            "11: stages.work: no frame comes to stage 'work'; accepted: stages on the way",
        ),
        (
            "queue: tap, ",
            "",
            (
                "11: stages.work: no queue between softirq and process; "
                "accepted: queue: a queue of the profile"
            ),
        ),
        (
            "context: softirq",
            "context: sofirq",
            (
                "10: stages.take.context: 'sofirq' is not known; accepted: softirq, nic, back-end, "
                "thread, server, process, domain, dom0 (did you mean softirq?)"
            ),
        ),
        (
            "context: process",
            "context: nic",
            "11: stages.work: a NIC's own thread serves its ring, for all routers; accepted: the",
        ),
        (
            "queue: tap,",
            "queue: tap, scheduler: uplink,",
            "11: stages.work.scheduler: a scheduler, but not of all routers' frames to the wire",
        ),
        (
            "queue: tap,",
            "queue: tap, drop: a,",
            "11: stages.work.drop: drop, but nothing to look at; accepted: a stage with the ring",
        ),
        (
            "cost: a, shared: true",
            "cost: a, shared: true, only: shared-link",
            "10: stages.take.only: only shared-link, with the ring or a queue before it; accepted",
        ),
        (
            "cost: a, shared",
            "cots: a, shared",
            (
                "10: stages.take: key 'cost' is missing; accepted: cost: Costs of the profile that "
                "add up to this stage's"
            ),
        ),
        (
            "cost: a, shared",
            "cost: 5, shared",
            (
                "10: stages.take.cost: 5 is not the name of a cost; accepted: a name, or a list of "
                "names"
            ),
        ),
    ],
)
def test_a_wrong_path_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert message in refused(tmp_path, PATH.replace(old, new), PathData)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "a: {frame_ns: 100",
            "a: {frame_ns: -100",
            "11: costs.a.frame_ns: cost -100 is negative; accepted: a number of ns, 0 or more",
        ),
        (
            "a: {frame_ns: 100, ",
            "a: {",
            "11: costs.a: key 'frame_ns' is missing; accepted: frame_ns: Each frame",
        ),
        ("frame_ns: 100", "frame_ns: .inf", "cost inf is no number"),
        ("frame_ns: 100", "frame_ns: 100ns", "'100ns' is not a cost"),
        ("capacity: 500", "capacity: 0", "0 is not a capacity in frames"),
        (
            "costs.a.frame_ns:",
            "costs.c.frame_ns:",
            "14: fitted.costs.c.frame_ns: there is no 'costs.c.frame_ns' to be fitted",
        ),
        (
            "byte_ns: 0.5",
            "bite_ns: 0.5",
            (
                "12: costs.b.bite_ns: unknown key 'bite_ns'; accepted: frame_ns, byte_ns, poll_ns, "
                "cold_ns, source (did you mean byte_ns?)"
            ),
        ),
    ],
)
def test_a_wrong_profile_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert message in refused(tmp_path, PROFILE.replace(old, new), ProfileData)

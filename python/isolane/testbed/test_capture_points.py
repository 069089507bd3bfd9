"""Capture points: which interfaces a router's frames pass, in their order."""

from __future__ import annotations

import itertools

import pytest

from isolane import _native
from isolane.testbed.bed_plan import BedPlan, Kind, Path, RouterPlan
from isolane.testbed.capture_points import CapturePoint, capture_points_of
from isolane.testbed.layout import make_layout

NAMES = _native.Points.names()


def points(path: Path, kind: Kind = "container", routers: int = 1) -> list[list[CapturePoint]]:
    plans = tuple(RouterPlan(f"r{i}", kind, path, None) for i in range(routers))
    layout = make_layout(BedPlan(plans, "softirq", 50_000, (1,), (0,), 4))
    numbers = itertools.count(1)
    ends = {(end.netns, end.ifname) for veth in layout.veths for end in (veth.tx, veth.rx)}
    ends |= {(upper.netns, upper.ifname) for upper in layout.uppers}
    found = capture_points_of(layout, {end: next(numbers) for end in sorted(ends)})
    return [[point for point in found if point.router == plan.name] for plan in plans]


@pytest.mark.parametrize(
    ("path", "kind", "passed"),
    [
        ("direct", "container", "isl-in0 isl-out0"),
        ("none", "native", "isl-in0 isl-out0"),
        ("tap", "vm", "isl-in0 isl-out0"),
        ("bridge", "container", "isl-nb0 isl-p0 isl-in0 isl-out0 isl-q0 isl-nb1"),
        ("bridge", "vm", "isl-nb0 isl-p0 isl-in0 isl-out0 isl-q0 isl-nb1"),
        ("macvlan", "container", "isl-nm0 isl-out0 isl-nm1"),
        # From NIC to router and back it is XDP that takes them.
        ("isolane", "container", "isl-in0 isl-out0"),
        ("netback", "vm", "isl-nv0 isl-nv1"),
        ("wire", "container", ""),
    ],
)
def test_frames_pass_these_in_this_order(path: Path, kind: Kind, passed: str) -> None:
    (mine,) = points(path, kind)
    assert " ".join(point.ifname for point in mine) == passed
    numbers = [NAMES.index(point.name) for point in mine]
    assert numbers == sorted(set(numbers))
    assert [point.first for point in mine] == [i == 0 for i in range(len(mine))]
    assert [point.last for point in mine] == [i == len(mine) - 1 for i in range(len(mine))]
    sending = {"port-in", "router-out", "nic-out"}
    assert all(point.sending == (point.name in sending) for point in mine)


def test_routers_share_the_points_of_a_shared_wire() -> None:
    one, two = points("macvlan", routers=2)
    assert [point.ifindex for point in (one[0], one[-1])] == [
        point.ifindex for point in (two[0], two[-1])
    ]
    assert one[1].ifindex != two[1].ifindex

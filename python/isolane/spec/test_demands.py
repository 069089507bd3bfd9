"""What is offered at a point: as asked for, as far as it can be sent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isolane.spec import Experiment, Point, parse_experiment
from isolane.spec.demands import (
    Scale,
    demands_of,
    intended_pps,
    is_moved,
    known_demands,
    line_pps,
    offered_pps,
)

TEXT = """
isolane: 1
name: loads
traffic: {frame_size: 64}
routers:
  - {name: victim, role: victim}
  - {name: aggressor, role: aggressor, count: 2}
load: {victim: VICTIM, aggressor: AGGRESSOR}
arms: [{name: direct, path: direct}, {name: bridge, path: bridge}]
"""
ONE_X = 1_000_000.0


def point(victim: str, aggressor: str) -> tuple[Experiment, Point]:
    text = TEXT.replace("VICTIM", victim).replace("AGGRESSOR", aggressor)
    found = parse_experiment(text)
    return found, found.points()[0]


def loads(victim: str, aggressor: str, scale: Scale, arm: str = "direct") -> list[float]:
    return [d.offered_pps for d in demands_of(*point(victim, aggressor), scale, arm)]


def test_what_can_be_sent_is_offered_as_asked_for() -> None:
    scale = Scale(ONE_X, {"direct": 1_200_000.0})
    demands = demands_of(*point("0.2x", "1x"), scale, "direct")
    assert [d.offered_pps for d in demands] == [200_000, 500_000, 500_000]
    assert [d.load_x for d in demands] == [0.2, 0.5, 0.5]
    assert [d.intended_pps for d in demands] == [None, None, None]
    assert not is_moved(demands)
    # 64 bytes are 512 bits.
    assert loads("51.2kbps", "100pps", Scale()) == [100, 50, 50]


def test_the_aggressors_are_moved_and_the_victim_is_not() -> None:
    scale = Scale(ONE_X, {"direct": 1_200_000.0})
    demands = demands_of(*point("0.2x", "4x"), scale, "direct")
    assert [d.offered_pps for d in demands] == [200_000, 500_000, 500_000]
    assert [d.load_x for d in demands] == pytest.approx([0.2, 0.5, 0.5])
    assert [d.intended_pps for d in demands] == [None, 2_000_000, 2_000_000]
    assert is_moved(demands)
    assert (intended_pps(demands), offered_pps(demands)) == (4_200_000, 1_200_000)


def test_each_arm_has_a_maximum_of_its_own() -> None:
    scale = Scale(ONE_X, {"direct": 1_200_000.0}, 2_200_000.0)
    assert loads("0.2x", "4x", scale, "direct") == [200_000, 500_000, 500_000]
    assert loads("0.2x", "4x", scale, "bridge") == [200_000, 1_000_000, 1_000_000]


def test_where_the_victim_alone_is_too_much_all_are_moved() -> None:
    scale = Scale(ONE_X, {"direct": 500_000.0})
    assert loads("0.8x", "0.2x", scale) == pytest.approx([400_000, 50_000, 50_000])


def test_max_is_what_the_others_leave() -> None:
    scale = Scale(ONE_X, {"direct": 1_200_000.0})
    demands = demands_of(*point("0.2x", "max"), scale, "direct")
    assert [d.offered_pps for d in demands] == [200_000, 500_000, 500_000]
    assert not is_moved(demands)
    assert str(point("0.2x", "max")[1].routers[1].load) == "max"
    assert loads("max", "max", scale) == pytest.approx([600_000, 300_000, 300_000])


def test_what_nobody_knows_is_not_told() -> None:
    with pytest.raises(ValueError, match="without a measured capacity"):
        demands_of(*point("0.2x", "1x"), Scale(), "direct")
    with pytest.raises(ValueError, match="maximum is not known"):
        demands_of(*point("1kpps", "max"), Scale(), "direct")
    found = known_demands(*point("1kpps", "1x"), Scale(), "direct")
    assert [None if d is None else d.offered_pps for d in found] == [1_000, None, None]


def test_a_line_carries_what_ethernet_does() -> None:
    assert line_pps(point("1kpps", "1kpps")[0]) == pytest.approx(14_880_952, abs=1)


@given(
    victim=st.floats(0, 20).map(lambda x: f"{x:.4f}x"),
    aggressor=st.floats(0.001, 20).map(lambda x: f"{x:.4f}x"),
    limit=st.floats(1_000, 1e7),
)
def test_no_point_asks_for_more_than_can_be_sent(victim: str, aggressor: str, limit: float) -> None:
    found = loads(victim, aggressor, Scale(ONE_X, {"direct": limit}))
    asked = loads(victim, aggressor, Scale(ONE_X))
    assert sum(found) <= limit * (1 + 1e-6)
    assert sum(found) == pytest.approx(min(limit, sum(asked)))
    assert all(0 <= pps <= wanted * (1 + 1e-9) for pps, wanted in zip(found, asked, strict=True))

"""Where a policy drops frames, and that each frame is received or counted as dropped.

``Rig.offer`` itself sees to it that no frame is unaccounted for, in each trial of every test.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import pytest
from isolane.enforce import RouterSample

from tests.enforce.rig import Rig
from tests.live import LIMIT_S

pytestmark = [pytest.mark.root, pytest.mark.native]

FAST = 700e3
"""Alone more than one core forwards, frames/s."""


def counters(rig: Rig) -> dict[str, RouterSample]:
    sample = rig.enforcer.sample()
    assert sample is not None
    return {router.name: router for router in sample.routers}


def offered_until(holds: Callable[[], bool], offer: Callable[[], object]) -> None:
    """Offer load until something is so: a busy machine may send too little for it at first."""
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline
        offer()


def received_from_both(rig: Rig, rate_pps: float) -> None:
    """Offer load until frames of both routers came through."""
    received: Counter[str] = Counter()
    offered_until(
        lambda: received["vr1"] > 0 < received["vr2"],
        lambda: received.update(rig.offer({"vr1": rate_pps, "vr2": rate_pps}).received),
    )


@pytest.mark.parametrize(
    ("keys", "point", "rate"),
    [
        ("rate_max: 20kpps", "rate_out", 80e3),
        ("rate_max: 20Mbps", "link", 120e3),
        ("rate_max: {ingress: 20kpps}", "rate_in", 80e3),
        ("rate_max: {ingress: 20Mbps}", "rate_in", 120e3),
        ("cpu_max: 5%", "cpu", FAST),
        ("queue: 16", "queue", FAST),
    ],
)
def test_what_is_over_a_limit_is_dropped_there(
    rig: Rig, keys: str, point: str, rate: float
) -> None:
    rig.apply(vr1=keys)
    offered_until(lambda: counters(rig)["vr1"].dropped[point] > 0, lambda: rig.offer({"vr1": rate}))
    # CPU time and queues are short for everything that comes too fast; rates are not.
    others = {"queue"} if point in ("cpu", "queue") else {"queue", "redirect"}
    assert {at for at, n in counters(rig)["vr1"].dropped.items() if n} <= {point, *others}
    assert set(counters(rig)["vr2"].dropped.values()) == {0}


def test_of_two_that_have_too_much_the_one_that_has_had_more_waits(rig: Rig) -> None:
    rig.apply()

    def share_drops() -> int:
        return sum(router.dropped["share"] for router in counters(rig).values())

    offered_until(lambda: share_drops() > 0, lambda: rig.offer({"vr1": 2 * FAST, "vr2": FAST}))


def test_what_is_not_over_its_limit_is_not_dropped_there(rig: Rig) -> None:
    rig.apply(vr1="cpu_max: 90%, rate_max: {ingress: 900kpps, egress: 900kpps}")
    received_from_both(rig, 2e3)
    for router in counters(rig).values():
        for point in ("rate_in", "rate_out", "size", "link"):
            assert router.dropped[point] == 0


def test_a_cap_on_cpu_time_that_is_lifted_drops_no_more(rig: Rig) -> None:
    rig.apply(vr1="cpu_max: 5%")
    offered_until(lambda: counters(rig)["vr1"].dropped["cpu"] > 0, lambda: rig.offer({"vr1": FAST}))
    rig.enforcer.set_keys("vr1", {"cpu_max": "none"})
    before = counters(rig)["vr1"].dropped["cpu"]
    rig.offer({"vr1": FAST})
    assert counters(rig)["vr1"].dropped["cpu"] == before


CHANGES = [
    ("vr1", {"cpu_weight": "300", "queue": "100"}),
    ("vr1", {"rate_min": "1Gbps"}),  # from straight to the NIC to a class of its link
    ("vr2", {"forward": "xdp"}),
    ("vr1", {"rate_min": "2Gbps", "rate_max": "5Gbps", "link_weight": "3"}),
    ("vr2", {"rate_max": "{ingress: 900kpps}", "cpu_max": "90%"}),
    ("vr2", {"forward": "kernel"}),
    ("vr1", {"rate_min": "none", "rate_max": "none", "link_weight": "none"}),  # and back
]


def test_changes_at_run_time_lose_no_frame(rig: Rig) -> None:
    def change() -> None:
        for router, keys in CHANGES:
            rig.enforcer.set_keys(router, keys)

    rig.apply()
    # So slow that queue and rings hold what comes in while the machine pauses for 0.2 s.
    trial = rig.offer({"vr1": 500, "vr2": 500}, 4.0, meanwhile=change)
    assert min(trial.received.values()) > 0
    # Where it pauses for longer they overflow, and a pause may count as CPU time, of which one has
    # a part at most; nothing else may lose frames, counted or not.
    lost = {point for point, frames in trial.dropped.items() if frames}
    assert lost <= {"queue", "wire", "cpu"}

from __future__ import annotations

from dataclasses import replace

import pytest

from isolane.enforce.router_facts import RouterSample, Sample
from isolane.enforce.router_rates import rates

FIRST = RouterSample(
    "vr1",
    present=True,
    offered=1000,
    forwarded=900,
    dropped={"queue": 90, "link": 10},
    waiting=3,
    queue_limit=64,
    cpu_ns=10**9,
    cores=(1,),
    cpu_fair_share=0.75,
    link_bytes={"eth1": 10**6},
    link_fair_share={"eth1": 0.6},
)
LATER = replace(
    FIRST,
    offered=3000,
    forwarded=2400,
    dropped={"queue": 390, "link": 210},
    waiting=5,
    cpu_ns=2 * 10**9,
    link_bytes={"eth1": 26 * 10**6},
)


def sample(at_s: float, *routers: RouterSample, busy_s: float = 0.0) -> Sample:
    return Sample(round(at_s * 1e9), routers, {1: round(busy_s * 1e9)}, {"eth1": 125_000_000})


def test_two_samples_make_rates_and_shares() -> None:
    found = rates(sample(1, FIRST), sample(3, LATER, busy_s=1.5), host_cores=8)
    (vr1,) = found.routers
    assert found.seconds == 2
    assert found.cores == {1: 0.75}
    assert (vr1.offered_pps, vr1.forwarded_pps) == (1000, 750)
    assert vr1.dropped_pps == {"queue": 150, "link": 100}
    assert (vr1.waiting, vr1.queue_limit) == (5, 64)
    assert (vr1.cpu_share, vr1.cpu_fair_share) == (0.5, 0.75)
    assert vr1.link_bps == {"eth1": 100e6}
    assert vr1.link_share == {"eth1": pytest.approx(0.1)}
    assert vr1.link_fair_share == {"eth1": 0.6}


def test_the_keys_of_top_stay_as_they_were() -> None:
    found = rates(sample(1, FIRST), sample(3, LATER), host_cores=8)
    data = found.as_data()
    assert list(data) == ["seconds", "routers", "cores"]
    assert list(data["routers"][0]) == [
        *("name", "present", "offered_pps", "forwarded_pps", "dropped_pps", "waiting", "room"),
        *("cpu_share", "cpu_entitled", "nic_cpu_share"),
        *("link_bps", "link_share", "link_entitled"),
    ]
    assert data["routers"][0]["room"] == found.routers[0].queue_limit


def test_what_frames_cost_the_nics_threads_is_a_share_too() -> None:
    before, after = (replace(router, nic_cpu_ns=10**8) for router in (FIRST, LATER))
    found = rates(sample(1, before), sample(3, replace(after, nic_cpu_ns=10**9)), host_cores=8)
    assert found.routers[0].nic_cpu_share == 0.45
    (does_not_pay,) = rates(sample(1, FIRST), sample(3, LATER), host_cores=8).routers
    assert does_not_pay.nic_cpu_share is None


def test_a_router_bound_to_no_core_may_use_all() -> None:
    unbound = [replace(router, cores=()) for router in (FIRST, LATER)]
    found = rates(sample(0, unbound[0]), sample(1, unbound[1]), host_cores=4)
    assert found.routers[0].cpu_share == 0.25


def test_counters_that_went_back_count_as_nothing() -> None:
    found = rates(sample(0, LATER), sample(1, FIRST), host_cores=1)
    (vr1,) = found.routers
    assert vr1.offered_pps == vr1.forwarded_pps == vr1.cpu_share == 0
    assert set(vr1.dropped_pps.values()) == {0}


def test_counters_of_a_router_that_has_just_come_are_not_those_of_the_interval() -> None:
    absent = RouterSample("vr1", present=False)
    for before in (sample(0), sample(0, absent)):
        (vr1,) = rates(before, sample(1, LATER), host_cores=1).routers
        assert vr1.present
        assert vr1.offered_pps == vr1.cpu_share == 0
        assert vr1.link_bps == {"eth1": 0}


def test_two_samples_at_the_same_time_do_not_divide_by_zero() -> None:
    assert rates(sample(1, FIRST), sample(1, FIRST), host_cores=1).routers[0].offered_pps == 0

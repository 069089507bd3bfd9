from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroute2.netlink.rtnl.tcmsg.common import calc_xmittime

from isolane._native import CpuBudget, RateLimits, TokenBucket
from isolane.enforce import htb
from isolane.enforce.fair_share import Link, wants_link
from isolane.enforce.kernel_settings import (
    MIN_CLASS_RATE,
    QueueLimits,
    class_settings,
    cpu_budget,
    limits,
    queue_limits,
    uplinks,
)
from isolane.enforce.router_facts import FoundRouter, Interface
from isolane.errors import SpecError
from isolane.spec.policy import Policy, parse_policy
from isolane.spec.policy_fields import RateLimit

RATE = 125_000_000
"""Of the link, bytes/s: 1 Gbit/s."""


def policy(*routers: dict[str, Any], nics: tuple[str, ...] = ("eth1",)) -> Policy:
    named = {f"r{i}": {"netns": f"r{i}", **keys} for i, keys in enumerate(routers)}
    data = {"isolane": 1, "name": "p", "nics": {nic: {"rate": "1Gbps"} for nic in nics}}
    return parse_policy(json.dumps({**data, "routers": named}))


def test_classes_are_what_the_kernel_is_told() -> None:
    found = policy(
        {},
        {"rate_min": "200Mbps", "rate_max": "400Mbps", "priority": 1, "link_weight": 2},
        {"rate_max": "5Gbps", "burst": "64kB"},
    )
    link = Link("eth1", RATE, tuple(found.routers))
    plain, full, above = (class_settings(router, link) for router in found.routers.values())
    assert (plain.rate, plain.ceil) == (MIN_CLASS_RATE, RATE)
    assert (plain.prio, plain.quantum) == (3, htb.QUANTUM)
    assert (full.rate, full.ceil) == (25_000_000, 50_000_000)
    assert (full.prio, full.quantum) == (1, 2 * htb.QUANTUM)
    assert above.ceil == RATE, "a ceiling above the link is the link"
    assert not wants_link(found.routers["r0"])
    assert wants_link(found.routers["r1"])
    assert not wants_link(policy({"rate_max": "100kpps"}).routers["r0"])


def test_buckets_are_empty_when_there_is_no_limit() -> None:
    no_limit = RateLimits(frames=TokenBucket(rate=0, depth=0), bits=TokenBucket(rate=0, depth=0))
    assert limits(None, None) == no_limit
    found = limits(RateLimit(pps=1e5, bps=1e9), None)
    assert (found.frames.rate, found.bits.rate) == (100_000, 10**9)
    assert found.frames.depth == 1000  # 10 ms of it
    assert found.bits.depth == pytest.approx(10**7, rel=0.01)
    assert limits(RateLimit(bps=1e9), None, bits=False) == no_limit
    assert limits(RateLimit(pps=10), 2000).frames == TokenBucket(rate=10, depth=2)


def test_a_queue_is_as_long_as_its_weight_among_those_that_run() -> None:
    found = policy({"cpu_weight": 100}, {"cpu_weight": 200}, {"cpu_weight": 400})
    running = ("r0", "r1", "r2")
    assert [queue_limits(found, name, running).limit for name in running] == [
        64,
        128,
        240,
    ]
    # Without r0 nobody is to wait longer for its sake.
    assert [queue_limits(found, n, ("r1", "r2")).limit for n in ("r1", "r2")] == [
        64,
        128,
    ]
    pinned = policy({"cores": [1]}, {"cores": [2], "cpu_weight": 200}, {"queue": 16})
    assert queue_limits(pinned, "r1", ("r0", "r1")).limit == 64
    assert queue_limits(pinned, "r2", running) == QueueLimits(16, 16)


def test_where_frames_leave_is_told_by_policy_or_bridge_or_there_is_one_nic_only() -> None:
    def leaves_by(nics: tuple[str, ...], bridge: str | None = None, **keys: Any) -> tuple[str, ...]:
        found = policy(keys, nics=nics)
        at = Interface("veth", None, "eth0", 3, "02:00:00:00:00:01", bridge=bridge)
        return uplinks(found, FoundRouter("r0", "container", None, None, None, (at,)), at)

    assert leaves_by(("eth1",)) == ("eth1",)
    assert leaves_by(("eth1", "eth2"), interfaces={"eth0": "eth2"}) == ("eth2",)
    assert leaves_by(("eth1", "eth2"), bridge="br0") == ("eth1", "eth2")
    with pytest.raises(SpecError, match=r"router r0: .* eth0 .* one of eth1, eth2"):
        leaves_by(("eth1", "eth2"))


@given(st.integers(1000, 20_000_000_000), st.none() | st.integers(1518, 100_000_000))
def test_a_burst_is_read_back_as_it_was_given(rate: int, asked: int | None) -> None:
    burst = htb.burst_bytes(rate, asked)
    ticks = calc_xmittime(rate, burst)
    assert 0 < ticks < 1 << 32
    assert htb._bytes_of(ticks, rate) == burst
    if (asked or 0) < 100 * rate:
        assert burst >= max(3076, asked or rate // 100)


def test_a_budget_has_the_cap_and_the_weight_of_who_pays_for_the_nics_work() -> None:
    text = """isolane: 1
name: p
nics: {e: {rate: 1Gbps, cores: [1]}}
routers:
  pays: {netns: a, cores: [1], cpu_weight: 300}
  both: {netns: b, cores: [1], cpu_max: 25%}
  capped: {netns: c, cores: [2], cpu_max: 25%}
  neither: {netns: d, cores: [2]}
"""
    on = parse_policy(text)
    assert cpu_budget(on, "pays", "container") == CpuBudget(rate_ns=0, depth_ns=0, weight=300)
    cap = {"rate_ns": 250_000_000, "depth_ns": 2_500_000}
    assert cpu_budget(on, "both", "container") == CpuBudget(**cap, weight=100)
    assert cpu_budget(on, "capped", "container") == CpuBudget(**cap, weight=0)
    assert cpu_budget(on, "neither", "container") is None
    assert cpu_budget(on, "pays", "vm") is None

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroute2.netlink.rtnl.tcmsg.common import calc_xmittime

from isolane.enforce import htb, shares
from isolane.enforce.model import FoundRouter, Interface
from isolane.enforce.shares import LEAST_RATE, QUANTUM, Link
from isolane.errors import SpecError
from isolane.spec.policy import Policy, parse_policy
from isolane.spec.policy_fields import RateLimit

RATE = 125_000_000
"""Of the link, bytes/s: 1 Gbit/s."""


def policy(*routers: dict[str, Any], nics: tuple[str, ...] = ("eth1",)) -> Policy:
    named = {f"r{i}": {"netns": f"r{i}", **keys} for i, keys in enumerate(routers)}
    data = {"isolane": 1, "name": "p", "nics": {nic: {"rate": "1Gbps"} for nic in nics}}
    return parse_policy(json.dumps({**data, "routers": named}))


def entitled(found: Policy) -> dict[str, float]:
    link = Link("eth1", RATE, tuple(found.routers))
    return shares.entitled_link(found, link, link.routers)


@st.composite
def routers(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Up to six routers whose guarantees fit on the link."""
    left, made = 1000, []
    for _ in range(draw(st.integers(1, 6))):
        keys: dict[str, Any] = {
            "priority": draw(st.integers(0, 7)), "link_weight": draw(st.integers(1, 1000)),
        }  # fmt: skip
        least = draw(st.integers(0, left))
        if least:
            left -= least
            keys["rate_min"] = f"{least}Mbps"
        if draw(st.booleans()):
            keys["rate_max"] = f"{draw(st.integers(max(1, least), 1200))}Mbps"
        made.append(keys)
    return made


@settings(max_examples=100, deadline=None)
@given(routers())
def test_shares_of_a_link_keep_what_the_policy_says(made: list[dict[str, Any]]) -> None:
    found = policy(*made)
    share = entitled(found)
    total = sum(share.values())
    assert total <= 1 + 1e-6
    ceilings = {}
    for name, router in found.routers.items():
        least = (router.rate_min_bps or 0) / 1e9
        limit = router.rate_max.egress
        ceilings[name] = min(1.0, (limit.bps if limit and limit.bps else 1e9) / 1e9)
        assert least - 1e-6 <= share[name] <= ceilings[name] + 1e-6
    hungry = [name for name in share if share[name] < ceilings[name] - 1e-6]
    assert total > 1 - 1e-6 or not hungry, "something is left though somebody wants it"
    for one in hungry:
        for other, router in found.routers.items():
            got_more = share[other] > (router.rate_min_bps or 0) / 1e9 + 1e-6
            later = router.priority > found.routers[one].priority
            assert not (got_more and later), "a later priority is served before an earlier one"


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (({}, {}), (0.5, 0.5)),
        (({"link_weight": 3}, {}), (0.75, 0.25)),
        (({"rate_min": "600Mbps"}, {}), (0.8, 0.2)),
        (({"priority": 1}, {}), (1.0, 0.0)),
        (({"priority": 1}, {"rate_min": "100Mbps"}), (0.9, 0.1)),
        (({"rate_max": "100Mbps"}, {}, {}), (0.1, 0.45, 0.45)),
        (({"rate_max": "100Mbps"}, {"rate_max": "200Mbps"}), (0.1, 0.2)),
        (({"priority": 0, "rate_max": "300Mbps"}, {"link_weight": 2}, {}), (0.3, 1.4 / 3, 0.7 / 3)),
    ],
)
def test_shares_worked_out_by_hand(
    made: tuple[dict[str, Any], ...], expected: tuple[float, ...]
) -> None:
    assert list(entitled(policy(*made)).values()) == pytest.approx(expected, abs=1e-6)


def test_classes_are_what_the_kernel_is_told() -> None:
    found = policy(
        {},
        {"rate_min": "200Mbps", "rate_max": "400Mbps", "priority": 1, "link_weight": 2},
        {"rate_max": "5Gbps", "burst": "64kB"},
    )
    link = Link("eth1", RATE, tuple(found.routers))
    plain, full, above = (shares.of_class(router, link) for router in found.routers.values())
    assert (plain[0], plain[1], plain[3], plain[4]) == (LEAST_RATE, RATE, 3, QUANTUM)
    assert (full[0], full[1], full[3], full[4]) == (25_000_000, 50_000_000, 1, 2 * QUANTUM)
    assert above[1] == RATE, "a ceiling above the link is the link"
    assert not shares.wants_link(found.routers["r0"])
    assert shares.wants_link(found.routers["r1"])
    assert not shares.wants_link(policy({"rate_max": "100kpps"}).routers["r0"])


def test_buckets_are_empty_when_there_is_no_limit() -> None:
    assert shares.limits(None, None) == [[0, 0], [0, 0]]
    (pps, frames), (bps, bits) = shares.limits(RateLimit(pps=1e5, bps=1e9), None)
    assert (pps, bps) == (100_000, 10**9)
    assert frames == 1000  # 10 ms of it
    assert bits == pytest.approx(10**7, rel=0.01)
    assert shares.limits(RateLimit(bps=1e9), None, bits=False) == [[0, 0], [0, 0]]
    assert shares.limits(RateLimit(pps=10), 2000)[0] == [10, 2]


def test_weights_share_the_cores() -> None:
    assert shares.entitled_cpu({"a": 300, "b": 100}, "a") == 0.75


def test_where_frames_leave_is_told_by_policy_or_bridge_or_there_is_one_nic_only() -> None:
    def ways(nics: tuple[str, ...], bridge: str | None = None, **keys: Any) -> tuple[str, ...]:
        found = policy(keys, nics=nics)
        at = Interface("veth", None, "eth0", 3, "02:00:00:00:00:01", bridge=bridge)
        return shares.uplinks(found, FoundRouter("r0", "container", None, None, None, (at,)), at)

    assert ways(("eth1",)) == ("eth1",)
    assert ways(("eth1", "eth2"), interfaces={"eth0": "eth2"}) == ("eth2",)
    assert ways(("eth1", "eth2"), bridge="br0") == ("eth1", "eth2")
    with pytest.raises(SpecError, match=r"router r0: .* eth0 .* one of eth1, eth2"):
        ways(("eth1", "eth2"))


@given(st.integers(1000, 20_000_000_000), st.none() | st.integers(1518, 100_000_000))
def test_a_burst_is_read_back_as_it_was_given(rate: int, asked: int | None) -> None:
    burst = htb.burst_bytes(rate, asked)
    ticks = calc_xmittime(rate, burst)
    assert 0 < ticks < 1 << 32
    assert htb._bytes_of(ticks, rate) == burst
    if (asked or 0) < 100 * rate:
        assert burst >= max(3076, asked or rate // 100)

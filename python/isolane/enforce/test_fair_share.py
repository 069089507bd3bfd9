"""Fair shares and guaranteed rates: worked out by hand, and by an oracle that goes another way."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isolane.enforce.fair_share import (
    Link,
    ceiling_pps,
    cpu_fair_shares,
    cpu_fair_shares_on_host,
    groups_sharing_cores,
    link_fair_rates,
    link_fair_shares,
    on_nics_core,
    share_out,
    sharing_cores_with,
)
from isolane.spec.policy import Policy, parse_policy

RATE = 125_000_000
"""Of the link, bytes/s: 1 Gbit/s."""


def policy(*routers: dict[str, Any]) -> Policy:
    named = {f"r{i}": {"netns": f"r{i}", **keys} for i, keys in enumerate(routers)}
    data = {"isolane": 1, "name": "p", "nics": {"eth1": {"rate": "1Gbps"}}, "routers": named}
    return parse_policy(json.dumps(data))


def policy_of(**routers: str) -> Policy:
    entries = "".join(f"  {n}: {{netns: {n}, {keys}}}\n" for n, keys in routers.items())
    return parse_policy(f"isolane: 1\nname: p\nnics: {{e: {{rate: 1Gbps}}}}\nrouters:\n{entries}")


def link_shares(found: Policy, *active: str) -> dict[str, float]:
    return link_fair_shares(found, Link("eth1", RATE, tuple(found.routers)), active)


@st.composite
def routers(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Up to six routers whose guarantees fit on the link."""
    left, made = 1000, []
    for _ in range(draw(st.integers(1, 6))):
        keys: dict[str, Any] = {
            "priority": draw(st.integers(0, 7)), "link_weight": draw(st.integers(1, 1000)),
        }  # fmt: skip
        guaranteed = draw(st.integers(0, left))
        if guaranteed:
            left -= guaranteed
            keys["rate_min"] = f"{guaranteed}Mbps"
        if draw(st.booleans()):
            keys["rate_max"] = f"{draw(st.integers(max(1, guaranteed), 1200))}Mbps"
        made.append(keys)
    return made


@settings(max_examples=100, deadline=None)
@given(routers())
def test_shares_of_a_link_keep_what_the_policy_says(made: list[dict[str, Any]]) -> None:
    found = policy(*made)
    share = link_shares(found, *found.routers)
    total = sum(share.values())
    assert total <= 1 + 1e-6
    ceilings = {}
    for name, router in found.routers.items():
        guaranteed = (router.rate_min_bps or 0) / 1e9
        limit = router.rate_max.egress
        ceilings[name] = min(1.0, (limit.bps if limit and limit.bps else 1e9) / 1e9)
        assert guaranteed - 1e-6 <= share[name] <= ceilings[name] + 1e-6
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
    found = policy(*made)
    assert list(link_shares(found, *found.routers).values()) == pytest.approx(expected, abs=1e-6)


def test_what_a_capped_router_leaves_goes_to_the_others_by_weight() -> None:
    weights = {"a": 100.0, "b": 200.0, "c": 100.0}
    assert share_out(weights, {}) == {"a": 0.25, "b": 0.5, "c": 0.25}
    assert share_out(weights, {"b": 0.1}) == pytest.approx({"a": 0.45, "b": 0.1, "c": 0.45})
    # Without b, c would have 0.45, more than its cap: a gets that as well.
    assert share_out(weights, {"b": 0.1, "c": 0.4}) == pytest.approx({"a": 0.5, "b": 0.1, "c": 0.4})
    assert share_out(weights, {"a": 0.1, "b": 0.2, "c": 0.3}) == {"a": 0.1, "b": 0.2, "c": 0.3}


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.floats(1, 10_000), min_size=1),
    st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 1)),
)
def test_cpu_time_is_shared_out_whole(weights: dict[str, float], caps: dict[str, float]) -> None:
    shares = share_out(weights, caps)
    capped = sum(caps.get(name, 1.0) for name in weights)
    assert sum(shares.values()) == pytest.approx(min(1.0, capped))
    assert all(shares[name] <= caps.get(name, 1.0) + 1e-9 for name in weights)


def level(total: float, filled: Callable[[float], dict[str, float]]) -> float:
    """Find by bisection the level up to which all are filled that want more."""
    low, high = 0.0, 1e13
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(filled(middle).values()) < total else (low, middle)
    return low


def raised(
    found: Policy,
    names: list[str],
    given: Mapping[str, float],
    wanted: Mapping[str, float],
    height: float,
) -> dict[str, float]:
    """Return what routers have when each weight is raised by a height above what they have."""
    weights = {name: found.routers[name].link_weight for name in names}
    return {name: min(wanted[name], given[name] + height * weights[name]) for name in names}


@settings(max_examples=100, deadline=None)
@given(routers(), st.lists(st.integers(0, 1500), min_size=6, max_size=6))
def test_a_link_is_filled_level_by_level(made: list[dict[str, Any]], mbps: list[int]) -> None:
    """The oracle fills each priority to one level at once; the module goes from cap to cap."""
    found = policy(*made)
    demands = {name: each * 1e6 for name, each in zip(found.routers, mbps, strict=False)}
    due: dict[str, float] = {}
    wanted: dict[str, float] = {}
    for name, router in found.routers.items():
        limit = router.rate_max.egress
        wanted[name] = min(demands[name], limit.bps if limit and limit.bps else math.inf)
        due[name] = min(wanted[name], router.rate_min_bps or 0.0)
    for priority in range(8):
        names = [n for n, r in found.routers.items() if r.priority == priority]
        rest = 1e9 - sum(due[n] for n in due if n not in names)
        filled = partial(raised, found, names, dict(due), wanted)
        due |= filled(level(rest, filled))
    assert link_fair_rates(found, 1e9, demands) == pytest.approx(due, abs=1.0)


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.floats(1, 10_000), min_size=1),
    st.dictionaries(st.sampled_from("abcdef"), st.floats(0.001, 1)),
)
def test_cpu_time_is_filled_to_one_level(weights: dict[str, float], caps: dict[str, float]) -> None:
    def filled(height: float) -> dict[str, float]:
        return {n: min(caps.get(n, 1.0), height * weight) for n, weight in weights.items()}

    assert share_out(weights, caps) == pytest.approx(filled(level(1.0, filled)), abs=1e-9)


def on_host(found: Policy, *active: str, cores: int = 4) -> Mapping[str, float | None]:
    return cpu_fair_shares_on_host(found, active or tuple(found.routers), cores)


def test_a_cap_on_cpu_time_is_a_cap_on_the_fair_share() -> None:
    found = policy_of(a="cores: [1], cpu_max: 20%", b="cores: [1]", c="cores: [1], cpu_weight: 300")
    assert on_host(found) == pytest.approx({"a": 0.2, "b": 0.2, "c": 0.6})
    assert on_host(found, "a", "b") == pytest.approx({"a": 0.2, "b": 0.8})
    two = policy_of(a="cores: [1, 2], cpu_max: 50%", b="cores: [1, 2]")
    assert on_host(two) == pytest.approx({"a": 0.25, "b": 0.75})
    anywhere = policy_of(a="cpu_max: 100%", b="queue: 16")
    assert on_host(anywhere, cores=4) == pytest.approx({"a": 0.25, "b": 0.75})
    fed = cpu_fair_shares_on_host(found, "ab", 4, capped_within="a")
    assert fed == {"a": 0.5, "b": 0.5}, "what feeds a machine may use the rest"


def test_who_does_not_run_has_no_share_of_cores_nor_of_a_link() -> None:
    found = policy_of(a="cores: [1]", b="cores: [1]", c="cores: [1], cpu_weight: 200")
    assert on_host(found) == {"a": 0.25, "b": 0.25, "c": 0.5}
    assert on_host(found, "a", "b") == {"a": 0.5, "b": 0.5}
    assert on_host(found, "a") == {"a": 1.0}
    assert sharing_cores_with(found, "a", ("b",)) == ("a", "b")
    three = policy({"link_weight": 2}, {}, {})
    assert link_shares(three, "r0", "r1") == pytest.approx({"r0": 2 / 3, "r1": 1 / 3})
    assert link_shares(three, "r1") == {"r1": 1.0}


def test_no_figure_is_made_up_where_routers_share_a_part_of_their_cores() -> None:
    found = policy_of(a="cores: [1]", b="cores: [1, 2]", c="cores: [3]")
    assert on_host(found) == {"a": None, "b": None, "c": 1.0}
    assert on_host(found, "b", "c") == {"b": 1.0, "c": 1.0}
    mixed = policy_of(a="cores: [1]", b="queue: 16")
    assert on_host(mixed) == {"a": None, "b": None}


def test_what_else_holds_a_router_down_counts_beside_its_cap() -> None:
    found = policy_of(a="cores: [1], cpu_max: 40%", b="cores: [1]")
    assert cpu_fair_shares(found, "ab", 1, {"a": 0.1}) == pytest.approx({"a": 0.1, "b": 0.9})
    assert cpu_fair_shares(found, "ab", 1, {"a": 0.9}) == pytest.approx({"a": 0.4, "b": 0.6})


def test_guarantees_come_first_then_priorities_then_weights() -> None:
    found = policy_of(
        a="rate_min: 100Mbps, priority: 1", b="rate_min: 200Mbps", c="link_weight: 3", d="queue: 16"
    )
    everything = dict.fromkeys("abcd", math.inf)
    assert link_fair_rates(found, 1e9, everything) == {"a": 800e6, "b": 200e6, "c": 0, "d": 0}
    of_three = link_fair_rates(found, 1e9, dict.fromkeys("bcd", math.inf))
    assert of_three == pytest.approx({"b": 360e6, "c": 480e6, "d": 160e6})
    modest = link_fair_rates(found, 1e9, everything | {"a": 300e6})
    assert modest == pytest.approx({"a": 300e6, "b": 300e6, "c": 300e6, "d": 100e6})


def test_nobody_gets_more_than_its_ceiling_or_its_demand() -> None:
    found = policy_of(a="rate_max: 100Mbps", b="link_weight: 4", c="link_weight: 5")
    rates = link_fair_rates(found, 1e9, {"a": math.inf, "b": 50e6, "c": math.inf})
    assert rates == pytest.approx({"a": 100e6, "b": 50e6, "c": 850e6})


def test_sharing_out_ends_though_rounding_leaves_a_rest() -> None:
    # These left a rest too small to divide by their weights, for ever.
    weights = dict(zip("abcd", (72, 731, 274, 762), strict=True))
    found = policy_of(**{name: f"link_weight: {weight}" for name, weight in weights.items()})
    demands = {"a": 149e6, "b": math.inf, "c": math.inf, "d": 417e6}
    due = {name: 128e6 * weight / sum(weights.values()) for name, weight in weights.items()}
    assert link_fair_rates(found, 128e6, demands) == pytest.approx(due)


def test_ceilings_in_frames_of_a_size() -> None:
    found = policy_of(a="rate_max: {ingress: 100kpps, egress: 672Mbps}", b="queue: 16")
    assert ceiling_pps(found.routers["a"], 64) == 100e3
    assert ceiling_pps(found.routers["a"], 1518) == pytest.approx(672e6 / (1538 * 8))
    assert ceiling_pps(found.routers["b"], 64) is None


def test_routers_whose_cores_have_to_do_with_each_other() -> None:
    found = policy_of(a="cores: [1]", b="cores: [2]", c="cores: [2, 3]", d="cores: [1]")
    assert groups_sharing_cores(found, "abcd") == (("a", "d"), ("b", "c"))
    anywhere = policy_of(a="cores: [1]", b="cores: [2]", c="queue: 16")
    assert groups_sharing_cores(anywhere, "abc") == (("a", "b", "c"),)
    assert groups_sharing_cores(anywhere, "ab") == (("a",), ("b",))
    assert groups_sharing_cores(anywhere, "") == ()


@pytest.mark.parametrize(
    ("nics", "cores", "expected"),
    [
        ("{e: {rate: 1Gbps, cores: [1]}}", "[1]", True),
        ("{e: {rate: 1Gbps, cores: [1]}, f: {rate: 1Gbps, cores: [1]}}", "[1]", True),
        ("{e: {rate: 1Gbps, cores: [1]}, f: {rate: 1Gbps, cores: [2]}}", "[1]", False),
        ("{e: {rate: 1Gbps, cores: [1]}}", "[2]", False),
        ("{e: {rate: 1Gbps, cores: [1]}}", "[1, 2]", False),
        ("{e: {rate: 1Gbps, cores: [1, 2]}}", "[1, 2]", False),
        ("{e: {rate: 1Gbps}}", "[1]", False),
    ],
)
def test_a_router_is_on_the_nics_core_if_all_have_one_and_the_same(
    nics: str, cores: str, *, expected: bool
) -> None:
    text = f"isolane: 1\nname: p\nnics: {nics}\nrouters: {{v: {{netns: v, cores: {cores}}}}}\n"
    assert on_nics_core(parse_policy(text), "v") == expected

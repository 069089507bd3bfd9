"""What routers are entitled to, worked out by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isolane.enforce.shares import Link, entitled_link
from isolane.spec import Policy, parse_policy
from isolane.verify.entitled import ceiling_pps, components, cpu_shares, link_shares


def policy_of(**routers: str) -> Policy:
    entries = "".join(f"  {n}: {{netns: {n}, {keys}}}\n" for n, keys in routers.items())
    return parse_policy(f"isolane: 1\nname: p\nnics: {{e: {{rate: 1Gbps}}}}\nrouters:\n{entries}")


def test_what_a_capped_router_leaves_goes_to_the_others_by_weight() -> None:
    weights = {"a": 100.0, "b": 200.0, "c": 100.0}
    assert cpu_shares(weights, {}) == {"a": 0.25, "b": 0.5, "c": 0.25}
    assert cpu_shares(weights, {"b": 0.1}) == pytest.approx({"a": 0.45, "b": 0.1, "c": 0.45})
    # Without b, c would have 0.45, more than its cap: a gets that as well.
    assert cpu_shares(weights, {"b": 0.1, "c": 0.4}) == pytest.approx(
        {"a": 0.5, "b": 0.1, "c": 0.4}
    )
    assert cpu_shares(weights, {"a": 0.1, "b": 0.2, "c": 0.3}) == {"a": 0.1, "b": 0.2, "c": 0.3}


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.floats(1, 10_000), min_size=1),
    st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 1)),
)
def test_cpu_time_is_shared_out_whole(weights: dict[str, float], caps: dict[str, float]) -> None:
    shares = cpu_shares(weights, caps)
    most = sum(caps.get(name, 1.0) for name in weights)
    assert sum(shares.values()) == pytest.approx(min(1.0, most))
    assert all(shares[name] <= caps.get(name, 1.0) + 1e-9 for name in weights)


def test_guarantees_come_first_then_priorities_then_weights() -> None:
    policy = policy_of(
        a="rate_min: 100Mbps, priority: 1", b="rate_min: 200Mbps", c="link_weight: 3", d="queue: 16"
    )
    everything = dict.fromkeys("abcd", math.inf)
    assert link_shares(policy, 1e9, everything) == {"a": 800e6, "b": 200e6, "c": 0, "d": 0}
    of_three = link_shares(policy, 1e9, dict.fromkeys("bcd", math.inf))
    assert of_three == pytest.approx({"b": 360e6, "c": 480e6, "d": 160e6})
    modest = link_shares(policy, 1e9, everything | {"a": 300e6})
    assert modest == pytest.approx({"a": 300e6, "b": 300e6, "c": 300e6, "d": 100e6})


def test_nobody_gets_more_than_its_ceiling_or_its_demand() -> None:
    policy = policy_of(a="rate_max: 100Mbps", b="link_weight: 4", c="link_weight: 5")
    found = link_shares(policy, 1e9, {"a": math.inf, "b": 50e6, "c": math.inf})
    assert found == pytest.approx({"a": 100e6, "b": 50e6, "c": 850e6})


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 10), st.integers(0, 300), st.booleans()),
        min_size=1,
        max_size=3,
    )
)
def test_it_is_what_the_policy_is_applied_as(keys: list[tuple[int, int, int, bool]]) -> None:
    """The same by another way: enforcement tells routers their link share by it."""
    entries = {}
    for number, (priority, weight, least, capped) in enumerate(keys):
        text = f"priority: {priority}, link_weight: {weight}"
        text += f", rate_min: {least}Mbps" if least else ""
        entries[f"r{number}"] = text + (", rate_max: 400Mbps" if capped else "")
    policy = policy_of(**entries)
    names = tuple(policy.routers)
    mine = link_shares(policy, 1e9, dict.fromkeys(names, math.inf))
    theirs = entitled_link(policy, Link("e", 125_000_000, names), names)
    assert mine == pytest.approx({n: share * 1e9 for n, share in theirs.items()}, abs=1e5)


def test_ceilings_in_frames_of_a_size() -> None:
    policy = policy_of(a="rate_max: {ingress: 100kpps, egress: 672Mbps}", b="queue: 16")
    assert ceiling_pps(policy.routers["a"], 64) == 100e3
    assert ceiling_pps(policy.routers["a"], 1518) == pytest.approx(672e6 / (1538 * 8))
    assert ceiling_pps(policy.routers["b"], 64) is None


def test_routers_whose_cores_have_to_do_with_each_other() -> None:
    policy = policy_of(a="cores: [1]", b="cores: [2]", c="cores: [2, 3]", d="cores: [1]")
    assert components(policy, "abcd") == (("a", "d"), ("b", "c"))
    anywhere = policy_of(a="cores: [1]", b="cores: [2]", c="queue: 16")
    assert components(anywhere, "abc") == (("a", "b", "c"),)
    assert components(anywhere, "ab") == (("a",), ("b",))
    assert components(anywhere, "") == ()

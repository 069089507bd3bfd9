"""Samples are conserved through every format, and what tables say adds up."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isolane.cpu_profile.categories import Category, shipped_table
from isolane.cpu_profile.category_table import HEADINGS, figures, table_rows
from isolane.cpu_profile.flame_tree import FlameNode, flame_tree
from isolane.cpu_profile.folded import folded
from isolane.cpu_profile.profile_difference import (
    HEADINGS as DIFFERENCE_HEADINGS,
)
from isolane.cpu_profile.profile_difference import compare_profiles, difference_rows
from isolane.cpu_profile.profile_figures import ProfileFigures
from isolane.cpu_profile.sampled_stacks import HOST, CpuProfile, SampledStack
from isolane.cpu_profile.speedscope import speedscope
from isolane.errors import MeasurementError, SpecError

FORWARD = ("net_rx_action", "__napi_poll", "veth_poll", "ip_forward")
PROFILE = CpuProfile(
    clock="cpu-clock",
    period_ns=1_000_000,
    duration_ns=1_000_000_000,
    cores=(1,),
    stacks=(
        SampledStack("vr2", 1, "", FORWARD, (), 150),
        SampledStack("vr1", 1, "napi/a-1", FORWARD, (), 300),
        SampledStack("vr1", 1, "napi/a-1", (*FORWARD, "kfree"), (), 100),
        SampledStack("vr1", 1, "napi/a-1", ("nobodys_work",), (), 20),
        SampledStack("host", 1, "python3", (), ("main",), 30),
    ),
    idle_samples=400,
    lost_samples=3,
    frames={"vr1": 420_000, "vr2": 100_000},
)

functions = st.one_of(
    st.sampled_from((*FORWARD, "br_forward", "kfree", "_raw_spin_lock", "nobodys_work")),
    st.text(max_size=12),
)
chains = st.lists(functions, max_size=6).map(tuple)
stacks = st.builds(
    SampledStack,
    owner=st.one_of(st.just(HOST), st.sampled_from(("vr1", "vr2", "a b;c"))),
    core=st.integers(0, 3),
    thread=st.one_of(st.sampled_from(("", "CPU 0/KVM", "napi/veth0-8")), st.text(max_size=15)),
    kernel=chains,
    user=chains,
    samples=st.integers(1, 10_000),
)
profiles = st.builds(
    replace,
    st.just(PROFILE),
    stacks=st.lists(stacks, min_size=1, max_size=12).map(tuple),
    idle_samples=st.integers(0, 10_000),
)


def read_folded(text: str) -> Counter[tuple[str, ...]]:
    counts: Counter[tuple[str, ...]] = Counter()
    for line in text.splitlines():
        chain, _, samples = line.rpartition(" ")
        counts[tuple(chain.split(";"))] += int(samples)
    return counts


def leaves(node: FlameNode) -> int:
    """Samples of chains that end somewhere in a tree, from each function's own."""
    inner = sum(child.samples for child in node.children.values())
    assert node.samples >= inner
    return node.samples - inner + sum(leaves(child) for child in node.children.values())


@given(profiles)
def test_every_format_has_every_sample(profile: CpuProfile) -> None:
    busy, table = profile.busy_samples, shipped_table()
    assert read_folded(folded(profile)).total() == busy
    file = json.loads(json.dumps(speedscope(profile, "p")))
    assert sum(sum(one["weights"]) for one in file["profiles"]) == busy * profile.period_ns
    assert leaves(flame_tree(profile, table)) == busy
    owners = [flame_tree(profile, table, owner).samples for owner in profile.owners()]
    assert sum(owners) == busy
    found = figures(profile)
    assert sum(one.samples for one in found.owners) == found.all.samples == busy
    for owner in (*found.owners, found.all):
        assert sum(one.samples for one in owner.categories) == owner.samples
        assert sum(one.own_share.value for one in owner.categories) == pytest.approx(1)
    shares = sum(one.cpu_share.value for one in found.owners)
    assert shares + found.idle_samples / found.all_samples == pytest.approx(1)


@given(profiles)
def test_the_leaf_of_a_flame_has_the_category_of_its_stack(profile: CpuProfile) -> None:
    table, found = shipped_table(), Counter[Category]()
    waiting = [flame_tree(profile, table)]
    while waiting:
        node = waiting.pop()
        inner = sum(child.samples for child in node.children.values())
        if node.category is not None:
            found[node.category] += node.samples - inner
        waiting += node.children.values()
    empty = sum(s.samples for s in profile.stacks if not (s.kernel or s.user))
    counted = {one.category: one.samples for one in figures(profile).all.categories}
    in_user_space = (Category.USER, Category.GUEST)
    # A sample in user space without any function has no box of its own above its thread's.
    assert sum(counted.values()) == found.total() + empty
    kernel = [one for one in Category if one not in in_user_space]
    assert {one: found[one] for one in kernel} == {one: counted.get(one, 0) for one in kernel}


@given(profiles)
def test_figures_return_from_json(profile: CpuProfile) -> None:
    found = figures(profile)
    assert ProfileFigures.model_validate_json(found.model_dump_json()) == found


def test_folded_lines() -> None:
    odd = replace(PROFILE, stacks=(SampledStack("a;b", 0, "x y", ("f",), ("\n", "u  v"), 7),))
    assert folded(odd) == "a:b;x y;?;u v;f 7\n"
    assert folded(PROFILE).splitlines()[:2] == [
        "host;python3;main 30",
        "vr1;napi/a-1;net_rx_action;__napi_poll;veth_poll;ip_forward 300",
    ]
    assert "vr2;softirq;net_rx_action" in folded(PROFILE)


def test_folded_stacks_of_all_cores_are_one_line() -> None:
    both = replace(PROFILE, stacks=(PROFILE.stacks[0], replace(PROFILE.stacks[0], core=2)))
    assert read_folded(folded(both)) == {("vr2", "softirq", *FORWARD): 300}


def test_speedscope_has_what_its_format_requires() -> None:
    # Required fields of the interfaces File, Frame and SampledProfile in file-format-spec.ts.
    file = speedscope(PROFILE, "demo")
    assert file["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    names = [frame["name"] for frame in file["shared"]["frames"]]
    assert len(names) == len(set(names))
    assert [one["name"] for one in file["profiles"]] == ["vr1", "vr2", "host"]
    for one in file["profiles"]:
        required = {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
        assert set(one) == required
        assert (one["type"], one["unit"]) == ("sampled", "nanoseconds")
        assert len(one["samples"]) == len(one["weights"])
        assert one["endValue"] - one["startValue"] == sum(one["weights"])
    first = file["profiles"][0]["samples"][0]
    assert [names[index] for index in first] == ["napi/a-1", *FORWARD]


def test_the_table() -> None:
    found = figures(PROFILE)
    rows = table_rows(found)
    assert {len(row) for row in rows} == {len(HEADINGS)}
    assert [row[:2] for row in rows] == [
        ("vr1", ""),
        ("vr1", "network stack"),
        ("vr1", "memory"),
        ("vr1", "unclassified"),
        ("vr2", ""),
        ("vr2", "network stack"),
        ("host", ""),
        ("host", "user"),
        ("all", ""),
        ("all", "network stack"),
        ("all", "memory"),
        ("all", "user"),
        ("all", "unclassified"),
    ]
    # 420 samples of 1 ms for 420,000 frames: 1,000 ns each.
    assert rows[0] == ("vr1", "", "42.0 %", "", "", "1,000", "928 to 1,073")
    assert rows[1][2:6] == ("30.0 %", "71.4 %", "66.9 to 75.5", "714")
    assert found.unclassified_share == pytest.approx(20 / 600)
    assert found.inherited_share == pytest.approx(20 / 600)
    assert found.all.frames == 520_000


def test_frames_that_are_not_known_give_no_cost() -> None:
    found = figures(replace(PROFILE, frames={"vr1": 0}))
    assert found.all.frames is None
    assert [one.ns_per_frame for one in (*found.owners, found.all)] == [None] * 4
    assert table_rows(found)[0] == ("vr1", "", "42.0 %", "", "", "", "")


def test_without_samples_there_is_no_profile() -> None:
    with pytest.raises(MeasurementError, match="no sample was taken on cores 1 in 1 s"):
        figures(replace(PROFILE, stacks=(), idle_samples=0))
    idle = figures(replace(PROFILE, stacks=()))
    assert (idle.all.samples, idle.owners, idle.unclassified_share) == (0, (), None)
    assert table_rows(idle) == [("all", "", "0.0 %", "", "", "0", "0 to 7")]


def second(samples: int, frames: int) -> ProfileFigures:
    one = SampledStack("vr1", 1, "napi/a-1", (*FORWARD, "br_forward"), (), samples)
    idle = 1000 - samples
    return figures(replace(PROFILE, stacks=(one,), idle_samples=idle, frames={"vr1": frames}))


def test_the_difference_of_two_profiles() -> None:
    found = compare_profiles(figures(PROFILE), second(500, 250_000), "vr1")
    assert found.unit == "ns per frame"
    rows = difference_rows(found)
    assert {len(row) for row in rows} == {len(DIFFERENCE_HEADINGS)}
    assert [row[:4] for row in rows] == [
        ("network stack", "714", "0", "-714"),
        ("bridge and virtual switch", "0", "2,000", "+2,000"),
        ("memory", "238", "0", "-238"),
        ("unclassified", "48", "0", "-48"),
        ("all", "1,000", "2,000", "+1,000"),
    ]
    assert all(one.shown for one in found.rows)
    parts, whole = found.rows[:-1], found.rows[-1]
    assert sum(one.difference.value for one in parts) == pytest.approx(whole.difference.value)


def test_equal_profiles_show_no_difference() -> None:
    found = compare_profiles(figures(PROFILE), figures(PROFILE))
    assert not any(one.shown for one in found.rows)


def test_without_frames_shares_of_the_cores_are_compared() -> None:
    found = compare_profiles(figures(PROFILE), figures(replace(PROFILE, frames={})), "vr1")
    assert found.unit == "percent of the cores"
    assert difference_rows(found)[-1][:4] == ("all", "42.0", "42.0", "+0.0")
    gone = compare_profiles(figures(PROFILE), second(500, 1), "vr2")
    assert difference_rows(gone)[-1][:4] == ("all", "15.0", "0.0", "-15.0")


@pytest.mark.parametrize(
    ("change", "owner", "told"),
    [
        ({"clock": "cycles"}, "vr1", "different clocks: cpu-clock and cycles"),
        ({"table_version": 99}, "vr1", "versions of the table of categories: 1 and 99"),
        ({}, "vr9", "vr9: neither profile has it; accepted: vr1, vr2, host, all"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    change: dict[str, object], owner: str, told: str
) -> None:
    found = figures(PROFILE)
    with pytest.raises(SpecError) as error:
        compare_profiles(found, found.model_copy(update=change), owner)
    assert told in str(error.value)

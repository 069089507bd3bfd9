"""Flame graphs and category bars: what is drawn adds up and opens anywhere."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isolane.cpu_profile.categories import Category, shipped_table
from isolane.cpu_profile.category_table import figures
from isolane.cpu_profile.flame_tree import flame_tree
from isolane.cpu_profile.sampled_stacks import CpuProfile, SampledStack
from isolane.report.category_bars import category_bars
from isolane.report.flame_graph import LETTER, WIDTH, flame_graph, lay_out_flames
from isolane.report.theme import DARK, LIGHT, MODES, css_colours

SVG = "{http://www.w3.org/2000/svg}"
FORWARD = ("net_rx_action", "__napi_poll", "veth_poll", "ip_forward")
PROFILE = CpuProfile(
    "cpu-clock",
    1_000_000,
    10_000_000_000,
    (1,),
    (
        SampledStack("vr1", 1, "napi/a-1", FORWARD, (), 6_000),
        SampledStack("vr1", 1, "napi/a-1", (*FORWARD, "kfree"), (), 2_000),
        SampledStack("vr1", 1, "napi/a-1", (*FORWARD, "br_forward"), (), 3),
        SampledStack("<vr2> & \"co\"", 1, "\x01\x1b[", FORWARD, ("a" * 300,), 997),
    ),
    1_000,
    0,
    {"vr1": 8_000_000},
)  # fmt: skip

profiles = st.lists(
    st.builds(
        SampledStack,
        owner=st.text(max_size=6),
        core=st.just(0),
        thread=st.text(max_size=15),
        kernel=st.lists(st.sampled_from((*FORWARD, "kfree", "_x<y>")), max_size=5).map(tuple),
        user=st.lists(st.text(max_size=40), max_size=3).map(tuple),
        samples=st.integers(1, 100_000),
    ),
    max_size=8,
).map(lambda stacks: replace(PROFILE, stacks=tuple(stacks)))


def boxes(svg: str) -> list[tuple[float, float, float, str]]:
    """Position, level, width and text of each box."""
    root = ET.fromstring(svg)
    found = []
    for group in root.iter(f"{SVG}g"):
        rect, title = group.find(f"{SVG}rect"), group.find(f"{SVG}title")
        assert rect is not None
        assert title is not None
        assert title.text
        text = group.find(f"{SVG}text")
        x, y, width = (float(rect.get(name, "nan")) for name in ("x", "y", "width"))
        found.append((x, y, width, text.text or "" if text is not None else ""))
    return found


@settings(max_examples=60)
@given(profiles)
def test_flames_are_xml_and_stand_on_their_callers(profile: CpuProfile) -> None:
    found = boxes(flame_graph(profile, "<all> & more"))
    levels: dict[float, list[tuple[float, float]]] = {}
    for x, y, width, text in found:
        levels.setdefault(y, []).append((x, x + width))
        assert len(text) * LETTER <= width or text == "all"
    root, *above = [sorted(levels[y]) for y in sorted(levels, reverse=True)]
    assert root == [(0, WIDTH)]
    below = root
    for level in above:
        for (_, end), (start, _) in pairwise(level):
            assert start >= end - 0.01
        for start, end in level:
            assert any(left - 0.01 <= start and end <= right + 0.01 for left, right in below)
        below = level


@given(profiles)
def test_what_is_left_out_is_counted(profile: CpuProfile) -> None:
    tree = flame_tree(profile, shipped_table())
    every, some = lay_out_flames(tree, 0), lay_out_flames(tree, 0.2)
    assert (every.narrow, every.samples) == (0, profile.busy_samples)
    ends = {
        level: sum(box.samples for box in every.boxes if box.depth == level) for level in (0, 1, 2)
    }
    assert set(ends.values()) == {profile.busy_samples} or not profile.stacks
    assert all(box.samples >= 0.2 * some.samples for box in some.boxes)
    assert (some.narrow == 0) == (len(some.boxes) == len(every.boxes))
    assert some.narrow_samples <= some.samples


def test_a_flame_graph() -> None:
    svg = flame_graph(PROFILE, "demo", colours=DARK)
    assert "<script" not in svg
    assert "href" not in svg
    assert "ip_forward (network stack): 99.97 %, 8,997 samples, 8,997.0 ms" not in svg
    assert "ip_forward (network stack): 88.92 %, 8,003 samples, 8,003.0 ms" in svg
    assert "kfree (memory): 22.22 %" in svg
    assert "left out: 1 box of less than 0.1 % each, with 0.03 % of the samples" in svg
    assert "br_forward" not in svg
    assert "&lt;vr2&gt; &amp; &quot;co&quot;" in svg
    one = flame_graph(PROFILE, "demo", "vr1")
    assert "vr2" not in one
    assert "8,003 samples, 8,003 ms of CPU time" in one
    assert "var(--categories-1)" in flame_graph(PROFILE, "demo", colours=css_colours())


def test_each_category_has_its_colour_in_both_modes() -> None:
    for colours in MODES.values():
        assert len(set(colours.categories)) == len(Category)
    assert all(re.fullmatch("#[0-9a-f]{6}", one) for one in (*LIGHT.categories, *DARK.categories))


def test_bars_of_two_arms() -> None:
    arms = {"bridge": figures(PROFILE), "it's": figures(replace(PROFILE, idle_samples=0))}
    figure = category_bars(arms, "vr1")
    assert figure is not None
    assert [swatch.label for swatch in figure.legend] == [
        "network stack",
        "bridge and virtual switch",
        "memory",
    ]
    share, cost = figure.panels
    assert "bridge 80 %; it's 89 %" in share.alt
    assert cost.alt == "CPU time of a frame by category: bridge 1 µs; it's 1 µs."
    (values,) = share.spec["datasets"].values()
    assert sum(row["y"] for row in values if row["x"] == 0) == pytest.approx(0.8003)
    assert "what is missing" in figure.caption.lower()


def test_bars_without_frames_or_samples() -> None:
    figure = category_bars({"a": figures(PROFILE)})  # of vr2 no frames are known
    assert figure is not None
    assert len(figure.panels) == 1
    assert category_bars({"a": figures(PROFILE)}, "nobody") is None
    assert category_bars({"a": figures(replace(PROFILE, stacks=()))}) is None

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families

from isolane.enforce.router_facts import RouterSample, Sample
from isolane.export import Family, Reading, dashboard, exposition, families

parse_openmetrics: Callable[[str], Iterable[Any]] = (
    openmetrics_parser.text_string_to_metric_families
)
parse_text: Callable[[str], Iterable[Any]] = text_string_to_metric_families

VR1 = RouterSample(
    name="vr1",
    present=True,
    offered=1_000_001,
    offered_bytes=64_000_064,
    served=900_002,
    forwarded=900_003,
    forwarded_bytes=57_600_192,
    dropped={"queue": 100_004, "rate_in": 5, "cpu": 22, "rate_out": 6, "link": 7},
    waiting=8,
    queue_limit=128,
    cpu_ns=9_500_000_000,
    nic_cpu_ns=2_250_000_000,
    cores=tuple(range(21)),
    cpu_fair_share=0.25,
    link_bytes={"eth1": 84_000_010, "eth2": 11},
    link_fair_share={"eth1": 0.5, "eth2": 0.75},
)
VR2 = RouterSample(name="vr2", present=False)
READING = Reading(
    policy="edge",
    applied_at="2026-11-22T10:00:00+01:00",
    sample=Sample(5, (VR1, VR2), {1: 12_000_000_000}, {"eth1": 125_000_000}),
    drifted=3,
)


def values(parsed: Any) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in parsed
        for sample in family.samples
    }


def both(reading: Reading | None = READING) -> list[dict[Any, float]]:
    found = families(reading)
    return [
        values(parse_openmetrics(exposition(found, "openmetrics"))),
        values(parse_text(exposition(found, "text"))),
    ]


def test_both_formats_say_the_same() -> None:
    openmetrics, text = both()
    assert openmetrics == text
    of_vr1 = (("router", "vr1"),)
    assert openmetrics["isolane_router_offered_frames_total", of_vr1] == 1_000_001
    assert openmetrics["isolane_router_cpu_seconds_total", of_vr1] == 9.5
    assert openmetrics["isolane_router_nic_cpu_seconds_total", of_vr1] == 2.25
    of_vr2 = (("router", "vr2"),)
    assert ("isolane_router_nic_cpu_seconds_total", of_vr2) not in openmetrics, "it does not pay"
    assert openmetrics["isolane_router_present", (("router", "vr2"),)] == 0
    by_nic = (("nic", "eth1"), ("router", "vr1"))
    assert openmetrics["isolane_router_link_bytes_total", by_nic] == 84_000_010
    by_point = (("place", "rate_in"), ("router", "vr1"))
    assert openmetrics["isolane_router_dropped_frames_total", by_point] == 5
    assert openmetrics["isolane_core_busy_seconds_total", (("core", "1"),)] == 12
    assert openmetrics["isolane_policy_info", (("policy", "edge"),)] == 1
    assert openmetrics["isolane_policy_applied_timestamp_seconds", ()] == 1795338000
    assert openmetrics["isolane_policy_drifted_settings", ()] == 3


def test_types_and_units_are_declared() -> None:
    found = {family.name: family for family in parse_openmetrics(exposition(families(READING)))}
    for family in families(READING):
        declared = found[family.name]
        assert declared.type == family.kind
        assert declared.unit == family.unit
        assert declared.documentation == family.about
        assert not family.unit or family.name.endswith(f"_{family.unit}")
        assert re.fullmatch(r"isolane(_[a-z]+)+", family.name)
    for declared in parse_text(exposition(families(READING), "text")):
        assert declared.type in ("counter", "gauge"), declared.name
        assert declared.documentation


def test_every_number_that_a_sample_has_is_exported() -> None:
    """Each field of VR1 has a value of its own: whoever adds one is to add a metric."""
    exported = set(both()[0].values())
    for field in fields(RouterSample):
        value = getattr(VR1, field.name)
        each = value.values() if isinstance(value, dict) else [value]
        for one in each:
            if isinstance(one, tuple):
                assert len(one) in exported, field.name
            elif not isinstance(one, str):
                scaled = one / 1e9 if field.name.endswith("_ns") else one
                assert scaled in exported, field.name
    assert 125_000_000 in exported


def test_a_router_that_is_bound_to_no_core_may_run_on_all() -> None:
    assert both()[0]["isolane_router_cores", (("router", "vr2"),)] == os.cpu_count()


def test_without_a_policy_that_is_what_is_said() -> None:
    openmetrics, text = both(None)
    assert openmetrics == text
    assert openmetrics.pop(("isolane_policy_in_force", ())) == 0
    assert [name for name, _ in openmetrics] == ["isolane_build_info"]


@pytest.mark.parametrize("applied_at", [None, "", "yesterday"])
def test_an_unknown_time_is_left_out(applied_at: str | None) -> None:
    reading = Reading("edge", applied_at, READING.sample, None)
    names = {family.name for family in families(reading)}
    assert "isolane_policy" in names
    assert "isolane_policy_applied_timestamp_seconds" not in names
    assert "isolane_policy_drifted_settings" not in names


@given(st.text(max_size=20), st.floats(allow_nan=False, allow_infinity=False))
def test_any_label_and_value_survive(label: str, value: float) -> None:
    family = Family("isolane_x", "gauge", "", 'A "quoted" \\ text.', (({"a": label}, value),))
    for parse, form in ((parse_openmetrics, "openmetrics"), (parse_text, "text")):
        if form == "text" and re.search(r"[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]", label):
            continue  # that parser of theirs takes these for ends of lines
        parsed = values(parse(exposition([family], form)))  # type: ignore[arg-type]
        assert parsed == {("isolane_x", (("a", label),)): value}


def expressions(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["expr"]] if "expr" in node else []
        if node.get("type") == "query":
            own.append(node["definition"])
        return own + [text for value in node.values() for text in expressions(value)]
    return [text for value in node for text in expressions(value)] if isinstance(node, list) else []


def test_every_metric_that_the_dashboard_asks_for_exists() -> None:
    known: dict[str, set[str]] = {}
    for name, labels in both()[0]:
        known.setdefault(name, set()).update(key for key, _ in labels)
    asked = expressions(json.loads(dashboard()))
    assert len(asked) > 15
    for text in asked:
        for name, selector in re.findall(r"\b(isolane_\w+)(?:\{([^}]*)\})?", text):
            assert name in known, f"{name} in {text}"
            labels = set(re.findall(r"(\w+)[=!]~?", selector)) - {"instance"}
            assert labels <= known[name], f"{selector} of {name} in {text}"
        assert text.count("(") == text.count(")"), text
    names = {name for text in asked for name in re.findall(r"\bisolane_\w+", text)}
    unused = set(known) - names
    assert unused == {"isolane_build_info"}


def test_the_documents_describe_every_metric_and_its_labels() -> None:
    page = Path(__file__).parents[3] / "docs/policy/prometheus.md"
    rows = re.findall(r"^\| `(isolane_\w+)` \| (.*?) \|", page.read_text(), re.MULTILINE)
    documented = {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows}
    exported: dict[str, set[str]] = {}
    for name, labels in both()[0]:
        exported.setdefault(name, set()).update(key for key, _ in labels)
    assert documented == exported


def test_what_the_dashboard_shows_of_a_series_are_its_labels() -> None:
    known = {key for _, labels in both()[0] for key, _ in labels}
    for panel in json.loads(dashboard())["panels"]:
        for target in panel["targets"]:
            shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert shown <= known, panel["title"]


def test_the_dashboards_panels_have_a_place_each() -> None:
    found = json.loads(dashboard())
    assert len({panel["id"] for panel in found["panels"]}) == len(found["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in found["panels"]:
        at = panel["gridPos"]
        cells = {
            (at["x"] + across, at["y"] + down)
            for across in range(at["w"])
            for down in range(at["h"])
        }
        assert max(across for across, _ in cells) < 24
        assert not cells & taken, panel["title"]
        taken |= cells
        assert panel["title"]
        assert panel["description"]
        assert {target["datasource"]["uid"] for target in panel["targets"]} == {"${datasource}"}
    assert len(taken) == 24 * (max(down for _, down in taken) + 1), "no gaps"

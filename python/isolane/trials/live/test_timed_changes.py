"""Shares that change while a trial runs: what the back-end is told, and when."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from isolane import _native
from isolane.errors import MeasurementError
from isolane.spec import Experiment, parse_experiment
from isolane.testbed import PortChange
from isolane.trials.live import timed_changes
from isolane.trials.live.timed_changes import TimedChanges

pytestmark = pytest.mark.native

FAR_NS = 10**15
"""Longer than any test takes."""
TEXT = """\
isolane: 1
name: changes
routers:
  - {name: one, kind: vm, hypervisor: uml}
  - {name: two, kind: vm, hypervisor: uml}
load: {one: 8kpps, two: 8kpps}
arms:
  - name: sweep
    path: netback
    scheduler: hierarchical
    policy: {one: {link_weight: 3, rate_max: 1Gbps}}
    changes:
      - {at: 0ms, policy: {one: {link_weight: 2}, two: {link_weight: 2}}}
      - {at: 1ms, policy: {one: {link_weight: 1}, two: {rate_max: 5Mbps}}}
  - {name: plain, path: netback}
"""
SPEC: Experiment = parse_experiment(TEXT)


def changes(arm: int, monkeypatch: pytest.MonkeyPatch) -> tuple[TimedChanges, list[PortChange]]:
    told: list[PortChange] = []

    def tell(some: Sequence[PortChange]) -> None:
        told.extend(some)

    monkeypatch.setattr(timed_changes, "change_ports", tell)
    return TimedChanges(SPEC.resolved_arms()[arm], SPEC.points()[0].routers), told


def test_each_trial_begins_with_the_first_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    made, told = changes(0, monkeypatch)
    start_ns = _native.monotonic_ns() + FAR_NS
    assert made.lead_ns > 0
    for _ in range(2):
        told.clear()
        made.plan(start_ns, start_ns + 1000)
        first = {"weight": "3", "priority": "3", "rate_min": "none", "rate_max": "1Gbps"}
        other = {**first, "weight": "1", "rate_max": "none"}
        assert told == [
            PortChange("one", first, None),
            PortChange("two", other, None),
            PortChange("one", {"weight": "2"}, start_ns + 1000),
            PortChange("two", {"weight": "2"}, start_ns + 1000),
            PortChange("one", {"weight": "1"}, start_ns + 1_001_000),
            PortChange("two", {"rate_max": "5Mbps"}, start_ns + 1_001_000),
        ]


def test_an_arm_without_changes_asks_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made, told = changes(1, monkeypatch)
    assert made.lead_ns == 0
    made.plan(0, 0)
    assert told == []


def test_a_back_end_that_is_told_too_late_fails_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = changes(0, monkeypatch)
    with pytest.raises(MeasurementError, match=r"knew the shares to come .* ms late"):
        made.plan(_native.monotonic_ns() - 1_000_000, FAR_NS)

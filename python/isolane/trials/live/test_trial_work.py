"""The work of a trial's routers: what a bed is told, and when."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import cast

import pytest

from isolane import _native
from isolane.errors import MeasurementError
from isolane.spec import PointRouter, parse_experiment
from isolane.testbed import WorkTime
from isolane.trials.live.measured_bed import MeasuredBed
from isolane.trials.live.trial_work import TrialWork

pytestmark = pytest.mark.native

SECOND = 1_000_000_000
FAR_NS = 10**6 * SECOND
"""Longer than any test takes."""
TEXT = """\
isolane: 1
name: work
routers:
  - {name: idle, path: direct}
  - {name: always, path: direct, work: cpu}
  - {name: later, path: direct, work: cpu, work_from: 1s, work_until: 3s}
  - {name: on, path: direct, work: cpu, work_from: 2s}
  - {name: first, path: direct, work: cpu, work_until: 1s}
load: {idle: 1kpps, always: 0pps, later: 0pps, on: 0pps, first: 0pps}
trial: {duration: 4s}
"""


class Bed:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[Mapping[str, WorkTime]] = []

    def work(self, works: Mapping[str, WorkTime]) -> None:
        self.told.append(works)


def work_of(bed: Bed, *names: str) -> TrialWork:
    (point,) = parse_experiment(TEXT).points()
    routers: list[PointRouter] = [one for one in point.routers if one.name in names]
    return TrialWork(cast("MeasuredBed", bed), routers, 4 * SECOND)


def test_a_bed_without_work_is_told_nothing() -> None:
    work = work_of(bed := Bed(), "idle")
    with work.going_on():
        work.plan(0, 0, by_ns=0)
    assert work.lead_ns == 0
    assert bed.told == []


def test_work_without_times_goes_on_with_the_frames() -> None:
    work = work_of(bed := Bed(), "idle", "always")
    with work.going_on():
        assert bed.told == [{"always": WorkTime("cpu")}]
        work.plan(0, 0, by_ns=0)
    assert work.lead_ns == 0
    assert bed.told == [{"always": WorkTime("cpu")}, {}]


def test_times_are_those_of_the_window() -> None:
    work = work_of(bed := Bed(), "idle", "always", "later", "on", "first")
    assert work.lead_ns > 0
    with work.going_on():
        before_ns = _native.monotonic_ns()
        start_ns = before_ns + FAR_NS
        work.plan(start_ns, start_ns + SECOND, by_ns=start_ns)
        passed_s = (_native.monotonic_ns() - before_ns) / SECOND
    at_once, planned, last = bed.told
    assert at_once == {"always": WorkTime("cpu")}
    assert last == {}
    assert {name: one.for_s for name, one in planned.items()} == {
        "always": None, "later": 2.0, "on": 2.0, "first": 2.0,
    }  # fmt: skip
    for name, start_s in (("later", 2), ("on", 3), ("first", 0)):
        due_s = FAR_NS / SECOND + start_s
        assert due_s - passed_s - 1e-6 <= planned[name].after_s <= due_s + 1e-6, name


def test_who_hears_of_it_too_late_spoils_the_trial() -> None:
    work = work_of(Bed(), "later")
    start_ns = _native.monotonic_ns()
    with pytest.raises(MeasurementError, match=r"the times of their work: \d+ ms late"):
        work.plan(start_ns, start_ns + SECOND, by_ns=start_ns - 5_000_000)


def test_whom_telling_takes_long_is_told_again() -> None:
    work = work_of(bed := SlowBed(), "later")
    start_ns = _native.monotonic_ns() + FAR_NS
    work.plan(start_ns, start_ns + SECOND, by_ns=start_ns)
    first, second, *_ = (works["later"].after_s for works in bed.told)
    assert first > second + 0.05


class SlowBed(Bed):
    """Takes its time when it is told for the first time."""

    def work(self, works: Mapping[str, WorkTime]) -> None:
        if not self.told:
            time.sleep(0.06)
        super().work(works)

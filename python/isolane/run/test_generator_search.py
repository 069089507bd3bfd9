"""The generator's maximum: found by asking for less until all of it leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from isolane.analysis import generator_maximum
from isolane.analysis.generator_maximum import (
    PURPOSE,
    SENT,
    TRIALS,
    maximum_of,
    moved_points,
    scale_of,
)
from isolane.analysis.summary import summarise
from isolane.results.results import Capacity, GeneratorAudit, Interval, Trial
from isolane.run import generator_search
from isolane.run.generator_search import next_demands, next_task
from isolane.run.test_runner import RELATIVE, Imaginary, _Bench, journal, start
from isolane.spec import Experiment, parse_experiment
from isolane.spec.demands import Scale
from isolane.trials.backend import Observation, Setting

TEXT = """
isolane: 1
name: attacked
routers:
  - {name: victim, role: victim}
  - {name: aggressor, role: aggressor}
load: {victim: 0.2x, aggressor: [0x, 1x, AGGRESSOR]}
arms: [{name: direct, path: direct}, {name: bridge, path: bridge}]
"""
ONE_X = 1_000_000.0
FIRST_PPS = 5_000_000.0
CAPACITY = Capacity(
    arm="direct", router="victim", pps=Interval(median=ONE_X, low=ONE_X, high=ONE_X, n=1)
)
Generator = Callable[[float], float]
"""What leaves of a load, frames/s."""


def attacked(aggressor: str = "2x") -> Experiment:
    return parse_experiment(TEXT.replace("AGGRESSOR", aggressor))


def audit(asked_pps: float, sent_pps: float) -> GeneratorAudit:
    return GeneratorAudit(
        requested_pps=asked_pps, achieved_pps=sent_pps, rate_error=sent_pps / asked_pps - 1,
        departure_p50_ns=None, departure_p99_ns=None, departure_max_ns=None, busy=1.0,
        saturated=sent_pps < asked_pps,
    )  # fmt: skip


def searched(generator: Generator, experiment: Experiment | None = None) -> list[Trial]:
    """The trials of the first arm on a host whose generator sends so much."""
    spec = experiment or attacked()
    arm, trials = spec.resolved_arms()[0], list[Trial]()
    while task := next_task(spec, arm, trials, CAPACITY):
        demands = next_demands(spec, arm, trials, CAPACITY, FIRST_PPS)
        asked_pps = sum(demand.offered_pps for demand in demands)
        trials.append(
            Trial(
                trial=len(trials), arm=arm.name, point=task.point.index, point_label="",
                repeat=task.repeat, purpose=PURPOSE, started_unix_s=0.0, window_s=0.06,
                status="ok", reason=None, conserved=True,
                generator=audit(asked_pps, generator(asked_pps)),
            )
        )  # fmt: skip
    return trials


def found(trials: list[Trial]) -> float:
    maximum = maximum_of(trials)
    assert maximum is not None
    return maximum.by_arm["direct"]


def test_one_trial_is_enough_where_all_is_sent() -> None:
    trials = searched(lambda asked: asked)
    assert len(trials) == 1
    assert found(trials) == pytest.approx(2_200_000)


@pytest.mark.parametrize("maximum", [300_000.0, 1_100_000.0, 2_100_000.0])
@pytest.mark.parametrize("livelock", [1.0, 0.8, 0.5])
def test_the_maximum_is_found_from_above(maximum: float, livelock: float) -> None:
    """Overloaded, a generator sends less than at its best."""
    trials = searched(lambda asked: asked if asked <= maximum else livelock * maximum)
    assert 1 < len(trials) <= TRIALS
    assert 0.9 * livelock * maximum <= found(trials) <= maximum


def test_a_generator_that_is_held_up_each_time_ends_the_search() -> None:
    trials = searched(lambda asked: 0.9 * asked)
    assert len(trials) == TRIALS
    assert found(trials) < min(t.generator.requested_pps for t in trials if t.generator)


def test_a_generator_that_is_held_up_once_is_asked_again() -> None:
    held_up = iter([0.3, 1.0])
    trials = searched(lambda asked: next(held_up) * asked)
    assert len(trials) == 2
    assert found(trials) == pytest.approx(2_200_000)


def test_one_that_is_held_up_twice_is_not_taken_for_a_slow_one_for_good() -> None:
    held_up = iter([0.3, 0.7, 0.4, 1.0])
    trials = searched(lambda asked: next(held_up) * asked)
    assert found(trials) == pytest.approx(0.95 * 0.7 * 2_200_000)


def test_a_little_less_than_asked_for_counts_as_all() -> None:
    assert len(searched(lambda asked: (SENT + 0.001) * asked)) == 1


def test_max_begins_where_no_core_sends_more() -> None:
    trials = searched(lambda asked: min(asked, 3_000_000.0), attacked("max"))
    assert trials[0].generator is not None
    assert trials[0].generator.requested_pps == pytest.approx(FIRST_PPS)
    assert found(trials) == pytest.approx(0.95 * 3_000_000)


def test_points_beyond_it_are_moved_in_that_arm_alone() -> None:
    trials = searched(lambda asked: min(asked, 900_000.0))
    spec = attacked()
    scale = scale_of(spec, trials, CAPACITY)
    assert scale == Scale(ONE_X, {"direct": found(trials), "null DUT": found(trials)}, None)
    moved = moved_points(spec, scale)
    assert [(one.arm, one.point_label) for one in moved] == [
        ("direct", "aggressor 1x"),
        ("direct", "aggressor 2x"),
    ]
    assert [one.offered_pps for one in moved] == pytest.approx([found(trials)] * 2)
    assert [one.intended_pps for one in moved] == pytest.approx([1_200_000, 2_200_000])
    assert moved[0].aggressor_x == pytest.approx((found(trials) - 200_000) / ONE_X)


def test_small_loads_need_no_search() -> None:
    slow = CAPACITY.model_copy(update={"pps": Interval(median=40_000, low=1, high=1, n=1)})
    assert generator_search.is_needed(attacked(), CAPACITY)
    assert not generator_search.is_needed(attacked(), slow)
    assert generator_search.is_needed(attacked("max"), slow)


def test_without_such_trials_nothing_is_moved() -> None:
    assert maximum_of([]) is None
    assert scale_of(attacked(), [], CAPACITY) == Scale(ONE_X, {}, None)
    assert scale_of(attacked("max"), [], CAPACITY).limit("direct") is not None


@dataclass
class Sending(Imaginary):
    """The imaginary back end, with a generator that sends so much at most."""

    max_pps: float = 1_200.0
    """Below what every host sends, which the tests that use it leave out."""

    def flood_pps(self) -> float:
        return FIRST_PPS

    def observed(self, setting: Setting, seen: Observation) -> Observation:
        asked_pps = sum(demand.offered_pps for demand in setting.demands)
        return replace(seen, generator=audit(asked_pps or 1.0, min(asked_pps, self.max_pps)))


def test_a_run_offers_no_more_than_can_be_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back_end, trial = Sending(), _Bench.trial
    monkeypatch.setattr(generator_search, "SURE_PPS", 0.0)
    monkeypatch.setattr(
        _Bench, "trial", lambda bench, setting: back_end.observed(setting, trial(bench, setting))
    )
    summary = start(tmp_path / "run", back_end, RELATIVE).execute()
    assert summary.generator is not None
    limits = summary.generator.by_arm
    assert set(limits) == {"direct", "bridge"}
    measured = [t for t in journal(tmp_path / "run") if t.purpose == "measure"]
    for one in measured:
        assert sum(r.offered_pps for r in one.routers) <= limits[one.arm] * (1 + 1e-6)
    assert summary.moved
    assert all(one.offered_pps < one.intended_pps for one in summary.moved)
    told = [gap.what for gap in summary.not_measured if gap.what.startswith("The whole load of")]
    assert len(told) == len(summary.moved)
    # What is on disk says the same, also without the run's own summary.
    spec = parse_experiment(RELATIVE)
    again = summarise(spec, journal(tmp_path / "run"), (), 0.0, 0.0, complete=True)
    assert again.moved == summary.moved
    assert again.generator == summary.generator


def test_an_interrupted_search_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back_end, trial = Sending(), _Bench.trial
    monkeypatch.setattr(generator_search, "SURE_PPS", 0.0)
    monkeypatch.setattr(
        _Bench, "trial", lambda bench, setting: back_end.observed(setting, trial(bench, setting))
    )

    def end(number: int) -> None:
        if any(task.purpose == PURPOSE for task in journal(tmp_path / "run")) and number:
            raise KeyboardInterrupt

    back_end.trouble = end
    with pytest.raises(KeyboardInterrupt):
        start(tmp_path / "run", back_end, RELATIVE).execute()
    before = [t for t in journal(tmp_path / "run") if t.purpose == PURPOSE]
    back_end.trouble = lambda _number: None
    start(tmp_path / "run", back_end, RELATIVE).execute()
    after = [t for t in journal(tmp_path / "run") if t.purpose == PURPOSE]
    assert after[: len(before)] == before
    assert {t.arm for t in after} == {"direct", "bridge"}
    spec = parse_experiment(RELATIVE)
    known = generator_maximum.maximum_of(after)
    assert known is not None
    assert set(known.by_arm) == {arm.name for arm in spec.resolved_arms()}


def test_an_unfinished_search_tells_nothing() -> None:
    trials = searched(lambda asked: min(asked, 900_000.0))
    assert maximum_of(trials[:1]) is None
    assert moved_points(attacked(), scale_of(attacked(), trials[:1], CAPACITY)) == ()


@pytest.mark.parametrize(
    ("loads", "one_x", "asked_pps"),
    [
        ("[0pps, 800kpps, 1.5x]", 300_000.0, 860_000.0),
        ("[0pps, 1500kpps, 1x]", 3_000_000.0, 3_600_000.0),
    ],
)
def test_the_heaviest_point_is_the_one_with_the_known_capacity(
    loads: str, one_x: float, asked_pps: float
) -> None:
    text = TEXT.replace("[0x, 1x, AGGRESSOR]", loads)
    spec = parse_experiment(text)
    known = CAPACITY.model_copy(update={"pps": Interval(median=one_x, low=1, high=1, n=1)})
    demands = next_demands(spec, spec.resolved_arms()[0], [], known, FIRST_PPS)
    assert sum(demand.offered_pps for demand in demands) == pytest.approx(asked_pps)

"""The capacity trials of a run, on the back end of arithmetic that the runner's tests have."""

from __future__ import annotations

from pathlib import Path

import pytest

from isolane.errors import MeasurementError
from isolane.results.invalid import InvalidKind, InvalidReason
from isolane.run.test_runner import (
    CAPACITY_PPS,
    RELATIVE,
    Imaginary,
    fail_at,
    journal,
    start,
)
from isolane.spec import Arm


def test_loads_in_x_are_multiples_of_the_capacity(tmp_path: Path) -> None:
    back_end = Imaginary()
    text = RELATIVE.replace("2kpps, 3kpps", "1x, 2x")
    summary = start(tmp_path / "run", back_end, text).execute()
    trials = journal(tmp_path / "run")
    first = [trial for trial in trials if trial.purpose == "capacity"]
    assert first == trials[: len(first)], "before all others"
    assert {len(trial.routers) for trial in first} == {1}, "one router alone"
    assert [arm for arm, _ in back_end.built[:2]] == ["direct", "bridge"], "the arm of 1x first"
    assert summary.capacity is not None
    assert summary.capacity.arm == "direct"
    assert summary.capacity.pps.median == CAPACITY_PPS
    assert [(c.arm, c.mfr_pps.median) for c in summary.capacities] == [
        ("direct", CAPACITY_PPS), ("bridge", CAPACITY_PPS),
    ]  # fmt: skip
    for setting in back_end.settings[len(first) :]:
        assert setting.demands[0].offered_pps == pytest.approx(0.2 * CAPACITY_PPS)
        assert setting.demands[1].load_x in (0.5, 1, 2)
        assert setting.demands[1].offered_pps == pytest.approx(
            setting.demands[1].load_x * CAPACITY_PPS
        )


def test_1x_is_that_of_ordinary_frames(tmp_path: Path) -> None:
    ending = RELATIVE.replace("role: victim", "role: router, traffic: {pattern: no-route}", 1)
    assert ending != RELATIVE
    back_end = Imaginary()
    start(tmp_path / "run", back_end, ending).execute()
    alone = [setting for setting in back_end.settings if len(setting.demands) == 1]
    assert alone
    assert {str(setting.demands[0].router.pattern) for setting in alone} == {"constant"}
    beside = [setting for setting in back_end.settings if len(setting.demands) > 1]
    assert {str(setting.demands[0].router.pattern) for setting in beside} == {"no-route"}


def test_where_the_generator_cannot_overload_1x_is_a_lower_bound(tmp_path: Path) -> None:
    weak = Imaginary(overload=0.9 * CAPACITY_PPS)
    summary = start(tmp_path / "run", weak, RELATIVE).execute()
    assert summary.complete
    assert summary.capacity is not None
    assert summary.capacity.at_least
    assert summary.capacity.pps.median == pytest.approx(0.9 * CAPACITY_PPS)
    assert [one.at_least for one in summary.capacities] == [True, True]
    for setting in weak.settings[-4:]:
        assert setting.demands[0].offered_pps == pytest.approx(0.2 * 0.9 * CAPACITY_PPS)


def test_capacity_trials_without_verdict_measure_no_capacity(tmp_path: Path) -> None:
    elsewhere = InvalidReason(InvalidKind.MISPLACED, "it ran on another core")
    with pytest.raises(MeasurementError, match=r"could not be .* last one because it ran on anoth"):
        start(tmp_path / "run", Imaginary(invalid=(elsewhere,)), RELATIVE).execute()
    trials = journal(tmp_path / "run")
    assert {trial.status for trial in trials} == {"no-verdict"}
    assert {trial.purpose for trial in trials} == {"capacity"}


def test_another_arm_that_cannot_be_overloaded_has_a_lower_bound(tmp_path: Path) -> None:
    """Only the arm that 1x names must be overloaded; another one is told as a lower bound."""

    class Weak(Imaginary):
        def overload_pps(self, arm: Arm) -> float:
            return CAPACITY_PPS * (0.5 if arm.name == "bridge" else 10)

    summary = start(tmp_path / "run", Weak(), RELATIVE).execute()
    direct, bridge = summary.capacities
    assert (direct.at_least, bridge.at_least) == (False, True)
    assert bridge.mfr_pps.median == bridge.max_load_pps == 0.5 * CAPACITY_PPS


def test_the_other_arms_may_be_left_out(tmp_path: Path) -> None:
    text = f"{RELATIVE}capacity: {{arm: bridge, every_arm: false}}\n"
    summary = start(tmp_path / "run", Imaginary(), text).execute()
    assert [one.arm for one in summary.capacities] == ["bridge"]
    assert summary.capacity is not None
    assert summary.capacity.arm == "bridge"
    made = [trial for trial in journal(tmp_path / "run") if trial.purpose == "capacity"]
    assert {trial.arm for trial in made} == {"bridge"}


def test_after_a_failed_capacity_trial_the_bench_is_built_anew(tmp_path: Path) -> None:
    back_end = Imaginary(fail_at(2))
    summary = start(tmp_path / "run", back_end, RELATIVE).execute()
    assert [arm for arm, _ in back_end.built[:3]] == ["direct", "direct", "bridge"]
    assert summary.capacity is not None
    assert summary.capacity.pps.median == CAPACITY_PPS
    with pytest.raises(MeasurementError, match=r"3 trials failed in a row, .*: trouble 4"):
        start(tmp_path / "other", Imaginary(fail_at(2, 3, 4)), RELATIVE).execute()


def test_a_resumed_run_keeps_its_capacity(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        start(folder, Imaginary(fail_at(5, error=KeyboardInterrupt)), RELATIVE).execute()
    start(tmp_path / "whole", Imaginary(), RELATIVE).execute()
    back_end = Imaginary()
    summary = start(folder, back_end, RELATIVE).execute()
    assert summary.complete
    purposes = [trial.purpose for trial in journal(folder)]
    once = journal(tmp_path / "whole")
    assert purposes == [trial.purpose for trial in once]
    loads = [[r.offered_pps for r in trial.routers] for trial in journal(folder)]
    assert loads == [[r.offered_pps for r in trial.routers] for trial in once]
    assert len(back_end.settings) == len(once) - 5

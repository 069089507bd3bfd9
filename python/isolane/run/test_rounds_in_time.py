"""How many rounds fit into a time: of the clock alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from isolane.errors import MeasurementError
from isolane.results.folder import RunFolder
from isolane.run.rounds_in_time import MAX_ROUNDS, RoundsInTime
from isolane.run.runner import Step
from isolane.run.test_runner import ABSOLUTE, Imaginary, journal, start
from isolane.spec import parse_experiment

EXPERIMENT = parse_experiment(ABSOLUTE)
"""Two repeats of six trials."""


@dataclass
class Clock:
    now_s: float = 100.0

    def __call__(self) -> float:
        return self.now_s


def repeats(limit_s: float, before_s: float, *rounds_s: float) -> int:
    """Do rounds that take so long, and return how many there are to be after the last of them."""
    clock, experiment = Clock(), EXPERIMENT
    in_time = RoundsInTime(limit_s, clock)
    clock.now_s += before_s
    in_time.begin_rounds(experiment, is_left=True)
    for number, round_s in enumerate(rounds_s, 1):
        clock.now_s += round_s
        experiment = in_time.fitting(experiment, number) or experiment
    return experiment.trial.repeats


@pytest.mark.parametrize(
    ("limit_s", "before_s", "rounds_s", "expected"),
    [
        (60, 10, (5,), 10),  # 45 s are left for rounds of 5 s
        (60, 10, (5, 15), 5),  # 30 s are left for rounds of 10 s
        (60, 10, (20, 2), 4),
        (60, 70, (5,), 1),  # one round at least, however late
        (60, 10, (50,), 1),
        (60, 10, (40, 30), 2),  # those that were done stay
        (1e6, 0, (1e-9,), MAX_ROUNDS),
        (60, 0, (0.0,), MAX_ROUNDS),
    ],
)
def test_the_rest_of_the_time_is_filled_with_rounds_of_mean_length(
    limit_s: float, before_s: float, rounds_s: tuple[float, ...], expected: int
) -> None:
    assert repeats(limit_s, before_s, *rounds_s) == expected


def test_a_round_more_or_less_is_the_only_change() -> None:
    in_time = RoundsInTime(10, Clock())
    assert in_time.begin_rounds(EXPERIMENT, is_left=True) is EXPERIMENT
    found = in_time.fitting(EXPERIMENT, 1)
    assert found is not None
    assert found.trial.model_copy(update={"repeats": 2}) == EXPERIMENT.trial
    assert in_time.fitting(found, 2) is None, "the limit already"


@pytest.mark.parametrize(("limit_s", "rounds"), [(30, 5), (6, 1), (13, 2)])
def test_a_run_does_as_many_rounds_as_fit_and_is_complete(
    tmp_path: Path, limit_s: float, rounds: int
) -> None:
    """Each trial takes 1 s, so each round 6 s."""
    clock = Clock()

    def trial(_number: int) -> None:
        clock.now_s += 1

    run = start(tmp_path / "run", Imaginary(trouble=trial), ABSOLUTE)
    run.in_time = RoundsInTime(limit_s, clock)
    steps: list[Step] = []
    run.watch = steps.append
    summary = run.execute()
    trials = journal(tmp_path / "run")
    assert len(trials) == 6 * rounds
    assert {trial.repeat for trial in trials} == set(range(rounds))
    assert summary.complete
    assert {cell.offered_pps.n for cell in summary.cells} == {rounds}
    assert steps[-1].total == 6 * max(rounds, 2), "until the first round was over"
    options = RunFolder.open(tmp_path / "run").options()
    assert options.get("repeats", 2) == rounds, "for isolane report, and a resumed run"


@pytest.mark.parametrize(("limit_s", "more"), [(12, 2), (3, 1)])
def test_a_finished_run_that_is_given_time_has_more_rounds(
    tmp_path: Path, limit_s: float, more: int
) -> None:
    """Not those that it had, and one at least."""
    clock = Clock()

    def trial(_number: int) -> None:
        clock.now_s += 1

    start(tmp_path / "run", Imaginary(trouble=trial), ABSOLUTE).execute()
    before = journal(tmp_path / "run")
    again = start(tmp_path / "run", Imaginary(trouble=trial), ABSOLUTE)
    again.in_time = RoundsInTime(limit_s, clock)
    summary = again.execute()
    trials = journal(tmp_path / "run")
    assert trials[: len(before)] == before
    assert {trial.repeat for trial in trials} == set(range(2 + more))
    assert summary.complete
    assert RunFolder.open(tmp_path / "run").options()["repeats"] == 2 + more


def test_an_early_trial_that_is_made_again_does_not_end_the_later_rounds(tmp_path: Path) -> None:
    def fails(number: int) -> None:
        if number == 1:
            raise MeasurementError("once")

    start(tmp_path / "run", Imaginary(trouble=fails), ABSOLUTE).execute()
    clock = Clock()

    def long(_number: int) -> None:
        clock.now_s += 70

    again = start(tmp_path / "run", Imaginary(trouble=long), ABSOLUTE)
    again.in_time = RoundsInTime(60, clock)
    assert again.execute().complete
    assert RunFolder.open(tmp_path / "run").options().get("repeats", 2) == 2


def test_no_run_has_more_rounds_than_a_file_may_ask_for() -> None:
    trial = EXPERIMENT.trial.model_copy(update={"repeats": MAX_ROUNDS})
    whole = EXPERIMENT.model_copy(update={"trial": trial})
    in_time = RoundsInTime(10, Clock())
    assert in_time.begin_rounds(whole, is_left=False).trial.repeats == MAX_ROUNDS

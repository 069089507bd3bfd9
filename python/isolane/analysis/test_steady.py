from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from isolane.analysis.steady import too_short, unsteady
from isolane.report import test_data as data
from isolane.results.invalid import InvalidKind
from isolane.results.results import Status, Trial
from isolane.results.steady_models import WindowShift

Shifts = Mapping[str, tuple[float, float | None]]
"""By router: of throughput and of p99 delay."""


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Trial]:
    one = data.trials_of(data.experiment(tmp_path, data.NOISY), 1)[0]

    def trial(number: int, shifts: Shifts, status: Status = "ok", resolution: float = 0.0) -> Trial:
        routers = tuple(
            one.routers[0].model_copy(
                update={
                    "router": router,
                    "window_shift": WindowShift(
                        throughput=throughput, delay_p99=delay, resolution=resolution
                    ),
                }
            )
            for router, (throughput, delay) in shifts.items()
        )
        update = {"trial": number, "arm": "direct", "point": 0, "point_label": "1.2x"}
        other = {"status": status, "purpose": "measure", "routers": routers}
        return one.model_copy(update={**update, **other})

    return trial


Make = Callable[..., Trial]


def test_a_shift_in_all_trials_alike_is_told(make: Make) -> None:
    trials = [make(i, {"vr": (-0.03 + 0.002 * (i % 3), None)}) for i in range(5)]
    (found,) = unsteady(trials)
    assert (found.router, found.metric, found.trials) == ("vr", "throughput", 5)
    assert -0.03 < found.shift < -0.02
    (told,) = too_short([found])
    assert "vr on direct, 1.2x" in told.what
    assert "trial.warmup" in told.why


def test_a_shift_in_one_trial_is_the_machines(make: Make) -> None:
    trials = [make(i, {"vr": (-0.2 if i == 3 else 0.001 * (i - 2), None)}) for i in range(6)]
    assert not unsteady(trials)


def test_what_is_certain_but_small_does_not_matter(make: Make) -> None:
    trials = [make(i, {"vr": (-0.0010 - 0.00001 * i, -0.05 - 0.001 * i)}) for i in range(5)]
    assert not unsteady(trials)
    assert [found.metric for found in unsteady(trials, 0.0005)] == ["throughput"]


def test_a_frame_more_or_less_is_no_shift(make: Make) -> None:
    assert unsteady([make(i, {"vr": (0.0102, None)}) for i in range(5)])
    assert not unsteady([make(i, {"vr": (0.0102, None)}, resolution=2 / 49) for i in range(5)])


def test_two_trials_say_nothing_and_invalid_ones_do_not_count(make: Make) -> None:
    shift = {"vr": (-0.3, -0.5)}
    assert not unsteady([make(i, shift) for i in range(2)])
    assert not unsteady([make(i, shift, "ok" if i < 2 else "no-verdict") for i in range(9)])
    assert len(unsteady([make(i, shift) for i in range(3)])) == 2


def test_invalid_delays_are_not_tested(make: Make) -> None:
    trials = [make(i, {"vr": (-0.03 + 0.002 * (i % 3), -0.5 - 0.01 * i)}) for i in range(5)]
    assert [found.metric for found in unsteady(trials)] == ["delay_p99", "throughput"]
    late = [trial.model_copy(update={"invalid": (InvalidKind.LATE,)}) for trial in trials]
    assert [found.metric for found in unsteady(late)] == ["throughput"]


def test_steady_runs_are_warned_of_in_one_of_twenty_at_most(make: Make) -> None:
    draw = random.Random(7)
    warned = 0
    for _ in range(300):
        routers = [f"vr{i}" for i in range(12)]
        warned += bool(
            unsteady(
                [
                    make(i, {name: (draw.gauss(0, 0.02), draw.gauss(0, 0.3)) for name in routers})
                    for i in range(5)
                ]
            )
        )
    # 15 expected at 5 %; 25 or more in one of 100 such tests, and the draw is fixed.
    assert warned < 25, warned

"""Intervals of costs with a model whose true costs are known, its figures with noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from isolane.calibrate.fit import Fit, Fitter, Vector
from isolane.calibrate.identify import NOISE_ASSUMED, NOISE_FLOOR, Identification, identify
from isolane.calibrate.problem import Problem
from isolane.reproduce.model import Workers
from isolane.spec.hostmodel import Limits

LIMITS = {
    "frame": Limits(low=100, high=1000, why="w"),
    "wake": Limits(low=0, high=10_000, why="w"),
    "left": Limits(low=0, high=500, why="w"),
    "right": Limits(low=0, high=500, why="w"),
    "idle": Limits(low=0, high=100, why="w"),
}
TRUTH = {"frame": 400.0, "wake": 3000.0, "left": 150.0, "right": 200.0, "idle": 50.0}
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)


def rates(costs: dict[str, float]) -> list[float]:
    """Throughputs of a core: a wake-up a batch, two costs that only occur together, 1 Mpps most."""
    both = costs.get("left", 150.0) + costs.get("right", 200.0)
    return [
        *(1e9 / (costs["frame"] + costs["wake"] / batch) for batch in BATCHES),
        *(1e9 / (costs["frame"] + 2 * both + costs["wake"] / batch) for batch in BATCHES),
        1e6, 1e6, 1e6,
    ]  # fmt: skip


@dataclass
class Known(Fitter):
    """Fits the model above instead of a simulated host."""

    wanted: tuple[float, ...] = ()
    chosen: tuple[int, ...] = ()
    """Which of the model's figures it is fitted to."""

    def errors(self, points: Sequence[Vector]) -> list[Vector]:
        found = np.array([rates(dict(self._values(x))) for x in points])
        return list((found / np.array(self.wanted) - 1)[:, list(self.chosen)])


def fitted(
    free: Sequence[str], noise: float, seed: int = 1, figures: int = 99
) -> tuple[Known, Fit]:
    draw = np.random.default_rng(seed)
    wanted = np.array(rates(TRUTH)) * (1 + noise * draw.standard_normal(len(rates(TRUTH))))
    wanted[-3:] = 1e6
    count = len(wanted)
    chosen = [*range(figures), *range(count - 3, count)] if figures < count else [*range(count)]
    fitter = Known(
        cast("Problem", problem(free, len(chosen))), cast("Workers", None), tolerance=1e6,
        wanted=tuple(wanted), chosen=tuple(chosen),
    )  # fmt: skip
    return fitter, fitter.run(20)


def problem(free: Sequence[str], count: int) -> SimpleNamespace:
    profile = SimpleNamespace(fitted=LIMITS, figure=lambda key: TRUTH[key] * 1.2)
    targets = [SimpleNamespace(weight=1.0)] * count
    return SimpleNamespace(free=tuple(free), profile=profile, targets=targets, start="middle")


def found(free: Sequence[str], noise: float, **more: int) -> tuple[Identification, Fit]:
    fitter, fit = fitted(free, noise, **more)
    return identify(fitter, fit), fit


def test_costs_that_made_the_figures_are_found_and_their_intervals_are_small() -> None:
    told, fit = found(["frame", "wake"], 0.0)
    assert fit.values == pytest.approx({"frame": 400.0, "wake": 3000.0}, rel=0.01)
    assert told.noise == NOISE_FLOOR
    for one in told.intervals:
        assert one.state == "determined"
        assert not one.at_limit
        assert one.low is not None
        assert one.high is not None
        assert one.low < TRUTH[one.key] < one.high
        assert one.high - one.low < 0.05 * TRUTH[one.key]


def test_intervals_contain_the_true_costs_as_often_as_they_say() -> None:
    inside = dict.fromkeys(("frame", "wake"), 0)
    runs = 200
    for seed in range(runs):
        told, _ = found(["frame", "wake"], 0.02, seed=seed)
        assert 0.01 < told.noise < 0.035
        for one in told.intervals:
            assert one.low is not None
            assert one.high is not None
            inside[one.key] += one.low <= TRUTH[one.key] <= one.high
    # 95 % of 200 are 190; fewer than 180 or more than 199 happen once in a thousand times.
    assert all(180 <= count <= 199 for count in inside.values()), inside


def test_costs_that_only_occur_together_are_not_determined() -> None:
    told, _ = found(["frame", "wake", "left", "right"], 0.01)
    state = {one.key: one.state for one in told.intervals}
    assert (state["frame"], state["wake"]) == ("determined", "determined")
    assert "determined" not in (state["left"], state["right"])
    assert all(
        one.figures == len(BATCHES) for one in told.intervals if one.key in ("left", "right")
    )
    told, _ = found(["frame", "wake", "left"], 0.01)
    assert [one.state for one in told.intervals] == ["determined"] * 3, "one of them alone is"


def test_a_cost_that_no_figure_responds_to_has_no_effect() -> None:
    told, _ = found(["frame", "wake", "idle"], 0.01)
    one = told.intervals[2]
    assert (one.state, one.figures, one.low, one.high) == ("no effect", 0, None, None)


def test_figures_that_respond_to_nothing_are_not_scored() -> None:
    told, fit = found(["frame", "wake"], 0.02)
    assert told.informative == (True,) * 16 + (False,) * 3
    assert fit.errors[-3:] == (0.0, 0.0, 0.0)
    assert told.mean(fit.errors) == pytest.approx(fit.mean * 19 / 16)
    assert told.largest(fit.errors) == fit.largest


def test_with_as_many_figures_as_costs_an_error_is_assumed() -> None:
    told, fit = found(["frame", "wake"], 0.0, figures=2)
    assert fit.largest < 0.001
    assert told.noise == NOISE_ASSUMED
    frame = told.intervals[0]
    assert frame.low is not None
    assert frame.high is not None
    assert frame.high - frame.low > 10, "an exact fit is no exact cost"


def test_a_cost_at_a_limit_is_told_and_its_interval_is_open_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(LIMITS, "wake", Limits(low=0, high=2800, why="w"))
    told, fit = found(["frame", "wake"], 0.01)
    one = told.intervals[1]
    assert fit.values["wake"] == 2800
    assert one.at_limit
    assert one.high is None

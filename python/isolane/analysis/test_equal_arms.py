"""The bench of equal arms on simulated noise: the printed floor holds, equal arms stay equal.

The live form is ``python -m benches.noise``.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from isolane.analysis.equal_arms import ARMS, EXPERIMENT, ROUNDS, comparisons
from isolane.analysis.twins import twins
from isolane.report import test_data as data
from isolane.results.results import Trial
from isolane.spec import Experiment, parse_experiment

COUNT = 200
CALLED_DIFFERENT = 0.05
Noise = Callable[[random.Random, int], float]


def normal(source: random.Random, _round: int) -> float:
    return source.gauss(0, 0.02)


def with_outliers(source: random.Random, _round: int) -> float:
    return source.gauss(0, 0.02) * (8 if source.random() < 0.1 else 1)


def drifting(source: random.Random, number: int) -> float:
    """The host's speed follows a slow wave, the same for both arms, with noise on top."""
    return 0.1 * abs(number % 40 - 20) / 20 + source.gauss(0, 0.01)


def sometimes_disturbed(source: random.Random, _round: int) -> float:
    return -0.05 * source.expovariate(1)


def experiment() -> Experiment:
    return parse_experiment(EXPERIMENT.format(path="bridge", rounds=COUNT * ROUNDS, threshold="1%"))


def simulated(noise: Noise, gap: float = 0.0) -> list[Trial]:
    """Trials of two arms that differ by `gap`, with the twins that a run would have."""
    found, source, trials = experiment(), random.Random(11), list[Trial]()
    (point,) = found.points()
    sample = data.trial("bridge", point, 0, 0)
    for number in range(COUNT * ROUNDS):
        doubled = [arm.name for arm in twins(found, number)]
        for arm, purpose in [(a, "measure") for a in ARMS] + [(a, "twin") for a in doubled]:
            share = 0.6 + noise(source, number) + (gap if arm == ARMS[1] else 0.0)
            victim = sample.routers[0].model_copy(
                update={"generated_frames": 100_000, "received_frames": round(1e5 * share)}
            )
            changed = {"arm": arm, "purpose": purpose, "repeat": number, "routers": (victim,)}
            trials.append(sample.model_copy(update=changed))
    return trials


@pytest.mark.parametrize("noise", [normal, with_outliers, drifting, sometimes_disturbed])
def test_equal_arms_are_seldom_called_different(noise: Noise) -> None:
    found = list(comparisons(simulated(noise), 0.01))
    assert len(found) == COUNT
    assert sum(one.is_different for one in found) <= CALLED_DIFFERENT * COUNT


def test_arms_that_differ_are_called_different() -> None:
    found = list(comparisons(simulated(normal, gap=0.15), 0.01))
    assert sum(one.is_different for one in found) >= 0.9 * COUNT

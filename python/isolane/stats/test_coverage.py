"""Intervals hold what later runs find: the small version of ``benches/coverage.py``."""

from __future__ import annotations

import numpy as np
import pytest

from isolane.stats.intervals import estimate, simultaneous
from isolane.stats.noise_model import HierarchicalNoise

BETWEEN, WITHIN, LATER, RUNS = 0.18, 0.08, 20, 200


def held(invocations: int, repeats: int, seed: int) -> float:
    """Share of runs whose interval holds the median of the later runs."""
    noise, hits = HierarchicalNoise(BETWEEN, WITHIN, seed), 0
    origins = [number for number in range(invocations) for _ in range(repeats)]
    for _ in range(RUNS):
        found = estimate(noise.run(invocations, repeats).ravel().tolist(), origins)
        assert found is not None
        units = np.median(noise.run(LATER * invocations, repeats), axis=1)
        middle = np.median(np.median(units.reshape(LATER, invocations), axis=1))
        hits += bool(found.low <= middle <= found.high)
    return hits / RUNS


@pytest.mark.parametrize(("invocations", "repeats"), [(6, 3), (8, 5), (10, 3)])
def test_intervals_hold_the_median_of_20_later_runs(invocations: int, repeats: int) -> None:
    assert held(invocations, repeats, seed=11) >= 0.90


def test_the_bootstrap_over_many_invocations_holds_it_too() -> None:
    assert held(20, 2, seed=11) >= 0.90


def test_one_invocation_holds_it_far_too_seldom() -> None:
    """However many its repeats: why a run has to be spread over invocations."""
    assert held(1, 15, seed=11) < 0.7


def test_the_points_of_a_verdict_hold_at_once() -> None:
    noise, hits = HierarchicalNoise(BETWEEN, WITHIN, 3), 0
    origins = [number for number in range(6) for _ in range(3)]
    for _ in range(RUNS):
        samples = [(noise.run(6, 3).ravel().tolist(), origins) for _ in range(4)]
        hits += all(b is not None and b.low <= 1 <= b.high for b in simultaneous(samples))
    assert hits / RUNS >= 0.92

"""Hierarchical noise: invocations differ, and the repeats in each differ less."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class HierarchicalNoise:
    """Draws the values of runs whose true median is 1.

    Factors are log-normal, because throughputs are positive and their errors relative.

    Parameters
    ----------
    between, within
        Relative standard deviations between invocations, and between repeats of one.
    seed
        The same seed gives the same runs.
    """

    def __init__(self, between: float, within: float, seed: int) -> None:
        self._between, self._within = (float(np.sqrt(np.log1p(v * v))) for v in (between, within))
        self._chance = np.random.default_rng(seed)

    def run(self, invocations: int, repeats: int) -> NDArray[np.float64]:
        """Return the values of one run, of shape (invocations, repeats)."""
        persistent = self._chance.normal(0, self._between, (invocations, 1))
        passing = self._chance.normal(0, self._within, (invocations, repeats))
        return np.exp(persistent + passing)

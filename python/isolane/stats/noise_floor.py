"""The noise floor: how much two equal arms differ."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import scipy  # not scipy.special, which takes 0.1 s: it is loaded when it is first used
from numpy.typing import NDArray

MIN_PAIRS = 3
"""With fewer pairs nothing can be said."""
RESAMPLES = 1_999
PERCENTILE = 0.97
"""Of the resampled differences. The 95th holds in 95 % of normal and of heavy-tailed noise; in
skewed noise it holds less often."""
CONFIDENCE = 0.95


def noise_floor(pairs: Sequence[tuple[float, float]], repeats: int, seed: int = 1) -> float | None:
    """Return what the medians of two equal arms differ by at most, in 95 % of comparisons.

    The pairs are of equal arms in the same round, so which of the two is which means nothing. Each
    resample draws as many rounds as a comparison has, exchanges the two of a round at random, and
    takes the difference of the medians: what comparing two equal arms would have given. Because
    few pairs tell less about the tails than many, the percentile is widened like Student's
    distribution beside the normal one, with as many degrees of freedom as there are pairs (the
    mean of the differences is known to be 0).

    Parameters
    ----------
    pairs
        Figures of an arm and of its twin, one pair per round, any unit.
    repeats
        Rounds behind each median that is compared.
    seed
        Seed of the resampling; the same pairs and seed give the same floor.

    Returns
    -------
    float or None
        In the unit of the pairs, not negative; None with fewer than `MIN_PAIRS` pairs.

    Raises
    ------
    ValueError
        If `repeats` is not positive.

    Notes
    -----
    Exchanging labels: Good, Permutation, Parametric and Bootstrap Tests of Hypotheses (2005), 3.2.
    """
    if repeats < 1:
        msg = f"a median of {repeats} repeats does not exist"
        raise ValueError(msg)
    if len(pairs) < MIN_PAIRS:
        return None
    figures = np.asarray(pairs, dtype=float).ravel()
    one, other = (figures[drawn] for drawn in _drawn(len(pairs), repeats, seed))
    differences = np.abs(np.median(one, axis=1) - np.median(other, axis=1))
    tail = (1 + CONFIDENCE) / 2
    widened = scipy.special.stdtrit(len(pairs), tail) / scipy.special.ndtri(tail)
    return float(np.quantile(differences, PERCENTILE) * widened)


@lru_cache(maxsize=16)  # a run has as many pairs of each of its figures
def _drawn(pairs: int, repeats: int, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return which of all figures, pair after pair, each resample gives to either arm."""
    random = np.random.default_rng(seed)
    first = 2 * random.integers(pairs, size=(RESAMPLES, repeats))
    exchanged = random.random((RESAMPLES, repeats)) < 0.5
    return first + exchanged, first + ~exchanged

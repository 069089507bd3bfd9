"""The noise floor: how much two equal arms differ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import special

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
    random = np.random.default_rng(seed)
    drawn = np.asarray(pairs, dtype=float)[random.integers(len(pairs), size=(RESAMPLES, repeats))]
    exchanged = random.random((RESAMPLES, repeats)) < 0.5
    one = np.where(exchanged, drawn[..., 1], drawn[..., 0])
    other = np.where(exchanged, drawn[..., 0], drawn[..., 1])
    differences = np.abs(np.median(one, axis=1) - np.median(other, axis=1))
    tail = (1 + CONFIDENCE) / 2
    widened = special.stdtrit(len(pairs), tail) / special.ndtri(tail)
    return float(np.quantile(differences, PERCENTILE) * widened)

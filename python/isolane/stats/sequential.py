"""Decides while measuring: evidence that stays valid however often somebody looks at it.

Each value either keeps a bar or misses it. Whoever claims that the median misses the bar claims
that each further value keeps it with a probability of at most one half. An e-process bets against
this claim, and its wealth shows how much the values speak against it: if the claim is true, the
wealth ever reaches ``1 / a`` with a probability of at most ``a`` (Ville's inequality), whenever one
stops. This needs no shape of the noise, no variance, and no number of values fixed beforehand;
outliers count as one miss each, however far out they lie.

Sources: Robbins (1970), Statistical methods related to the law of the iterated logarithm (the
mixture); Howard and Ramdas (2022), Sequential estimation of quantiles (intervals); Ramdas et al.
(2023), Game-theoretic statistics and safe anytime-valid inference (the theory); Holm (1979).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import count

import numpy as np
import scipy  # not scipy.special, which takes 0.1 s: it is loaded when it is first used
from numpy.typing import NDArray

ERROR_RATE = 0.05
"""Probability with which a table may contain a wrong answer of one kind."""

Floats = NDArray[np.float64]


def log_wealth(kept: Floats, number: Floats) -> Floats:
    """Return the evidence against "a value keeps the bar with probability 1/2 at most".

    The mixture of all bets on a probability from 1/2 to 1, with equal weight.

    Parameters
    ----------
    kept, number
        How many values keep the bar, of how many; arrays of the same shape.

    Returns
    -------
    ndarray
        Natural logarithm of the wealth, which starts at 1; minus infinity where it is used up.
    """
    a, b = kept + 1, number - kept + 1
    with np.errstate(divide="ignore"):
        upper_half = np.log(scipy.special.betaincc(a, b, 0.5))
    logs: Floats = (number + 1) * np.log(2) + scipy.special.betaln(a, b) + upper_half
    return logs


def chance_of(keeps: Sequence[bool]) -> float:
    """Return how likely such values are, at most, if the median misses the bar.

    Parameters
    ----------
    keeps
        Whether each value keeps the bar, in the order in which they were measured.

    Returns
    -------
    float
        A p-value that is valid whenever one stops, 0 to 1; 1 without values.
    """
    return _chance_of(bytes(map(bool, keeps))) if keeps else 1.0


@lru_cache(maxsize=4096)  # each decision asks for all promises of the table, most with nothing new
def _chance_of(keeps: bytes) -> float:
    kept = np.cumsum(np.frombuffer(keeps, dtype=np.uint8).astype(float))
    wealth = log_wealth(kept, np.arange(1.0, len(keeps) + 1)).max()
    return float(np.exp(-max(0.0, wealth)))


def pairs_needed(promises: int, error_rate: float = ERROR_RATE) -> int:
    """Return how many values decide if all agree, for one promise of several."""
    wanted = np.log(promises / error_rate)
    return next(
        n for n in count(1) if log_wealth(np.array([float(n)]), np.array([float(n)]))[0] >= wanted
    )


def holm(p_values: Sequence[float], hypotheses: int | None = None) -> list[float]:
    """Adjust p-values so that a bar for each of them is a bar for the whole table (Holm 1979).

    Parameters
    ----------
    p_values
        Valid for any dependence among them.
    hypotheses
        Size of the table, where it is larger than the list: the others count as 1.

    Returns
    -------
    list of float
        Adjusted p-values in the same order, at most 1.
    """
    size = max(len(p_values), hypotheses or 0)
    adjusted, highest = [1.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (size - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def median_interval(
    values: Sequence[float], error_rate: float = ERROR_RATE
) -> tuple[float, float] | None:
    """Return an interval for the median, valid at any time of stopping.

    Its ends are values of the sample: the outermost that a bar could have without being refuted
    with half the error rate from one side.

    Returns
    -------
    tuple of float or None
        Lower and upper end, in the unit of `values`; None below eight values, which bound nothing.
    """
    last = _last_refuted(len(values), error_rate)
    if last is None:
        return None
    ordered = sorted(values)
    return ordered[last], ordered[len(values) - 1 - last]


@lru_cache(maxsize=1024)
def _last_refuted(n: int, error_rate: float) -> int | None:
    """Return the highest of n places in order, from 0, at which a bar for the median is refuted."""
    # With the bar at the (i+1)-th lowest value, n - i values keep it.
    kept = np.arange(n, 0, -1.0)
    refuted = log_wealth(kept, np.full(n, float(n))) >= np.log(2 / error_rate)
    return int(np.flatnonzero(refuted)[-1]) if refuted.any() else None

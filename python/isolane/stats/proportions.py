"""How sure a share is that was counted, and the difference of two of them."""

from __future__ import annotations

import math

import scipy  # not scipy.special, which takes 0.1 s: it is loaded when it is first used

from isolane.stats.counted import Counted
from isolane.stats.intervals import CONFIDENCE


def wilson(count: int, total: int, confidence: float = CONFIDENCE) -> Counted:
    """Return the share of some among all that were counted, with its score interval.

    Parameters
    ----------
    count, total
        How many were of the kind, and how many there were; ``0 <= count <= total``, and
        ``total`` at least 1.
    confidence
        How often the interval is to hold the true share, 0 to 1.

    Returns
    -------
    Counted
        Shares, 0 to 1. Unlike the textbook's normal interval it is never empty, nor outside 0 to 1,
        and keeps its confidence for shares near 0 as well.

    Raises
    ------
    ValueError
        `count` is not among `total`.

    Notes
    -----
    Wilson (1927); recommended by Brown, Cai and DasGupta (2001).
    """
    if not 0 <= count <= total or total == 0:
        raise ValueError(f"{count} of {total} is no share")
    z = float(scipy.special.ndtri((1 + confidence) / 2))
    share = count / total
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z / (1 + z * z / total)
    half *= math.sqrt(share * (1 - share) / total + (z / (2 * total)) ** 2)
    # Rounding must not put the share itself outside.
    return Counted(share, max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half)))


def difference(first: Counted, second: Counted) -> Counted:
    """Return second minus first, of two quantities that were counted independently.

    Returns
    -------
    Counted
        The interval has the confidence of those of the two quantities, which must be the same.

    Notes
    -----
    The method of variance estimates recovery, Zou and Donner (2008); for two shares it is method 10
    of Newcombe (1998).
    """
    value = second.value - first.value
    below = math.hypot(second.value - second.low, first.high - first.value)
    above = math.hypot(second.high - second.value, first.value - first.low)
    return Counted(value, value - below, value + above)

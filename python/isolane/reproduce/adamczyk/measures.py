"""What the claims and rows are made of: figures of series of throughput. Pure functions."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from scipy import special

from isolane.reproduce.adamczyk.runs import CONFIDENCE, Repeats, Series

PAPERS_REPEATS: Final = 10
WARMUP_S: Final = 2.0
"""What happens in this time after a start is not counted, s."""
DOMINATES: Final = 0.75
"""Share of what both get from which one dominates by far."""


def second_start(repeats: Repeats) -> float:
    """Return when the last guest begins, s."""
    return max(guest.start for guest in repeats.variant.guests.values())


def after_warmup(repeats: Repeats, vm: str) -> Series:
    """Return the throughput while all send, shape (repeats, bins), Mbit/s."""
    return repeats.between(vm, second_start(repeats) + WARMUP_S)


def alone(repeats: Repeats, vm: str) -> Series:
    """Return a guest's throughput before the other begins, shape (repeats, bins), Mbit/s."""
    begin = repeats.experiment.bin
    return repeats.between(vm, begin, second_start(repeats) - repeats.experiment.bin)


def means(data: Series) -> Series:
    """Return the mean of each repeat, shape (repeats,)."""
    result: Series = data.mean(axis=1)
    return result


def half_width(repeats: Repeats, of: int = PAPERS_REPEATS) -> float:
    """Return half the width of the 95 % confidence interval in time, Mbit/s.

    The mean over bins, while all send, and guests.

    Parameters
    ----------
    of
        Of so many repeats, whose deviation is estimated from all that there are.

    Raises
    ------
    KeyError
        If there is a single repeat, which does not tell.
    """
    if len(repeats.courses) < 2:
        raise KeyError(repeats.variant.name)
    quantile = float(special.stdtrit(of - 1, (1 + CONFIDENCE) / 2))
    deviations = [after_warmup(repeats, vm).std(axis=0, ddof=1) for vm in repeats.variant.guests]
    return quantile * float(np.mean(deviations)) / math.sqrt(of)


def lost_to_the_other(repeats: Repeats, vm: str) -> float:
    """Return by what fraction a guest gets less with the other than its rate gives it alone."""
    rate = repeats.variant.guests[vm].rate_max  # type: ignore[index]  # names of guests
    if rate is None:
        return float("nan")
    mine = float(after_warmup(repeats, vm).mean())
    return 1 - mine / (rate * payload_share(repeats))


def payload_share(repeats: Repeats) -> float:
    """Return UDP payload over what netback counts, of a full datagram."""
    return 1472 / repeats.counted_bytes


def share(repeats: Repeats, vm: str = "vm1") -> Series:
    """Return a guest's share of what both get, while both send, shape (repeats, bins)."""
    mine = after_warmup(repeats, vm)
    total = sum(after_warmup(repeats, name) for name in repeats.variant.guests)
    result: Series = mine / np.maximum(total, 1e-9)
    return result


def longest_domination_s(repeats: Repeats) -> float:
    """Return the longest time during which one guest dominates the other by far, s."""
    longest = 0
    for row in share(repeats):
        for dominated in (row >= DOMINATES, row <= 1 - DOMINATES):
            length = 0
            for yes in dominated:
                length = length + 1 if yes else 0
                longest = max(longest, length)
    return longest * repeats.experiment.bin


def max_share(repeats: Repeats) -> float:
    """Return the largest share that one guest has in any bin."""
    shares = share(repeats)
    return float(np.maximum(shares, 1 - shares).max())

"""Measures of isolation: how much one router affects another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def max_min_fair(demands: Sequence[float], capacity: float) -> list[float]:
    """Share `capacity` among `demands` by max-min fairness: more for one means less for a smaller.

    Whoever wants less than an equal part gets all it wants; the rest is divided equally among the
    others (Bertsekas and Gallager, Data Networks, 6.5.2).

    Parameters
    ----------
    demands
        Demand of each router, in any unit, not negative.
    capacity
        Capacity to share, in the same unit.

    Returns
    -------
    list of float
        What each gets, in the order of `demands`; adds up to the smaller of `capacity` and the
        sum of the demands.
    """
    shares = [0.0] * len(demands)
    left = capacity
    order = sorted(range(len(demands)), key=lambda index: demands[index])
    for rank, index in enumerate(order):
        shares[index] = min(demands[index], left / (len(order) - rank))
        left -= shares[index]
    return shares


def share_errors(demands: Sequence[float], served: Sequence[float]) -> list[float] | None:
    """Return by how much each router's share of the forwarded frames differs from its fair share.

    Parameters
    ----------
    demands
        Frames offered to each router.
    served
        Frames that each router forwarded, in the same order.

    Returns
    -------
    list of float or None
        Percentage points, positive for more than fair; they add up to 0. None where a share means
        nothing: fewer than two routers, or nothing served.
    """
    total = sum(served)
    if len(served) < 2 or total <= 0:
        return None
    # A frame that departed before the window may arrive in it, so cap each share at the demand.
    wanted = [max(pair) for pair in zip(demands, served, strict=True)]
    fair = max_min_fair(wanted, total)
    return [100 * (got - due) / total for got, due in zip(served, fair, strict=True)]


def paired_ratios(values: Mapping[int, float], reference: Mapping[int, float]) -> list[float]:
    """Divide each repeat's value by the same repeat's reference.

    Pairing takes the slow drift of a host out of the ratio: what was measured in one round is
    compared with what was measured in the same round.

    Parameters
    ----------
    values, reference
        Repeat number to value, both in the same unit.

    Returns
    -------
    list of float
        One ratio per repeat that has both and whose reference is above zero, by repeat number.
    """
    return [
        values[repeat] / reference[repeat]
        for repeat in sorted(values)
        if reference.get(repeat, 0.0) > 0
    ]

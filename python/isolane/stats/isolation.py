"""Measures of isolation: how much one router affects another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def max_min_fair(
    demands: Sequence[float], capacity: float, weights: Sequence[float] | None = None
) -> list[float]:
    """Share `capacity` among `demands` by weighted max-min fairness.

    Whoever wants less than its part by weight gets all that it wants; the rest is divided among
    the others by weight (Bertsekas and Gallager, Data Networks, 6.5.2; with weights: Keshav, An
    Engineering Approach to Computer Networking, 9.2.1).

    Parameters
    ----------
    demands
        Demand of each router, in any unit, not negative.
    capacity
        Capacity to share, in the same unit.
    weights
        Weight of each router, positive; by default all are equal.

    Returns
    -------
    list of float
        What each gets, in the order of `demands`; adds up to the smaller of `capacity` and the
        sum of the demands.
    """
    weight = [1.0] * len(demands) if weights is None else [float(value) for value in weights]
    shares = [0.0] * len(demands)
    order = sorted(range(len(demands)), key=lambda index: demands[index] / weight[index])
    left = capacity
    for rank, index in enumerate(order):
        total = sum(weight[other] for other in order[rank:])
        shares[index] = min(demands[index], left * weight[index] / total)
        left -= shares[index]
    return shares


def share_errors(
    demands: Sequence[float], served: Sequence[float], weights: Sequence[float] | None = None
) -> list[float] | None:
    """Return by how much each router's share of the forwarded frames differs from its fair share.

    Parameters
    ----------
    demands
        Frames offered to each router.
    served
        Frames that each router forwarded, in the same order.
    weights
        Weight of each router by its policy; by default all are equal.

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
    fair = max_min_fair(wanted, total, weights)
    return [100 * (got - due) / total for got, due in zip(served, fair, strict=True)]


def paired_ratios(values: Mapping[int, float], reference: Mapping[int, float]) -> dict[int, float]:
    """Divide each repeat's value by the same repeat's reference.

    Pairing takes the slow drift of a host out of the ratio: what was measured in one round is
    compared with what was measured in the same round.

    Parameters
    ----------
    values, reference
        Repeat number to value, both in the same unit.

    Returns
    -------
    dict
        Repeat number to ratio, for each repeat that has both and whose reference is above zero.
    """
    return {
        repeat: values[repeat] / reference[repeat]
        for repeat in sorted(values)
        if reference.get(repeat, 0.0) > 0
    }

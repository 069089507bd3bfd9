"""From the capacity trials of a run to what each arm forwards, and to 1x."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Final

from isolane.analysis.delivery import interval
from isolane.analysis.maximum_rate import Maximum, Reading, Span, maximum
from isolane.results.invalid import VALID, InvalidKind
from isolane.results.results import ArmCapacity, Capacity, Trial

SHORT = 0.002
"""A generator that sends so much less than it was asked for has reached its limit."""
SENT_ENOUGH = 0.85
"""Of what was asked for: a router that is overloaded by that is overloaded by the rest."""
OVERLOADED = 0.05
"""A router that loses so much of what was sent is overloaded."""
_LIMITS = frozenset({InvalidKind.RECEIVER_LIMIT, InvalidKind.GENERATOR_LIMIT})
OTHER_WIDTH: Final = 0.05
"""Relative distance of the loads around the best one in the arms that do not define 1x."""
ANY_SPAN: Final = Span(max_pps=1.0)
"""What was found does not depend on how far the search was to go."""
OTHER_SPAN: Final = Span(max_pps=1.0, width=OTHER_WIDTH)
"""As wide as the search in these arms: a narrower one would prefer a single lucky reading to a load
that was confirmed."""


def readings(trials: Iterable[Trial], arm: str) -> list[Reading]:
    """Return what the capacity trials of an arm tell, in their order; failed ones tell nothing."""
    return [
        _reading(trial)
        for trial in trials
        if trial.purpose == "capacity" and trial.arm == arm and trial.routers
    ]


def _reading(trial: Trial) -> Reading:
    router, kinds = trial.routers[0], trial.invalid
    # One frame may fall on either side of the window's end.
    short = router.generated_frames + 1 < (1 - SHORT) * router.offered_frames
    if router.held_up and router.generated_frames:
        # While frames came, they came at the load that was asked for: that time alone counts.
        offered = router.generated_frames / router.offered_frames
        rate_pps = router.received_pps / min(1.0, offered)
        return Reading(router.offered_pps, rate_pps, valid=trial.status == "ok")
    if _limited_beside(trial) and router.received_total:
        # What the receiver had no room for had been forwarded; where it is told, it is in the rate.
        untold = trial.receiver_dropped - (router.receiver_lost or 0)
        there = 1 + untold / router.received_total
        rate_pps = min(router.generated_pps, there * router.received_pps)
        overloaded = rate_pps < (1 - OVERLOADED) * router.generated_pps
        enough = router.generated_frames >= SENT_ENOUGH * router.offered_frames
        whole = not short and InvalidKind.GENERATOR_LIMIT not in (trial.invalid or ())
        if whole or (overloaded and enough):
            return Reading(router.offered_pps, rate_pps)
    # Method 1 did not keep the kinds; it took what the generator could send for overload.
    valid = trial.status == "ok" and (not short or kinds is None)
    alone = short and not valid and set(kinds or ()) <= VALID | {InvalidKind.GENERATOR_LIMIT}
    return Reading(
        load_pps=router.offered_pps,
        rate_pps=router.received_pps,
        valid=valid,
        limit_pps=router.generated_pps if alone else None,
    )


def _limited_beside(trial: Trial) -> bool:
    """Tell whether a trial's only faults are that generator or receiver were at their limit."""
    kinds = set(trial.invalid or ())
    return bool(kinds & _LIMITS) and kinds <= VALID | _LIMITS


def arm_capacities(trials: Sequence[Trial], arms: Iterable[str] = ()) -> tuple[ArmCapacity, ...]:
    """Return what one router alone forwards in each arm that has capacity trials.

    Parameters
    ----------
    trials
        All trials of a run, in order.
    arms
        Arms that come first, in this order.
    """
    measured = {trial.arm: trial for trial in trials if trial.purpose == "capacity"}
    found, first = [], next(iter(measured), None)  # the arm that defines 1x comes before the others
    for arm in dict.fromkeys([*(name for name in arms if name in measured), *measured]):
        best = maximum(readings(trials, arm), ANY_SPAN if arm == first else OTHER_SPAN)
        router = next((t.routers[0].router for t in trials if _of(t, arm)), None)
        if best is not None and router is not None:
            found.append(_capacity(arm, router, best))
    return tuple(found)


def _of(trial: Trial, arm: str) -> bool:
    return trial.purpose == "capacity" and trial.arm == arm and bool(trial.routers)


def _capacity(arm: str, router: str, found: Maximum) -> ArmCapacity:
    rates = interval(found.rates_pps)
    assert rates is not None  # a maximum has at least one rate
    return ArmCapacity(
        arm=arm,
        router=router,
        mfr_pps=rates,
        mfr_load_pps=found.load_pps,
        frmol_pps=median(found.max_load_rates_pps),
        max_load_pps=found.max_load_pps,
        at_least=found.at_least,
        trials=found.valid,
    )


def measured_capacity(trials: Sequence[Trial], arm: str | None = None) -> Capacity | None:
    """Return what 1x is: the maximum forwarding rate (RFC 2285, 3.6.2) of one router in one arm.

    Parameters
    ----------
    trials
        All trials of a run, in order.
    arm
        The arm that defines 1x; None takes the arm of the first capacity trial.

    Returns
    -------
    Capacity or None
        None where no capacity trial of the arm gave a verdict.
    """
    found = arm_capacities(trials)
    chosen = next((one for one in found if arm in (None, one.arm)), None)
    if chosen is None:
        return None
    return one_x(chosen)


def one_x(found: ArmCapacity) -> Capacity:
    """Return what 1x is, from what was found in the arm that defines it."""
    return Capacity(arm=found.arm, router=found.router, pps=found.mfr_pps, at_least=found.at_least)

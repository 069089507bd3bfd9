"""The generator's own maximum in each arm, from the trials that look for it.

Where less leaves than was asked for, it is asked for once more, because the machine may have held
the generator up; then less is, until all of it leaves. What leaves counts, not what arrives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from isolane.analysis import null_dut
from isolane.results.generator_models import GeneratorMaximum, MovedPoint
from isolane.results.results import Capacity, GeneratorAudit, Trial
from isolane.spec import Experiment
from isolane.spec.demands import (
    Demand,
    Scale,
    intended_pps,
    is_moved,
    known_demands,
    line_pps,
    offered_pps,
)

PURPOSE: Final = "generator"
SENT = 0.98
"""A load of which at least this share leaves can be sent."""
LESS = 0.95
"""What is asked for next, over what left: beyond its maximum a generator sends less than that."""
TRIALS = 12
"""In one arm; what the next one would ask for is then taken."""
TRIES = 2
"""Trials of a load before less is asked for."""
SAME = 1e-6
"""Relative difference of loads that are the same."""


def maximum_of(trials: Sequence[Trial]) -> GeneratorMaximum | None:
    """Return what these trials found, of arms whose search has ended; None where none has.

    Parameters
    ----------
    trials
        All trials of a run.
    """
    arms = dict.fromkeys(trial.arm for trial in trials if trial.purpose == PURPOSE)
    by_arm = {arm: sendable_pps(own) for arm in arms if is_known(own := audits_of(trials, arm))}
    return GeneratorMaximum(by_arm=by_arm) if by_arm else None


def audits_of(trials: Sequence[Trial], arm: str) -> list[GeneratorAudit]:
    """Return what the generator did in the trials of an arm that look for its maximum."""
    return [
        trial.generator
        for trial in trials
        if trial.purpose == PURPOSE and trial.arm == arm and trial.generator is not None
    ]


def is_known(audits: Sequence[GeneratorAudit]) -> bool:
    """Tell whether trials have shown what can be sent."""
    return len(audits) >= TRIALS or any(map(_whole, audits))


def _whole(audit: GeneratorAudit) -> bool:
    return audit.achieved_pps >= SENT * audit.requested_pps


def sendable_pps(audits: Sequence[GeneratorAudit]) -> float:
    """Return the highest load that can be sent, or the next one to try, frames/s."""
    whole = [audit.requested_pps for audit in audits if _whole(audit)]
    if whole:
        return max(whole)
    # Each of them asked for too much, so none can have been more than the maximum.
    lowest = min(audit.requested_pps for audit in audits)
    tries = sum(audit.requested_pps <= lowest * (1 + SAME) for audit in audits)
    if tries < TRIES:
        return lowest
    return LESS * min(lowest, max(audit.achieved_pps for audit in audits))


def scale_of(experiment: Experiment, trials: Sequence[Trial], capacity: Capacity | None) -> Scale:
    """Return what the loads of a run refer to, as far as its trials tell."""
    found = maximum_of(trials)
    line = line_pps(experiment) if experiment.needs_maximum else None
    one_x = capacity.pps.median if capacity else None
    if found is None:
        return Scale(one_x, {}, line)
    # Wires alone, for the floor of the delays, carry what every arm does.
    wires = {null_dut.ARM: min(found.by_arm.values())}
    return Scale(one_x, found.by_arm | wires, line)


def placed(
    experiment: Experiment, trials: Sequence[Trial], capacity: Capacity | None
) -> tuple[Scale, tuple[MovedPoint, ...]]:
    """Return what the loads of a run refer to, and which points that moves."""
    scale = scale_of(experiment, trials, capacity)
    return scale, moved_points(experiment, scale)


def moved_points(experiment: Experiment, scale: Scale) -> tuple[MovedPoint, ...]:
    """Return the points whose loads are lower than the experiment asks for."""
    found = []
    for arm in experiment.resolved_arms():
        for point in experiment.points():
            known = known_demands(experiment, point, scale, arm.name)
            demands = [demand for demand in known if demand is not None]
            if is_moved(demands):
                found.append(_moved(arm.name, point.index, point.label, demands))
    return tuple(found)


def _moved(arm: str, point: int, label: str, demands: Sequence[Demand]) -> MovedPoint:
    attack = [demand.load_x for demand in demands if demand.router.role == "aggressor"]
    known = [load for load in attack if load is not None]
    return MovedPoint(
        arm=arm,
        point=point,
        point_label=label,
        intended_pps=intended_pps(demands),
        offered_pps=offered_pps(demands),
        aggressor_x=sum(known) if known and len(known) == len(attack) else None,
    )

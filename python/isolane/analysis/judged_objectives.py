"""Judges an experiment's objectives by its cells. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from isolane.results.missing import MissingPoint
from isolane.results.objective_models import ObjectiveFinding, Outcome
from isolane.results.results import Cell, Interval
from isolane.spec import Experiment
from isolane.spec.objectives import Objective, ObjectiveMetric

_FIGURES: Final[dict[ObjectiveMetric, Callable[[Cell], Interval | None]]] = {
    "delivered": lambda cell: cell.delivered,
    "retained": lambda cell: cell.retained,
    "loss": lambda cell: cell.loss_ratio,
    "throughput": lambda cell: cell.throughput_pps,
    "p50": lambda cell: cell.delay_p50_ns,
    "p90": lambda cell: cell.delay_p90_ns,
    "p99": lambda cell: cell.delay_p99_ns,
    "p999": lambda cell: cell.delay_p999_ns,
    "max": lambda cell: cell.delay_max_ns,
}

DELAYS: Final[frozenset[ObjectiveMetric]] = frozenset({"p50", "p90", "p99", "p999", "max"})


def judged_objectives(
    experiment: Experiment, cells: Sequence[Cell], missing: Sequence[MissingPoint] = ()
) -> Iterator[ObjectiveFinding]:
    """Yield what became of each objective, arm by arm.

    Parameters
    ----------
    cells
        Of all arms.
    missing
        Points that were asked for and gave nothing: there no objective is met.
    """
    for objective in experiment.objectives:
        for arm in objective.arms or [arm.name for arm in experiment.resolved_arms()]:
            lacking = any(_asked_of(objective, point) for point in missing if point.arm == arm)
            own = [cell for cell in cells if cell.arm == arm]
            yield _in_arm(objective, arm, own, unknown=lacking)


def _asked_of(objective: Objective, point: MissingPoint) -> bool:
    return any(
        objective.router in (router.router, router.group) and router.offered_pps != 0
        for router in point.routers
    )


def _in_arm(
    objective: Objective, arm: str, cells: Sequence[Cell], *, unknown: bool
) -> ObjectiveFinding:
    found: list[tuple[Cell, Interval]] = []
    for cell in cells:
        if objective.router not in (cell.router, cell.group) or not cell.offered_pps.median:
            continue
        if _is_compared(objective) and cell.reference is None:
            continue  # the point that others are compared with
        figure = _figure(objective, cell)
        unknown = unknown or figure is None
        if figure is not None:
            found.append((cell, figure))
    if not found:
        return ObjectiveFinding(objective=objective.text, arm=arm, outcome="not measured")
    outcomes = [_outcome(objective, figure) for _, figure in found]
    outcome: Outcome = "met"
    if "missed" in outcomes:
        outcome = "missed"
    elif unknown or "undecided" in outcomes:
        outcome = "undecided"
    # Told is the worst of those that decide; of equal ones the last: loads mostly rise.
    deciding = [pair for pair, own in zip(found, outcomes, strict=True) if own == outcome] or found
    worst = max if objective.at_most else min
    cell, figure = worst(reversed(deciding), key=lambda pair: pair[1].median)
    return ObjectiveFinding(
        objective=objective.text,
        arm=arm,
        outcome=outcome,
        router=cell.router,
        point_label=cell.point_label,
        figure=figure,
    )


def _is_compared(objective: Objective) -> bool:
    return objective.relative or objective.metric == "retained"


def _figure(objective: Objective, cell: Cell) -> Interval | None:
    found = cell.delay_inflation if objective.relative else _FIGURES[objective.metric](cell)
    if found is None and objective.metric in DELAYS and not cell.throughput_pps.high:
        late = dict.fromkeys(("median", "low", "high"), math.inf)  # none arrived in any round
        return cell.throughput_pps.model_copy(update=late)
    return found


def _outcome(objective: Objective, figure: Interval) -> Outcome:
    if objective.metric == "max":  # the largest of all, whose `low` is that of the best round
        return "met" if objective.holds(figure.high) else "missed"
    if figure.units < 2:
        return "undecided"  # one value has no interval
    ends = {objective.holds(figure.low), objective.holds(figure.high)}
    if ends == {True}:
        return "met"
    return "missed" if ends == {False} else "undecided"

"""The finding for each arm: was its victim isolated?

The only place that decides it. What is judged is the share of the offered frames that is
*delivered* to the victim under attack, and of that the interval, not the median: an arm is called
isolated only if the interval's lower end meets the bar at every point, and not isolated only if
its upper end misses the lower bar at some point. Between the two the run has not decided.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from isolane.analysis import wording
from isolane.analysis.attacked_points import AttackedPoint
from isolane.analysis.cells import sent_pps
from isolane.analysis.delivery import LOST, same_load
from isolane.analysis.flow_words import flow_of
from isolane.results.missing import MissingPoint, in_arm
from isolane.results.results import ArmVerdict, Capacity, Cell, Finding, Verdict

GOOD = 0.99
"""A victim to which at least this share is delivered is well isolated ..."""

BAD = 0.95
"""... and one to which less than this is delivered is not."""

SLOW = 2.0
"""Of web requests hardly any is lost, but all are late: a victim whose p99 is more than so many
times that alone is not isolated."""

ROUNDS = 5
"""So many rounds have an interval that decides about it: of six and more it holds 95 %."""


@dataclass(frozen=True)
class Asked:
    """What the experiment asked for, and the points under attack that gave a result."""

    arms: Sequence[str] = ()
    missing: Sequence[MissingPoint] = ()
    attacked: Mapping[str, Sequence[AttackedPoint]] = field(default_factory=dict)


def by_arm(
    cells: Sequence[Cell], capacity: Capacity | None, asked: Asked
) -> tuple[ArmVerdict, ...]:
    """Judge each arm that has a victim by itself."""
    with_victim = {cell.arm for cell in cells if cell.role == "victim"}
    with_victim |= {point.arm for point in asked.missing if has_victim(point)}
    names = [*asked.arms, *(cell.arm for cell in cells)]
    idle = never_overloaded(cells, capacity) is not None
    return tuple(
        _judged(arm, cells, asked, idle=idle) for arm in dict.fromkeys(names) if arm in with_victim
    )


def _judged(arm: str, cells: Sequence[Cell], asked: Asked, *, idle: bool) -> ArmVerdict:
    points = asked.attacked.get(arm, ())
    own = [cell for cell in cells if cell.arm == arm]
    gaps = in_arm(asked.missing, arm)
    complete = bool(points) and not gaps and not unpaired(own, gaps)
    finding = _finding(points, complete=complete, idle=idle)
    if not points:
        return ArmVerdict(arm=arm, finding=finding)
    found = worst(points)
    bounds = found.delivered
    inflations = [point.cell.delay_inflation for point in points if point.cell.mode == "http"]
    return ArmVerdict(
        arm=arm,
        finding=finding,
        inflation=max(filter(None, inflations), key=lambda one: one.median, default=None),
        delivered=found.shown if bounds is not None else None,
        point_label=found.cell.point_label,
        points=len(points),
        exact=bounds.exact if bounds is not None else None,
    )


def _finding(points: Sequence[AttackedPoint], *, complete: bool, idle: bool) -> Finding:
    if any(_harmed(point) for point in points):
        return "not isolated"  # missing points cannot improve on that
    if not complete:
        return "no verdict"
    low = min(map(_low, points))
    if low < BAD:
        # What is lost at the reference point, too, is not the aggressor's doing.
        alone = any(point.cell.retained_reason for point in points if _low(point) < BAD)
        return "overloaded alone" if alone else "undecided"
    if not all(map(_surely_prompt, points)):
        return "undecided"
    if low < GOOD:
        return "nearly isolated"
    return "never overloaded" if idle else "isolated"


def _harmed(point: AttackedPoint) -> bool:
    """Tell whether the attack surely cost the victim more than the lower bar allows.

    Where the victim loses frames at the reference point already, only what it has less than there
    in the same round counts.
    """
    bounds = point.kept if point.cell.retained_reason else point.delivered
    return (bounds is not None and bounds.high < BAD) or _surely_late(point.cell)


def _surely_late(cell: Cell) -> bool:
    inflation = cell.delay_inflation if cell.mode == "http" else None
    return inflation is not None and inflation.units >= ROUNDS and inflation.low > SLOW


def _surely_prompt(point: AttackedPoint) -> bool:
    if point.cell.mode != "http":
        return True
    inflation = point.cell.delay_inflation
    return inflation is not None and inflation.units >= ROUNDS and inflation.high <= SLOW


def worst(points: Sequence[AttackedPoint]) -> AttackedPoint:
    """Return the point that the finding rests on: the one with the least delivered.

    Looked for among the points that keep the arm from a better finding, if there are any. Of points
    that are the same to a thousandth, the one whose interval reaches lowest; then the one under the
    heaviest attack.
    """
    return min(
        _decisive(points),
        key=lambda p: (round(p.shown.median, 3), p.shown.low, _lightest_last(p.cell)),
    )


def _lightest_last(cell: Cell) -> tuple[int, float]:
    working, pps = cell.attack
    return -working, -pps


def _decisive(points: Sequence[AttackedPoint]) -> Sequence[AttackedPoint]:
    harmed = [point for point in points if _harmed(point)]
    missed = ([point for point in points if _low(point) < bar] for bar in (BAD, GOOD))
    late = [point for point in points if not _surely_prompt(point)]
    return next(filter(None, (harmed, *missed, late)), points)


def _low(point: AttackedPoint) -> float:
    return point.delivered.low if point.delivered else 0.0


def worst_by_arm(attacked: Mapping[str, Sequence[AttackedPoint]]) -> list[AttackedPoint]:
    """Return the worst point of each arm, the worst arm first."""
    return sorted(map(worst, attacked.values()), key=lambda point: point.shown.median)


def by_finding(verdict: Verdict) -> list[tuple[Finding, list[str]]]:
    """Return the arms of each finding, the best finding first."""
    found: dict[Finding, list[str]] = {}
    for finding in get_args(Finding):
        arms = [arm.arm for arm in verdict.arms if arm.finding == finding]
        if arms:
            found[finding] = arms
    return list(found.items())


def _is_victim(cell: Cell) -> bool:
    return cell.role == "victim"


def has_victim(point: MissingPoint) -> bool:
    """Tell whether a point that gave nothing was about a victim."""
    return any(router.role == "victim" for router in point.routers)


def unpaired(cells: Sequence[Cell], missing: Sequence[MissingPoint]) -> list[Cell]:
    """Return the victims' cells of one arm that could not be compared with their reference.

    Their reference point is missing, or no round gave a result at both points.
    """
    return [cell for cell in cells if _is_victim(cell) and _lacks_reference(cell, cells, missing)]


def _lacks_reference(cell: Cell, cells: Sequence[Cell], missing: Sequence[MissingPoint]) -> bool:
    if cell.retained is not None or cell.retained_reason is not None:
        return False
    offered_pps = cell.offered_pps.median
    attacks = [
        other.attack
        for other in cells
        if other.router == cell.router and same_load(other.offered_pps.median, offered_pps)
    ]
    for point in missing:
        router = point.named(cell.router)
        pps = router.offered_pps if router else None
        if pps is not None and same_load(pps, offered_pps) and not point.closed:
            attacks.append(point.attack)
    return len(attacks) > 1 and cell.attack > min(attacks)


def _is_short(cell: Cell) -> bool:
    """Tell whether a router lost something, or answered fewer requests than it was asked."""
    if cell.closed:
        return True  # it was asked for as much as it answers
    if cell.mode == "http" and cell.throughput_pps.high < (1 - LOST) * sent_pps(cell):
        return True  # they were answered when the load had ended
    return cell.loss_ratio is not None and cell.loss_ratio.high > LOST


def never_overloaded(cells: Sequence[Cell], capacity: Capacity | None) -> str | None:
    """Return why the host was never overloaded although the experiment meant to; None if it was.

    An experiment means to overload if it has aggressors and, where 1x is known, offers more than
    1x in all.
    """
    if not any(cell.role == "aggressor" for cell in cells):
        return None
    if any(_is_short(cell) or cell.working for cell in cells):
        return None  # work takes all of a core that it can get
    offered: dict[tuple[str, int], float] = defaultdict(float)
    for cell in cells:
        offered[cell.arm, cell.point] += sent_pps(cell)
    max_pps = max(offered.values())
    if capacity is None:
        rate = flow_of(cell.mode for cell in cells).rate(max_pps)
        return f"up to {rate} were offered in all and nothing was lost on any arm"
    if max_pps <= capacity.pps.median:
        return None
    return (
        f"up to {wording.multiple(max_pps / capacity.pps.median)} the capacity was offered in all "
        "and nothing was lost on any arm"
    )

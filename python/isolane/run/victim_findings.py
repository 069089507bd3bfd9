"""The finding for each arm: was its victim isolated?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from isolane.run import wording
from isolane.run.cells import same_load, sent_less
from isolane.run.missing import MissingPoint, in_arm
from isolane.run.results import ArmVerdict, Capacity, Cell, Finding, Interval, Verdict
from isolane.spec.units import format_pps

GOOD = 0.99
"""A victim that retains this much in every arm is well isolated ..."""

BAD = 0.95
"""... and one that retains less than this in any arm is not."""

LOST = 0.001
"""A router with a higher loss ratio was overloaded."""


@dataclass(frozen=True)
class Asked:
    """What the experiment asked for; needed to tell which points are missing."""

    arms: Sequence[str] = ()
    missing: Sequence[MissingPoint] = ()


def by_arm(
    cells: Sequence[Cell], capacity: Capacity | None, asked: Asked
) -> tuple[ArmVerdict, ...]:
    """Judge each arm that has a victim by itself."""
    with_victim = {cell.arm for cell in cells if cell.role == "victim"}
    with_victim |= {point.arm for point in asked.missing if has_victim(point)}
    names = [*asked.arms, *(cell.arm for cell in cells)]
    worst = {cell.arm: kept for cell, kept in worst_by_arm([c for c in cells if _is_victim(c)])}
    idle = never_overloaded(cells, capacity) is not None
    return tuple(
        ArmVerdict(arm=arm, finding=_finding(arm, worst.get(arm), cells, asked.missing, idle=idle))
        for arm in dict.fromkeys(names)
        if arm in with_victim
    )


def _finding(
    arm: str,
    kept: Interval | None,
    cells: Sequence[Cell],
    missing: Sequence[MissingPoint],
    *,
    idle: bool,
) -> Finding:
    own = [cell for cell in cells if cell.arm == arm]
    if kept is not None and kept.median < BAD:
        return "not isolated"  # missing points cannot improve on that
    if kept is None or in_arm(missing, arm) or unpaired(own, in_arm(missing, arm)):
        return "no verdict"
    if kept.median < GOOD:
        return "nearly isolated"
    if any(sent_less(cell) for cell in own if cell.role == "aggressor"):
        return "attack incomplete"  # the victim was not attacked as planned
    return "never overloaded" if idle else "isolated"


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
    if cell.retained is not None:
        return False
    offered_pps = cell.offered_pps.median
    attacks = [
        other.aggressor_pps or 0
        for other in cells
        if other.router == cell.router and same_load(other.offered_pps.median, offered_pps)
    ]
    for point in missing:
        router = point.named(cell.router)
        pps = router.offered_pps if router else None
        if pps is not None and same_load(pps, offered_pps):
            attacks.append(point.aggressor_pps or 0)
    return len(attacks) > 1 and (cell.aggressor_pps or 0) > min(attacks)


def never_overloaded(cells: Sequence[Cell], capacity: Capacity | None) -> str | None:
    """Return why the host was never overloaded although the experiment meant to; None if it was.

    An experiment means to overload if it has aggressors and, where 1x is known, offers more than
    1x in all.
    """
    if not any(cell.role == "aggressor" for cell in cells):
        return None
    if any(cell.loss_ratio is not None and cell.loss_ratio.high > LOST for cell in cells):
        return None
    offered: dict[tuple[str, int], float] = defaultdict(float)
    for cell in cells:
        offered[cell.arm, cell.point] += cell.offered_pps.median
    max_pps = max(offered.values())
    if capacity is None:
        return f"up to {format_pps(max_pps)} were offered in all and nothing was lost on any arm"
    if max_pps <= capacity.pps.median:
        return None
    return (
        f"up to {wording.multiple(max_pps / capacity.pps.median)} the capacity was offered in all "
        "and nothing was lost on any arm"
    )


def worst_by_arm(cells: Sequence[Cell]) -> list[tuple[Cell, Interval]]:
    """Return for each arm the cell in which a victim retains least; the worst arm first.

    The reference point, at which a victim retains all by definition, does not count.
    """
    found: dict[str, tuple[Cell, Interval]] = {}
    for cell in cells:
        if cell.retained is None or _is_reference(cell, cells):
            continue
        known = found.get(cell.arm)
        if known is None or _rank(cell, cell.retained) < _rank(*known):
            found[cell.arm] = (cell, cell.retained)
    return sorted(found.values(), key=lambda pair: pair[1].median)


def _rank(cell: Cell, kept: Interval) -> tuple[float, float]:
    """Rank the worst first; of equals the one under the heaviest attack."""
    return kept.median, -(cell.aggressor_pps or 0)


def _is_reference(cell: Cell, cells: Sequence[Cell]) -> bool:
    min_pps = min(
        c.aggressor_pps or 0 for c in cells if c.arm == cell.arm and c.retained is not None
    )
    return (cell.aggressor_pps or 0) <= min_pps

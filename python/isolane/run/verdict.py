"""The run in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from isolane.run import wording
from isolane.run.cells import sent_less
from isolane.run.results import Aggregate, Capacity, Cell, Interval, Trial, Verdict
from isolane.spec.units import format_pps

GOOD = 0.99
"""A victim that retains this much in every arm is well isolated ..."""

BAD = 0.95
"""... and one that retains less than this in any arm is not."""


def verdict(
    trials: Sequence[Trial],
    cells: Sequence[Cell],
    aggregates: Sequence[Aggregate],
    capacity: Capacity | None,
) -> Verdict:
    """Say what the run found: about its victims if it has any, else about throughput.

    Parameters
    ----------
    trials
        All trials, also those that failed: they explain a missing verdict.
    cells, aggregates, capacity
        What was made of the trials that gave a verdict.
    """
    if not cells:
        return Verdict(sentence=_nothing(trials), level="none")
    victims = [cell for cell in cells if cell.role == "victim"]
    if not victims:
        return Verdict(sentence=_throughput(aggregates, capacity), level="neutral")
    worst = worst_by_arm(victims)
    if not worst:
        sentence = (
            "No verdict: there are no two points at which the victim is offered the same and "
            "the aggressors are not, so there is nothing to compare it with."
        )
        return Verdict(sentence=sentence, level="none")
    kept = [interval.median for _, interval in worst]
    short = any(sent_less(cell) for cell in cells if cell.role == "aggressor")
    level = "bad" if min(kept) < BAD else "good" if min(kept) >= GOOD else "neutral"
    if short and level == "good":
        level = "neutral"  # who was not attacked as planned has not stood the attack
    sentence = _attack(worst) if min(kept) < GOOD else _stood(worst)
    caution = _caution(worst, short=short)
    return Verdict.model_validate({"sentence": sentence + caution, "level": level})


def worst_by_arm(cells: Sequence[Cell]) -> list[tuple[Cell, Interval]]:
    """In each arm, the cell in which a victim retains least; the worst arm first.

    The reference point, at which a victim retains all by definition, does not count.
    """
    found: dict[str, tuple[Cell, Interval]] = {}
    for cell in cells:
        if cell.retained is None or _is_reference(cell, cells):
            continue
        known = found.get(cell.arm)
        if known is None or cell.retained.median < known[1].median:
            found[cell.arm] = (cell, cell.retained)
    return sorted(found.values(), key=lambda pair: pair[1].median)


def _is_reference(cell: Cell, cells: Sequence[Cell]) -> bool:
    least = min(c.aggressor_pps or 0 for c in cells if c.arm == cell.arm and c.retained is not None)
    return (cell.aggressor_pps or 0) <= least


def _load(cell: Cell) -> str:
    if cell.aggressor_x is not None:
        return f"{wording.multiple(cell.aggressor_x)} the capacity"
    return format_pps(cell.aggressor_pps or 0)


def _attack(worst: Sequence[tuple[Cell, Interval]]) -> str:
    cell, kept = worst[0]
    first = (
        f"On {cell.arm}, an aggressor offered {_load(cell)} leaves {_victim(cell)} "
        f"{wording.share(kept, ' of its throughput alone')}"
    )
    others = [f"on {arms} it keeps {kept}" for kept, arms in _by_share(worst[1:])]
    return f"{first}; {wording.listing(others)}." if others else f"{first}."


def _by_share(worst: Sequence[tuple[Cell, Interval]]) -> list[tuple[str, str]]:
    """Arms that keep the same, as it is written, are named together."""
    arms: dict[str, list[str]] = {}
    for cell, kept in worst:
        arms.setdefault(wording.share(kept), []).append(cell.arm)
    return [(kept, wording.listing(names)) for kept, names in arms.items()]


def _victim(cell: Cell) -> str:
    return "the victim" if cell.router == "victim" else f"the victim {cell.router}"


def _stood(worst: Sequence[tuple[Cell, Interval]]) -> str:
    heaviest = max((cell for cell, _ in worst), key=lambda cell: cell.aggressor_pps or 0)
    parts = [f"{kept} on {arms}" for kept, arms in _by_share(worst)]
    return (
        f"The victim keeps its throughput even where it does worst, with an aggressor offered "
        f"{_load(heaviest)}: {wording.listing(parts)}."
    )


def _caution(worst: Sequence[tuple[Cell, Interval]], *, short: bool) -> str:
    text = ""
    if short:
        text = " (At some points the generator could not send the aggressor's whole load.)"
    if all(kept.n < 2 for _, kept in worst):
        text += " (One repeat only: there is no confidence interval.)"
    return text


def _nothing(trials: Sequence[Trial]) -> str:
    measured = [trial for trial in trials if trial.purpose == "measure"]
    bad = measured or [trial for trial in trials if trial.status != "ok"]
    if not bad:
        return "No verdict: no trial was run."
    reason = next((trial.reason for trial in bad if trial.reason), "no router was measured")
    return (
        f"No verdict: of {wording.plural(len(bad), 'trial')} none can be used, "
        f"the first because: {reason.rstrip('.')}."
    )


def _throughput(aggregates: Sequence[Aggregate], capacity: Capacity | None) -> str:
    best: dict[str, Aggregate] = {}
    for found in aggregates:
        known = best.get(found.arm)
        if known is None or _rank(found) > _rank(known):
            best[found.arm] = found
    if len({found.routers for found in aggregates}) > 1:
        parts = [_together(found, capacity) for found in best.values()]
        return f"{_sentence(parts)}."
    parts = [f"{found.arm} {_rate(found.throughput_pps)}" for found in best.values()]
    routers = wording.plural(next(iter(best.values())).routers, "router")
    return f"The most that is forwarded through {routers}: {wording.listing(parts)}."


def _rank(found: Aggregate) -> tuple[int, float]:
    return found.routers, found.throughput_pps.median


def _together(found: Aggregate, capacity: Capacity | None) -> str:
    text = (
        f"on {found.arm}, {wording.plural(found.routers, 'router')} together forward "
        f"{_rate(found.throughput_pps)}"
    )
    if capacity is None or found.throughput_x is None:
        return text
    return (
        f"{text}, {wording.percent(found.throughput_x.median)} % of the "
        f"{format_pps(capacity.pps.median)} that one router alone forwards on {capacity.arm}"
    )


def _rate(interval: Interval) -> str:
    if interval.n < 2:
        return format_pps(interval.median)
    low, high = format_pps(interval.low), format_pps(interval.high)
    if low.split()[1] == high.split()[1] == format_pps(interval.median).split()[1]:
        low, high = low.split()[0], high.split()[0]
    return f"{format_pps(interval.median)} [{low}, {high}]"


def _sentence(parts: Sequence[str]) -> str:
    text = "; ".join(parts)
    return text[:1].upper() + text[1:]

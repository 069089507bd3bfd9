"""The verdict: a run's result in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from isolane.run import wording
from isolane.run.cells import sent_less
from isolane.run.missing import MissingPoint, in_arm
from isolane.run.results import Aggregate, ArmVerdict, Capacity, Cell, Interval, Trial, Verdict
from isolane.run.victim_findings import (
    GOOD,
    Asked,
    by_arm,
    has_victim,
    never_overloaded,
    unpaired,
    worst_by_arm,
)
from isolane.spec.units import format_pps

MAX_NAMED = 3
"""Groups of points without a verdict that the sentence names; the table has them all."""


def verdict(
    trials: Sequence[Trial],
    cells: Sequence[Cell],
    aggregates: Sequence[Aggregate],
    capacity: Capacity | None,
    asked: Asked | None = None,
) -> Verdict:
    """Say what the run found: about its victims if it has any, else about throughput.

    Parameters
    ----------
    trials
        All trials, also those that failed: they explain a missing verdict.
    cells, aggregates, capacity
        Results of the valid trials.
    asked
        The arms of the experiment, and the points that gave nothing: an arm with such a point is
        never called isolated, and the sentence begins with them.
    """
    asked = asked or Asked()
    victims = [cell for cell in cells if cell.role == "victim"]
    arms = by_arm(cells, capacity, asked)
    if not cells:
        return Verdict(sentence=_nothing(trials), level="none", arms=arms)
    gaps = missing_words(cells, asked.missing)
    if not victims and not any(has_victim(point) for point in asked.missing):
        sentence = f"{gaps}{_throughput(aggregates, capacity)}"
        return Verdict(sentence=sentence, level="neutral")
    worst = worst_by_arm(victims)
    if not worst:
        sentence = gaps or (
            "No verdict: there are no two points at which the victim is offered the same and "
            "the aggressors are not, so there is nothing to compare it with."
        )
        return Verdict(sentence=sentence.strip(), level="none", arms=arms)
    kept = [interval.median for _, interval in worst]
    sentence = _attack(worst) if min(kept) < GOOD else _stood(victims, worst, complete=not gaps)
    caution = _caution(cells, worst, capacity)
    return Verdict(sentence=f"{gaps}{sentence}{caution}", level=_level(arms), arms=arms)


def _level(arms: Sequence[ArmVerdict]) -> Literal["good", "bad", "neutral", "none"]:
    found = {arm.finding for arm in arms}
    if "not isolated" in found:
        return "bad"
    if found == {"isolated"}:
        return "good"
    return "none" if found <= {"no verdict"} else "neutral"


def missing_points(missing: Sequence[MissingPoint]) -> list[str]:
    """Say at which points there is no verdict, and why; the heaviest attack first."""
    groups: dict[tuple[str, str], list[str]] = {}
    for point in sorted(missing, key=lambda point: -(point.aggressor_pps or 0)):
        groups.setdefault((point.point_label, point.why), []).append(point.arm)
    return [
        f"No verdict at {label} on {wording.listing(arms)}: {why}."
        for (label, why), arms in groups.items()
    ]


def missing_words(cells: Sequence[Cell], missing: Sequence[MissingPoint]) -> str:
    """Say at which points there is no verdict, in a few sentences at most."""
    parts = missing_points(missing)
    if len(parts) > MAX_NAMED:
        parts = [
            *parts[:MAX_NAMED],
            "Further points without a verdict are in the table.",
        ]
    for arm in dict.fromkeys(cell.arm for cell in cells):
        lone = unpaired([c for c in cells if c.arm == arm], in_arm(missing, arm))
        if lone:
            labels = wording.listing(list(dict.fromkeys(cell.point_label for cell in lone)))
            parts.append(
                f"No verdict at {labels} on {arm}: what the victim has there is compared with "
                "its throughput alone, and no round gave a result at both."
            )
    return "".join(f"{part} " for part in parts)


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
    """Group arms whose victims keep the same share, as it is written."""
    arms: dict[str, list[str]] = {}
    for cell, kept in worst:
        arms.setdefault(wording.share(kept), []).append(cell.arm)
    return [(kept, wording.listing(names)) for kept, names in arms.items()]


def _victim(cell: Cell) -> str:
    return "the victim" if cell.router == "victim" else f"the victim {cell.router}"


def _stood(
    victims: Sequence[Cell], worst: Sequence[tuple[Cell, Interval]], *, complete: bool
) -> str:
    tried = (cell for cell in victims if cell.retained is not None)
    heaviest = max(tried, key=lambda cell: cell.aggressor_pps or 0)
    parts = [f"{kept} on {arms}" for kept, arms in _by_share(worst)]
    if not complete:
        return (
            "At the points that gave a verdict the victim keeps its throughput: "
            f"{wording.listing(parts)}."
        )
    return (
        "The victim keeps its throughput even where it does worst, with an aggressor offered up "
        f"to {_load(heaviest)}: {wording.listing(parts)}."
    )


def _caution(
    cells: Sequence[Cell], worst: Sequence[tuple[Cell, Interval]], capacity: Capacity | None
) -> str:
    text = ""
    if any(sent_less(cell) for cell in cells if cell.role == "aggressor"):
        text = " (At some points the generator could not send the aggressor's whole load.)"
    idle = never_overloaded(cells, capacity)
    if idle:
        text += (
            f" (The host was never overloaded: {idle}, so isolation was not put to the test. "
            "Offer the aggressor more.)"
        )
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

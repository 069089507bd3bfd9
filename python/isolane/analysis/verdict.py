"""The verdict: a run's result in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from isolane.analysis import wording
from isolane.analysis.attacked_points import AttackedPoint
from isolane.analysis.cells import sent_less
from isolane.analysis.delivery import LOST
from isolane.analysis.flow_words import REQUESTS, Flow, flow_of
from isolane.analysis.victim_findings import (
    GOOD,
    Asked,
    by_arm,
    has_victim,
    never_overloaded,
    unpaired,
    worst_by_arm,
)
from isolane.results.missing import MissingPoint, in_arm
from isolane.results.results import (
    Aggregate,
    ArmVerdict,
    Capacity,
    Cell,
    Interval,
    Trial,
    Verdict,
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
        The arms of the experiment, the points under attack, and the points that gave nothing: an
        arm with such a point is never called isolated, and the sentence begins with them.
    """
    asked = asked or Asked()
    victims = [cell for cell in cells if cell.role == "victim"]
    arms = by_arm(cells, capacity, asked)
    if not cells:
        return Verdict(sentence=_nothing(trials), level="none", arms=arms)
    gaps = missing_words(cells, asked.missing)
    if not victims and not any(has_victim(point) for point in asked.missing):
        flow = flow_of(cell.mode for cell in cells)
        sentence = f"{gaps}{_throughput(aggregates, capacity, flow)}"
        return Verdict(sentence=sentence, level="neutral")
    worst = worst_by_arm(asked.attacked)
    if not worst:
        sentence = gaps or (
            "No verdict: there are no two points at which the victim is offered the same and "
            "the aggressors are not, so there is nothing to compare it with."
        )
        return Verdict(sentence=sentence.strip(), level="none", arms=arms)
    served = worst[0].shown.median >= GOOD
    sentence = _stood(asked, worst, complete=not gaps) if served else _attack(worst)
    if served and any(arm.inflation is not None for arm in arms):
        sentence = _late(arms)
    more = f"{_refused(worst)}{_undecided(arms)}{_caution(cells, worst, capacity)}"
    return Verdict(sentence=f"{gaps}{sentence}{more}", level=_level(arms), arms=arms)


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
    for point in sorted(missing, key=lambda point: point.attack, reverse=True):
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
    load = flow_of([cell.mode]).rate(cell.aggressor_pps or 0)
    if cell.aggressor_x is not None:
        load = f"{wording.multiple(cell.aggressor_x)} the capacity"
    return f"{load} and working besides" if cell.working else load


def _attack(worst: Sequence[AttackedPoint]) -> str:
    cell = worst[0].cell
    got = wording.share(worst[0].shown, " of what it is offered")
    first = f"On {cell.arm}, an aggressor offered {_load(cell)} leaves {_victim(cell)} {got}"
    others = [f"on {arms} it gets {share}" for share, arms in _by_share(worst[1:])]
    return f"{first}; {wording.listing(others)}." if others else f"{first}."


def _by_share(worst: Sequence[AttackedPoint]) -> list[tuple[str, str]]:
    """Group arms whose victims get the same share, as it is written."""
    arms: dict[str, list[str]] = {}
    for point in worst:
        arms.setdefault(wording.share(point.shown), []).append(point.cell.arm)
    return [(share, wording.listing(names)) for share, names in arms.items()]


def _victim(cell: Cell) -> str:
    return "the victim" if cell.router == "victim" else f"the victim {cell.router}"


def _stood(asked: Asked, worst: Sequence[AttackedPoint], *, complete: bool) -> str:
    tried = (point.cell for points in asked.attacked.values() for point in points)
    heaviest = max(tried, key=lambda cell: cell.attack)
    parts = [f"{share} on {arms}" for share, arms in _by_share(worst)]
    if not complete:
        return (
            "At the points that gave a verdict the victim gets what it is offered: "
            f"{wording.listing(parts)}."
        )
    return (
        "The victim gets what it is offered even where it does worst, with an aggressor offered "
        f"up to {_load(heaviest)}: {wording.listing(parts)}."
    )


def _late(arms: Sequence[ArmVerdict]) -> str:
    """Say how much longer web requests take, which is what their arms are judged by."""
    parts = [f"{_times(arm.inflation)} on {arm.arm}" for arm in arms if arm.inflation is not None]
    return f"The victim is answered; at worst its p99 is that alone times {wording.listing(parts)}."


def _times(inflation: Interval) -> str:
    low, high = wording.digits(inflation.low), wording.digits(inflation.high)
    return f"{wording.digits(inflation.median)} [{low}, {high}]"


def _refused(worst: Sequence[AttackedPoint]) -> str:
    """Say on which arms the victim is overloaded without an attack."""
    arms = [point.cell.arm for point in worst if point.cell.retained_reason]
    if not arms:
        return ""
    many = flow_of(point.cell.mode for point in worst).many
    return (
        f" What the victim retains of its throughput alone is not told on {wording.listing(arms)}: "
        f"more than {wording.percent(LOST)} % of its {many} are lost there without the attack."
    )


def _undecided(arms: Sequence[ArmVerdict]) -> str:
    names = [arm.arm for arm in arms if arm.finding == "undecided" and arm.delivered is not None]
    if not names:
        return ""
    return (
        f" Undecided on {wording.listing(names)}: the values differ too much, or are too few, to "
        "tell whether the victim is isolated; more repeats and invocations narrow the intervals."
    )


def evidence(verdict: Verdict) -> list[tuple[str, str]]:
    """Return for each arm the figure that its finding rests on; none before method 2."""
    return [
        (
            arm.arm,
            f"{_delivered(arm)} at {arm.point_label}, the worst of its points under attack"
            + ("" if arm.inflation is None else f"; p99 up to {_times(arm.inflation)} times alone"),
        )
        for arm in verdict.arms
        if arm.points
    ]


def _delivered(arm: ArmVerdict) -> str:
    if arm.delivered is None:
        return "no interval, so nothing is decided,"
    return f"{wording.share(arm.delivered)} delivered"


def basis(verdict: Verdict) -> str | None:
    """Say what kind of intervals the findings rest on; None where there are none."""
    known = [arm for arm in verdict.arms if arm.delivered is not None]
    found = [arm.delivered for arm in known if arm.delivered is not None]
    if not found:
        return None
    text = (
        "The findings rest on 95 % intervals of what is delivered, which hold for all points of an "
        f"arm at once. They are made of {_sample(found)}"
    )
    if any(arm.inflation is not None for arm in known):
        text += ". Those of p99 over p99 alone hold at each point by itself"
    if not all(arm.exact for arm in known):
        text += ". Too few for exact intervals, so their errors are taken as normal"
    return f"{text}."


def _sample(found: Sequence[Interval]) -> str:
    few = min(found, key=lambda interval: (interval.invocations, interval.n))
    if few.invocations > 1:
        return f"{wording.plural(few.n, 'repeat')} in {few.invocations} invocations"
    return (
        f"{wording.plural(few.n, 'repeat')} of one invocation. Differences between invocations "
        "are not in them (--invocations)"
    )


def _caution(
    cells: Sequence[Cell], worst: Sequence[AttackedPoint], capacity: Capacity | None
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
    if all(point.shown.n < 2 for point in worst):
        text += " (One repeat only: there is no confidence interval, so nothing is decided.)"
    return text


def _nothing(trials: Sequence[Trial]) -> str:
    measured = [trial for trial in trials if trial.purpose == "measure"]
    bad = measured or [trial for trial in trials if trial.status != "ok"]
    if not bad:
        return "No verdict: no trial was run."
    reasons = (trial.reason for trial in bad if trial.status != "ok" and trial.reason)
    reason = next(reasons, "no router was measured")
    return (
        f"No verdict: of {wording.plural(len(bad), 'trial')} none can be used, "
        f"the first because: {reason.rstrip('.')}."
    )


def _throughput(aggregates: Sequence[Aggregate], capacity: Capacity | None, flow: Flow) -> str:
    best: dict[str, Aggregate] = {}
    for found in aggregates:
        known = best.get(found.arm)
        if known is None or _rank(found) > _rank(known):
            best[found.arm] = found
    if len({found.routers for found in aggregates}) > 1:
        parts = [_together(found, capacity, flow) for found in best.values()]
        return f"{_sentence(parts)}."
    parts = [f"{found.arm} {_rate(found.throughput_pps, flow)}" for found in best.values()]
    routers = wording.plural(next(iter(best.values())).routers, "router")
    done = "answered by" if flow is REQUESTS else "forwarded through"
    return f"The most that is {done} {routers}: {wording.listing(parts)}."


def _rank(found: Aggregate) -> tuple[int, float]:
    return found.routers, found.throughput_pps.median


def _together(found: Aggregate, capacity: Capacity | None, flow: Flow) -> str:
    text = (
        f"on {found.arm}, {wording.plural(found.routers, 'router')} together {flow.do} "
        f"{_rate(found.throughput_pps, flow)}"
    )
    if capacity is None or found.throughput_x is None:
        return text
    return (
        f"{text}, {wording.percent(found.throughput_x.median)} % of the "
        f"{'at least ' if capacity.at_least else ''}{format_pps(capacity.pps.median)} that one "
        f"router alone forwards on {capacity.arm}"
    )


def _rate(interval: Interval, flow: Flow) -> str:
    if interval.n < 2:
        return flow.rate(interval.median)
    low, high = flow.rate(interval.low), flow.rate(interval.high)
    if low.split()[1] == high.split()[1] == flow.rate(interval.median).split()[1]:
        low, high = low.split()[0], high.split()[0]
    return f"{flow.rate(interval.median)} [{low}, {high}]"


def _sentence(parts: Sequence[str]) -> str:
    text = "; ".join(parts)
    return text[:1].upper() + text[1:]

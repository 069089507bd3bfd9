"""The answer of a run in sentences: what to do, and what that gives and costs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from isolane.analysis.flow_words import REQUESTS, flow_of
from isolane.analysis.more_repeats import MAX_REPEATS, repeats_needed
from isolane.analysis.wording import listing, multiple, percent, plural
from isolane.results.generator_models import MovedPoint
from isolane.results.interval import Interval
from isolane.results.results import Summary
from isolane.results.verdict_models import Answer, AnswerRow, Finding
from isolane.spec import format_ns, format_pps

MAX_NAMED = 3
"""Arms that a sentence names; the table has them all."""
EQUAL = 0.995
"""From this share of the maximum on, no arm counts as forwarding more."""
FEWEST = 4
"""Independent values of both arms: of equal arms all of one lie above all of the other, the one or
the other way round, in 3 % of runs; of three values in 10 %, of two in 33 %."""
NOTHING = "-"
WORST_AT = "worst at"
PROMPT = "Its p99 stays within twice that alone."
LATE = "There it is not answered, or waits more than twice as long (p99)."
WORDS = ("arm", "finding", WORST_AT)
"""Headings of the columns that hold words."""


def headings(found: Answer) -> tuple[str, ...]:
    """Return the headings of the answer's columns."""
    if not found.rows or found.rows[0].finding is None:
        at = f" at {found.total_at}" if found.total_at else ""
        of_part = (found.meanwhile,) if found.meanwhile is not None else ()
        return ("arm", *of_part, f"together{at} (of best)")
    return (*WORDS[:2], "victim keeps", WORST_AT, _delay(found.rows), "together (of best)")


def _delay(rows: Sequence[AnswerRow]) -> str:
    plain = {row.mode for row in rows} <= {"forward", "http"}
    return "p99 (alone)" if plain else "round trip p99 (alone)"


def figures(row: AnswerRow, *, of_part: bool = False) -> tuple[str, ...]:
    """Return the texts of a row, under :func:`headings`.

    Parameters
    ----------
    of_part
        Whether the answer tells what work in a part of the window takes.
    """
    total = NOTHING
    if row.total_pps is not None:
        total = flow_of([row.mode]).rate(row.total_pps.median)
        total = f">{total}" if row.total_is_bound else total
    if row.total_share is not None:
        total = f"{total} ({100 * row.total_share:.0f} %)"
    if row.finding is None:
        return (row.arm, *((_with_ends(row.meanwhile),) if of_part else ()), total)
    delay = NOTHING
    if row.delay_p99_ns is not None:
        delay = f"{_time(row.delay_p99_ns)} ({_time(row.alone_p99_ns)})"
    return row.arm, row.finding, _with_ends(row.keeps), row.keeps_at or NOTHING, delay, total


def _with_ends(found: Interval | None) -> str:
    if found is None:
        return NOTHING
    if found.n < 2:
        return f"{percent(found.median)} %"
    return f"{percent(found.median)} % [{percent(found.low)}, {percent(found.high)}]"


def _time(value: Interval | None) -> str:
    """Write a median; between two values, one of them infinite, there is nothing to tell."""
    if value is None or (value.n < 3 and value.low < value.median == math.inf):
        return NOTHING
    return format_ns(value.median)


def sentences(
    rows: Sequence[AnswerRow], *, simulated: bool, repeat_s: float | None = None
) -> tuple[str, ...]:
    """Say in some sentences of 20 words at most what the rows show.

    Parameters
    ----------
    rows
        The best arm first.
    simulated
        Whether it is a prediction.
    repeat_s
        How long a round took, s, where that is known.
    """
    if not rows:
        return ()
    host = "On the simulated host" if simulated else "On this host"
    if rows[0].finding is None:
        return (_fastest(rows, host),)
    return (*_advice(rows, host), *_open_questions(rows, repeat_s))


def moved_words(moved: Sequence[MovedPoint]) -> tuple[str, ...]:
    """Say what the heaviest load was in the arms in which the generator could not send it."""
    if not moved:
        return ()
    point = max(moved, key=lambda one: one.intended_pps).point
    here = [one for one in moved if one.point == point]
    loads = [f"{_sendable(one)} on {one.arm}" for one in here[:MAX_NAMED]]
    more = "" if len(here) <= MAX_NAMED else "; further arms are in the report"
    return (f"For {here[0].point_label} the generator sends no more than {listing(loads)}{more}.",)


def _sendable(point: MovedPoint) -> str:
    if point.aggressor_x is not None:
        return multiple(point.aggressor_x)
    return format_pps(point.offered_pps)


SHORT = ("Some aggressors were sent less than they were to be: the report has their loads.",)
"""For what a generator fell short of in the trials, beyond what was known before."""


def lost_line(summary: Summary) -> str | None:
    """Say how many trials count for nothing, and how many were disturbed; None where none were."""
    parts = []
    if without := summary.trials_without_verdict - summary.trials_repeated:
        parts.append(f"{without} gave no verdict")
    if summary.trials_repeated:
        verb = "was" if summary.trials_repeated == 1 else "were"
        parts.append(f"{summary.trials_repeated} {verb} made again")
    if summary.trials_failed:
        parts.append(f"{summary.trials_failed} failed")
    found = " and ".join(parts) if len(parts) < 3 else ", ".join(parts)
    if summary.trials_disturbed:
        disturbed = f"others disturbed {summary.trials_disturbed}, which count"
        found = f"{found}; {disturbed}" if found else disturbed
    return f"Of {plural(summary.trials, 'trial')} {found}" if found else None


def clearly_faster(rows: Sequence[AnswerRow]) -> bool:
    """Tell whether the first arm's total lies above all others', intervals and all."""
    if any(row.total_is_bound for row in rows[1:]):
        return False  # it might forward more
    first, *others = (row.total_pps for row in rows)
    return first is not None and all(other is None or _is_below(other, first) for other in others)


def _is_below(first: Interval, second: Interval) -> bool:
    """Tell whether one lies below the other, of so many values that it is seldom by chance."""
    return first.high < second.low and min(first.units, second.units) >= FEWEST


def _fastest(rows: Sequence[AnswerRow], host: str) -> str:
    best, flow = rows[0], flow_of(row.mode for row in rows)
    rate = flow.rate(best.total_pps.median if best.total_pps else None)
    if len(rows) == 1:
        return f"{host}, {best.arm} {flow.does} {rate}."
    if clearly_faster(rows):
        return f"{host}, {best.arm} {flow.does} more than any other arm: {rate}."
    return f"{host}, no arm is clearly the fastest; {best.arm} {flow.does} {rate}."


def _advice(rows: Sequence[AnswerRow], host: str) -> list[str]:
    best = rows[0]
    if flow_of(row.mode for row in rows) is REQUESTS:
        return _web_advice(rows, host)
    harmed = [row for row in rows if row.finding == "not isolated" and row.keeps]
    if best.finding in ("isolated", "nearly isolated"):
        verb = "use" if best.finding == "isolated" else "the nearest to isolated is"
        told = [f"{host}, {verb} {best.arm}: its victim keeps {_kept(best)} at worst."]
        if harmed:
            worst = min(harmed, key=_keeps)
            told.append(f"On {worst.arm} it keeps {_kept(worst)}.")
        return [*told, *_cost(best, rows)]
    if harmed and len(harmed) == len(rows):
        first = max(harmed, key=_keeps)
        return [
            f"{host}, no arm isolates the victim.",
            f"It keeps the largest share on {first.arm}: {_kept(first)}.",
        ]
    if harmed:
        worst = min(harmed, key=_keeps)
        return [f"{host}, {worst.arm} does not isolate the victim: it keeps {_kept(worst)}."]
    return []


def _web_advice(rows: Sequence[AnswerRow], host: str) -> list[str]:
    best, late = rows[0], [row.arm for row in rows if row.finding == "not isolated"]
    if best.finding in ("isolated", "nearly isolated"):
        told = [f"{host}, use {best.arm}: its victim is answered {_kept(best)} of its requests."]
        return [*told, PROMPT]
    if late and len(late) == len(rows):
        return [f"{host}, no arm isolates the victim.", LATE]
    return [f"{host}, the victim is not isolated on {_some(late)}.", LATE] if late else []


def _cost(best: AnswerRow, rows: Sequence[AnswerRow]) -> list[str]:
    """Say what the protection costs in throughput, against the arm that forwards the maximum."""
    others = [row for row in rows if row is not best and row.total_pps]
    if not others or not best.total_pps:
        return []
    if best.total_is_bound:
        return [f"{best.arm} forwarded all that it was offered.", *_sooner(best, others)]
    top = max(others, key=_together)
    share = _together(best) / _together(top) if _together(top) else 1.0
    if share < EQUAL and top.total_pps and not _is_below(best.total_pps, top.total_pps):
        return ["No arm clearly forwards more."]
    if share < EQUAL:
        at_least = "at least " if top.total_is_bound else ""
        less = percent(1 - share)
        ours = f"The routers of {best.arm} together"
        return [f"{ours} forward {at_least}{less} % less than those of {top.arm}."]
    return [] if any(row.total_is_bound for row in others) else ["No arm forwards more."]


def _sooner(best: AnswerRow, others: Sequence[AnswerRow]) -> list[str]:
    """Say how much sooner frames arrive than on the worst of those that forwarded all, too."""
    alike = [row for row in others if row.total_is_bound and row.finding == best.finding]
    timed = [(row.delay_p99_ns, row.arm) for row in alike if row.delay_p99_ns]
    worst, arm = max(timed, key=lambda one: one[0].median, default=(None, ""))
    ours = best.delay_p99_ns
    if not worst or not ours or not _is_below(ours, worst):
        return []
    return [f"Its p99 is {format_ns(ours.median)} there, on {arm} {format_ns(worst.median)}."]


def _together(row: AnswerRow) -> float:
    return row.total_pps.median if row.total_pps else 0.0


_WHY: dict[Finding, str] = {
    "undecided": "Undecided: {arms} ({more}).",
    "attack incomplete": "Attack incomplete: the generator could not send its whole load on "
    "{arms}.",
    "never overloaded": "Never overloaded: {arms}. Offer the aggressor more.",
    "overloaded alone": "Overloaded without an attack, too: {arms}.",
    "no verdict": "No verdict: {arms}. The report says why.",
}


def _open_questions(rows: Sequence[AnswerRow], repeat_s: float | None) -> list[str]:
    found = []
    for finding, text in _WHY.items():
        own = [row for row in rows if row.finding == finding]
        if own:
            arms = _some([row.arm for row in own])
            found.append(text.format(arms=arms, more=_more_repeats(own, repeat_s)))
    return found


def _more_repeats(rows: Sequence[AnswerRow], repeat_s: float | None) -> str:
    """Say what would probably decide about arms that are undecided."""
    intervals = [row.keeps for row in rows if row.keeps and row.keeps.low < row.keeps.high]
    if any(one.invocations > 1 for one in intervals):
        return "more --invocations"
    if len(intervals) < len(rows):
        return "more --repeats"
    known = [number for one in intervals if (number := repeats_needed(one)) is not None]
    if len(known) < len(rows):
        return f"{MAX_REPEATS} repeats may not decide"
    if repeat_s is None:
        return f"try --repeats {max(known)}"
    minutes = max(1, round(max(known) * repeat_s / 60))
    return f"try --repeats {max(known)}, about {minutes} min"


def _some(arms: Sequence[str]) -> str:
    if len(arms) <= MAX_NAMED:
        return listing(arms)
    return f"{', '.join(arms[:MAX_NAMED])} and {len(arms) - MAX_NAMED} more"


def _keeps(row: AnswerRow) -> float:
    return row.keeps.median if row.keeps else 0.0


def _kept(row: AnswerRow) -> str:
    return f"{percent(_keeps(row))} %"

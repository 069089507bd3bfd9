"""The answer of a run: one row for each arm, the best first, and what to do.

It judges nothing: what it says of an arm is the arm's finding
(:mod:`isolane.analysis.victim_findings`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from isolane.analysis.answer_words import SHORT, clearly_faster, moved_words, sentences
from isolane.analysis.cells import sent_less, sent_pps
from isolane.results.generator_models import MovedPoint
from isolane.results.interval import Interval
from isolane.results.results import Aggregate, Cell, Summary
from isolane.results.verdict_models import Answer, AnswerRow, ArmVerdict, Finding, Verdict

LOSSLESS: Final = 0.01
"""With less loss than this over all routers together, an arm may forward more."""
BEST_FIRST: Final[tuple[Finding, ...]] = (
    "isolated",
    "nearly isolated",
    "attack incomplete",
    "never overloaded",
    "undecided",
    "overloaded alone",
    "not isolated",
    "no verdict",
)


def answer_of(summary: Summary) -> Answer:
    """Return the answer of a run; an older version did not keep it, but what it is made of."""
    return summary.answer or answer(
        summary.verdict,
        summary.cells,
        summary.aggregates,
        summary.moved,
        simulated=summary.simulated is not None,
    )


def answer(
    verdict: Verdict,
    cells: Sequence[Cell],
    aggregates: Sequence[Aggregate],
    moved: Sequence[MovedPoint] = (),
    *,
    simulated: bool,
    repeat_s: float | None = None,
) -> Answer:
    """Draw the answer from what a run found.

    Parameters
    ----------
    verdict
        With the finding about each arm; without arms the answer is about throughput.
    cells, aggregates
        Results of the valid trials.
    moved
        Points below what the experiment asks for.
    simulated
        Whether the run is a prediction.
    repeat_s
        How long a round took, s, where that is known.
    """
    about_victims = bool(verdict.arms)
    totals = _at_heaviest(aggregates) if about_victims else _best_of_each(aggregates)
    found = (
        [_victims(arm, cells, totals.get(arm.arm)) for arm in verdict.arms]
        if about_victims
        else [_row(arm, None, total, cells) for arm, total in totals.items()]
    )
    rows = sorted(_with_shares(found), key=_rank)
    labels = {total.point_label for total in totals.values()}
    return Answer(
        rows=tuple(rows),
        total_at=labels.pop() if len(labels) == 1 else None,
        use=_use(rows),
        sentences=(
            *(sentences(rows, simulated=simulated, repeat_s=repeat_s) or (verdict.sentence,)),
            *moved_words(moved),
            *(SHORT if any(sent_less(cell) for cell in cells if cell.role == "aggressor") else ()),
        ),
    )


def _use(rows: Sequence[AnswerRow]) -> str | None:
    if not rows:
        return None
    first = rows[0]
    if first.finding is None:
        return first.arm if len(rows) > 1 and clearly_faster(rows) else None
    return first.arm if first.finding in ("isolated", "nearly isolated") else None


def _rank(row: AnswerRow) -> tuple[int, float, float, float]:
    """Isolated arms by what they forward in all, others by what the victim keeps.

    Those that forwarded all that they were offered could not show more: among them by delay.
    """
    total = row.total_pps.median if row.total_pps else 0.0
    if row.finding is None:
        return 0, 0.0, -total, 0.0
    total = math.inf if row.total_is_bound else total
    keeps = row.keeps.median if row.keeps and row.finding != "isolated" else 0.0
    late = row.delay_p99_ns.median if row.delay_p99_ns else math.inf
    return BEST_FIRST.index(row.finding), -keeps, -total, late


def _at_heaviest(aggregates: Sequence[Aggregate]) -> dict[str, Aggregate]:
    """Return each arm's total at the point at which the highest load was offered.

    Among those at which as many aggressors as at any worked besides.
    """
    if not aggregates:
        return {}
    point = max(aggregates, key=lambda found: (found.working, found.offered_pps.median)).point
    return {found.arm: found for found in aggregates if found.point == point}


def _best_of_each(aggregates: Sequence[Aggregate]) -> dict[str, Aggregate]:
    """Return the highest total of each arm, among those with the maximum number of routers."""
    best: dict[str, Aggregate] = {}
    for found in aggregates:
        known = best.get(found.arm)
        if known is None or _size(found) > _size(known):
            best[found.arm] = found
    return best


def _size(found: Aggregate) -> tuple[int, float]:
    return found.routers, found.throughput_pps.median


def _row(
    arm: str, finding: Finding | None, total: Aggregate | None, cells: Sequence[Cell]
) -> AnswerRow:
    modes = [cell.mode for cell in cells if cell.arm == arm]
    return AnswerRow(
        arm=arm,
        finding=finding,
        mode="http" if "http" in modes else "forward",
        keeps=None,
        keeps_at=None,
        delay_p99_ns=None,
        alone_p99_ns=None,
        total_pps=total.throughput_pps if total else None,
        total_share=None,
        total_is_bound=total is not None and _all_came_through(total, cells),
    )


def _all_came_through(total: Aggregate, cells: Sequence[Cell]) -> bool:
    own = [cell for cell in cells if (cell.arm, cell.point) == (total.arm, total.point)]
    if any(cell.closed for cell in own):
        return False  # it is asked for no more than it answers
    return total.throughput_pps.median >= (1 - LOSSLESS) * sum(map(sent_pps, own))


def _victims(arm: ArmVerdict, cells: Sequence[Cell], total: Aggregate | None) -> AnswerRow:
    own = [cell for cell in cells if cell.arm == arm.arm and cell.role == "victim"]
    at_worst = [cell for cell in own if cell.point_label == arm.point_label and cell.delivered]
    row = _row(arm.arm, arm.finding, total, cells)
    if not at_worst:
        return row
    worst = min(at_worst, key=_delivered)
    return row.model_copy(
        update={
            "keeps": arm.delivered or _without_interval(worst.delivered),
            "keeps_at": arm.point_label,
            "delay_p99_ns": worst.delay_p99_ns,
            "alone_p99_ns": _alone(worst, own),
            "mode": worst.mode,
        }
    )


def _without_interval(found: Interval | None) -> Interval | None:
    """Leave out an interval that does not hold for all points at once."""
    return found and found.model_copy(update={"low": found.median, "high": found.median, "n": 1})


def _delivered(cell: Cell) -> float:
    return cell.delivered.median if cell.delivered else 0.0


def _alone(worst: Cell, own: Sequence[Cell]) -> Interval | None:
    return next(
        (
            cell.delay_p99_ns
            for cell in own
            if cell.router == worst.router and cell.point == worst.reference
        ),
        None,
    )


def _with_shares(rows: Sequence[AnswerRow]) -> list[AnswerRow]:
    top = max((row.total_pps.median for row in rows if row.total_pps), default=0.0)
    return [
        row.model_copy(update={"total_share": row.total_pps.median / top})
        if row.total_pps and top > 0 and not row.total_is_bound
        else row
        for row in rows
    ]

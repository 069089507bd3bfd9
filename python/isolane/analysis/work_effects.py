"""What work in a part of the window took from a router meanwhile, by arm."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from isolane.analysis.answer import answer_of
from isolane.analysis.delivery import interval
from isolane.analysis.wording import percent
from isolane.results.interval import Interval
from isolane.results.results import Summary, Trial
from isolane.results.series import RouterSeries, TrialSeries
from isolane.results.verdict_models import Answer, AnswerRow
from isolane.spec import Experiment, Router
from isolane.spec.patterns import read_pattern
from isolane.spec.work_models import NO_WORK

EDGE_NS: Final = 100_000_000
"""Left out on either side of a moment at which work begins or stops: it is not told exactly."""


@dataclass(frozen=True)
class WorkEffect:
    """What one router received while another one worked, over what it received otherwise."""

    router: str
    worker: str
    kept: Mapping[str, Interval]
    """By arm."""

    @property
    def words(self) -> str:
        """What it is, for a heading."""
        return f"{self.router} while {self.worker} works"


def with_work_effect(
    summary: Summary,
    experiment: Experiment,
    trials: Sequence[Trial],
    series: Callable[[], Sequence[TrialSeries]],
) -> Summary:
    """Return the summary with it in its answer, where a router worked in a part of the window.

    Parameters
    ----------
    series
        Reads those of the run; it is not called where nobody did.
    """
    if not any(router.works_in_part for router in experiment.routers):
        return summary
    found = work_effect(experiment, trials, series())
    if found is None:
        return summary
    return summary.model_copy(update={"answer": _answer(answer_of(summary), found)})


def work_effect(
    experiment: Experiment, trials: Sequence[Trial], series: Sequence[TrialSeries]
) -> WorkEffect | None:
    """Compare the first other router that is offered a steady load with itself.

    Parameters
    ----------
    experiment
        Says who works, and when.
    trials, series
        Of the run; counted are valid trials at the last point at which it works, in arms in which
        nothing else changes meanwhile.

    Returns
    -------
    WorkEffect or None
        None where not just one router works in a part of the window, or too little of it is left to
        compare.
    """
    workers = [router for router in experiment.routers if router.works_in_part]
    if len(workers) != 1:
        return None
    worker, steady = workers[0], {a.name for a in experiment.resolved_arms() if not a.changes}
    good = {trial.trial: trial for trial in trials if _counts(trial, worker, steady)}
    known = [(good[one.trial], one) for one in series if one.trial in good]
    last = max((trial.point for trial, _ in known), default=0)
    kept: dict[str, list[tuple[float, int]]] = defaultdict(list)
    name = ""
    for trial, one in known:
        sender = _sender(trial, worker)
        if trial.point != last or sender is None:
            continue
        (own,) = (router for router in one.routers if router.router == sender)
        if (ratio := _kept(worker, one, own)) is not None:
            kept[trial.arm].append((ratio, trial.invocation))
            name = sender
    intervals = {arm: found for arm, values in kept.items() if (found := _interval(values))}
    return WorkEffect(name, worker.name, intervals) if intervals else None


def _counts(trial: Trial, worker: Router, arms: Collection[str]) -> bool:
    works = any(r.group == worker.name and r.work != NO_WORK for r in trial.routers)
    return trial.status == "ok" and trial.purpose == "measure" and works and trial.arm in arms


def _sender(trial: Trial, worker: Router) -> str | None:
    """Return the first other router that was offered a steady load."""
    return next(
        (
            router.router
            for router in trial.routers
            if router.offered_pps
            and router.group != worker.name
            and read_pattern(router.pattern).timing.steady
        ),
        None,
    )


def _interval(values: Sequence[tuple[float, int]]) -> Interval | None:
    return interval([value for value, _ in values], [invocation for _, invocation in values])


def _kept(worker: Router, series: TrialSeries, router: RouterSeries) -> float | None:
    """Return what a router received in a bin while another one worked, over that of other bins."""
    begin_ns, end_ns = worker.work_from_ns, worker.work_until_ns
    edges = [edge for edge in (begin_ns, end_ns) if edge is not None]
    during: list[int] = []
    otherwise: list[int] = []
    for index in series.window():
        at_ns = index * series.bin_ns - series.warmup_ns
        if any(at_ns < edge + EDGE_NS and at_ns + series.bin_ns > edge - EDGE_NS for edge in edges):
            continue
        works = (begin_ns or 0) <= at_ns < (series.window_ns if end_ns is None else end_ns)
        (during if works else otherwise).append(router.received[index])
    if not during or not sum(otherwise):
        return None
    return fmean(during) / fmean(otherwise)


def _answer(answer: Answer, found: WorkEffect) -> Answer:
    rows = [row.model_copy(update={"meanwhile": found.kept.get(row.arm)}) for row in answer.rows]
    ranked = sorted(rows, key=lambda row: -_median(row))
    return answer.model_copy(
        update={
            "rows": tuple(ranked),
            "meanwhile": found.words,
            "use": None,  # which arm isolates, or forwards most, is not what was asked
            "sentences": (_sentence(ranked, found), *answer.sentences),
        }
    )


def _sentence(rows: Sequence[AnswerRow], found: WorkEffect) -> str:
    shown = [(row.arm, row.meanwhile) for row in rows if row.meanwhile is not None]
    (best, top), (worst, bottom) = shown[0], shown[-1]
    about = f"While {found.worker} works, {found.router} gets"
    if len(shown) == 1 or top.low <= bottom.high:
        values = [_percent(one) for _, one in shown]
        between = values[0] if values[0] == values[-1] else f"{values[-1]} to {values[0]}"
        return f"{about} {between} % of what it gets otherwise."
    text = f"{about} {_percent(top)} % of what it gets otherwise on {best}"
    return f"{text}, and {_percent(bottom)} % on {worst}."


def _percent(value: Interval) -> str:
    return percent(value.median)


def _median(row: AnswerRow) -> float:
    return row.meanwhile.median if row.meanwhile is not None else 0.0

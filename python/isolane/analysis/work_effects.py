"""What work in a part of the window took from a router meanwhile, by arm."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
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
    """Compare the first router that is offered frames with itself.

    Parameters
    ----------
    experiment
        Says who works, and when.
    trials, series
        Of the run; counted are valid trials at the last point.

    Returns
    -------
    WorkEffect or None
        None where nobody works in a part of the window, or too little of it is left to compare.
    """
    workers = [router for router in experiment.routers if router.works_in_part]
    good = {t.trial: t for t in trials if t.status == "ok" and t.purpose == "measure"}
    known = [(good[one.trial], one) for one in series if one.trial in good]
    if not workers or not known:
        return None
    last = max(trial.point for trial, _ in known)
    kept: dict[str, list[float]] = defaultdict(list)
    name = ""
    for trial, one in known:
        sending = [r.router for r in trial.routers if r.offered_pps and r.group != workers[0].name]
        if trial.point != last or not sending:
            continue
        (own,) = (router for router in one.routers if router.router == sending[0])
        if (ratio := _kept(workers[0], one, own)) is not None:
            kept[trial.arm].append(ratio)
            name = sending[0]
    intervals = {arm: found for arm, values in kept.items() if (found := interval(values))}
    return WorkEffect(name, workers[0].name, intervals) if intervals else None


def _kept(worker: Router, series: TrialSeries, router: RouterSeries) -> float | None:
    """Return what a router received in a bin while another one worked, over that of other bins."""
    begin_ns, end_ns = worker.work_from_ns or 0, worker.work_until_ns or series.window_ns
    during, otherwise = [], []
    for index in series.window():
        at_ns = index * series.bin_ns - series.warmup_ns
        if begin_ns + EDGE_NS <= at_ns < end_ns - EDGE_NS:
            during.append(router.received[index])
        elif at_ns < begin_ns - EDGE_NS or at_ns >= end_ns + EDGE_NS:
            otherwise.append(router.received[index])
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
            "use": None,
            "sentences": (_sentence(ranked, found), *answer.sentences[1:]),
        }
    )


def _sentence(rows: Sequence[AnswerRow], found: WorkEffect) -> str:
    shown = [row for row in rows if row.meanwhile is not None]
    best, worst = shown[0], shown[-1]
    about = f"While {found.worker} works, {found.router} gets"
    text = f"{about} {_share(best)} of what it gets otherwise"
    if len(shown) == 1:
        return f"{text}."
    return f"{text} on {best.arm}, and {_share(worst)} on {worst.arm}."


def _share(row: AnswerRow) -> str:
    return f"{percent(_median(row))} %"


def _median(row: AnswerRow) -> float:
    return row.meanwhile.median if row.meanwhile is not None else 0.0

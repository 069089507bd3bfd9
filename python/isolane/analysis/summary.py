"""The summary of a run: everything that its table and its report show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from isolane import __version__
from isolane.analysis import generator_maximum, null_dut
from isolane.analysis.answer import answer
from isolane.analysis.arm_tests import arm_tests
from isolane.analysis.attacked_points import attacked_points
from isolane.analysis.attempts import key_of
from isolane.analysis.capacities import arm_capacities, measured_capacity
from isolane.analysis.cells import aggregates, cells, core_cells, sent_less, usable
from isolane.analysis.delay_cells import without_delay
from isolane.analysis.delivery import Groups, tells_cpu, weights_of
from isolane.analysis.drift import drift
from isolane.analysis.generator_maximum import maximum_of, placed
from isolane.analysis.judged_objectives import judged_objectives
from isolane.analysis.lost_trials import lost_trials
from isolane.analysis.missing_points import missing_points
from isolane.analysis.more_repeats import repeat_s
from isolane.analysis.null_dut import floors
from isolane.analysis.published import Measured, beside_measured
from isolane.analysis.steady import too_short, unsteady
from isolane.analysis.verdict import verdict
from isolane.analysis.victim_findings import Asked, never_overloaded
from isolane.analysis.wording import plural
from isolane.results.error_budget import ErrorBudget
from isolane.results.generator_models import MovedPoint
from isolane.results.invalid import MADE_AGAIN, InvalidKind
from isolane.results.method import METHOD
from isolane.results.missing import MissingPoint
from isolane.results.quality_models import Quality
from isolane.results.results import (
    Aggregate,
    Capacity,
    Cell,
    Drawing,
    NotMeasured,
    Summary,
    Trial,
)
from isolane.spec import Experiment, format_pps
from isolane.stats.intervals import MIN_UNITS, coverage_of_ranks

ASIDE = (null_dut.PURPOSE, generator_maximum.PURPOSE)
"""Purposes of trials that say nothing about a device under test."""


def summarise(  # noqa: PLR0913 - one argument for each thing that a run knows at its end
    experiment: Experiment,
    trials: Sequence[Trial],
    drawings: Sequence[Drawing],
    started: float,
    finished: float,
    complete: bool,  # noqa: FBT001 - named by every caller
    *,
    capacity: Capacity | None = None,
    not_measured: Sequence[NotMeasured] = (),
    simulated: str | None = None,
    method: int = METHOD,
) -> Summary:
    """Summarise a run, a part of a run, or a run without a single good trial.

    Trials without a verdict are left out of every figure, counted, and named with their reasons.

    Parameters
    ----------
    experiment
        The experiment that was run.
    trials
        All trials, in the order of the run.
    drawings
        The test bed of each arm.
    started, finished
        Unix time, seconds.
    complete
        False where the run was interrupted.
    capacity
        What 1x was; by default the capacity trials tell.
    not_measured
        What the run itself did not measure, and why.
    simulated
        Profile of the simulated host, for a prediction.
    method
        Version of the method that the trials were made by.
    """
    arms = [arm.name for arm in experiment.resolved_arms()]
    everything, trials = trials, [trial for trial in trials if trial.purpose not in ASIDE]
    groups = usable(trials, arms)
    known = capacity or measured_capacity(trials, experiment.capacity_reference().arm.name)
    scale, moved = placed(experiment, everything, known)
    missing = missing_points(experiment, trials, scale)
    found, together = _figures(experiment, groups, known, missing)
    asked = Asked(arms, missing, attacked_points(found, groups))
    transients = unsteady(trials, ErrorBudget(experiment.trial.threshold).limit)
    lasts, cores = repeat_s(trials), core_cells(groups)
    gaps = (*not_measured, *_moved(moved), *too_short(transients))
    judged = verdict(trials, found, together, known, asked)
    return Summary(
        **_heading(experiment, method, started, finished),
        complete=complete,
        answer=answer(judged, found, together, moved, simulated=bool(simulated), repeat_s=lasts),
        verdict=judged,
        capacity=known,
        cells=found,
        cores=cores,
        **_published(experiment, Measured(found, together, cores, known, missing)),
        drawings=tuple(drawings),
        unsteady=transients,
        not_measured=(*gaps, *_gaps(trials, found, missing, known)),
        aggregates=together,
        missing=missing,
        **_of_trials(experiment, everything, trials),
        arm_tests=arm_tests(groups),
        moved=moved,
        objectives=tuple(judged_objectives(experiment, found, missing)),
        simulated=simulated,
    )


def _published(experiment: Experiment, measured: Measured) -> dict[str, Any]:
    source = experiment.published
    if source is None:
        return {"published": (), "published_source": None}
    return {"published": beside_measured(source, measured), "published_source": source.source}


def _quality(experiment: Experiment, trials: Sequence[Trial], arms: Sequence[str]) -> Quality:
    invocations = 1 + max((trial.invocation for trial in trials), default=0)
    planned = len(experiment.points()) * experiment.trial.repeats * invocations
    return Quality(
        threshold=experiment.trial.threshold,
        lost=lost_trials(arms, planned, trials),
        drift=drift(trials),
    )


def _figures(
    experiment: Experiment,
    groups: Groups,
    capacity: Capacity | None,
    missing: Sequence[MissingPoint],
) -> tuple[tuple[Cell, ...], tuple[Aggregate, ...]]:
    found = cells(groups, capacity, missing, weights_of(experiment))
    return found, aggregates(groups, capacity)


def _heading(
    experiment: Experiment, method: int, started: float, finished: float
) -> dict[str, Any]:
    return {
        "method": method,
        "isolane": __version__,
        "name": experiment.name,
        "title": experiment.title,
        "description": experiment.description,
        "arms": tuple(arm.name for arm in experiment.resolved_arms()),
        "started_unix_s": started,
        "finished_unix_s": finished,
    }


def _of_trials(
    experiment: Experiment, everything: Sequence[Trial], trials: Sequence[Trial]
) -> dict[str, Any]:
    arms = [arm.name for arm in experiment.resolved_arms()]
    return {
        "capacities": arm_capacities(trials, arms),
        "quality": _quality(experiment, trials, arms),
        "null_dut": floors(everything),
        "generator": maximum_of(everything),
        "trials": len(everything),
        "trials_failed": sum(trial.status == "failed" for trial in everything),
        "trials_without_verdict": sum(trial.status == "no-verdict" for trial in everything),
        "trials_repeated": _repeated(everything),
        "trials_disturbed": sum(map(_disturbed, everything)),
    }


def _gaps(
    trials: Sequence[Trial],
    found: Sequence[Cell],
    missing: Sequence[MissingPoint],
    capacity: Capacity | None,
) -> list[NotMeasured]:
    return [
        *_empty_points(missing),
        *_left_out(trials),
        *_not_offered(found),
        *_not_overloaded(found, capacity),
        *_refused(found),
        *_by_others(trials),
        *_without_cpu(trials),
        *_wrong_cpu(trials),
        *without_delay(trials, found),
        *_without_interval(found),
    ]


def _empty_points(missing: Sequence[MissingPoint]) -> list[NotMeasured]:
    return [
        NotMeasured(what=f"{point.arm}, {point.point_label}", why=f"no verdict: {point.why}")
        for point in missing
    ]


def _left_out(trials: Sequence[Trial]) -> list[NotMeasured]:
    words = {"failed": "failed", "no-verdict": "gives no verdict"}
    return [
        NotMeasured(
            what=f"Trial {trial.trial} ({trial.arm}, {trial.point_label}, round {trial.repeat + 1}"
            f"{', capacity' if trial.purpose == 'capacity' else ''}) {words[trial.status]}",
            why=trial.reason or "no reason was recorded",
        )
        for trial in trials
        if trial.status != "ok"
    ]


def _not_offered(found: Sequence[Cell]) -> list[NotMeasured]:
    return [
        NotMeasured(
            what=f"The whole load of {cell.router} on {cell.arm} at {cell.point_label}",
            why=f"the generator was the limit: it sent {format_pps(cell.generated_pps.median)} of "
            f"{format_pps(cell.offered_pps.median)} (medians over the repeats)",
        )
        for cell in found
        if sent_less(cell) and cell.generated_pps
    ]


def _moved(moved: Sequence[MovedPoint]) -> list[NotMeasured]:
    return [
        NotMeasured(
            what=f"The whole load of {point.point_label} on {point.arm}",
            why=f"{format_pps(point.intended_pps)} are asked for in all, "
            f"{format_pps(point.offered_pps)} are offered: the generator sends no more here",
        )
        for point in moved
    ]


def _refused(found: Sequence[Cell]) -> list[NotMeasured]:
    """Name the victims whose reference point loses frames itself, once for each arm."""
    reasons = {
        (cell.router, cell.arm): cell.retained_reason for cell in found if cell.retained_reason
    }
    return [
        NotMeasured(
            what=f"What the victim retains ({router}, on {arm}), and its inflation", why=why
        )
        for (router, arm), why in reasons.items()
    ]


def _not_overloaded(found: Sequence[Cell], capacity: Capacity | None) -> list[NotMeasured]:
    idle = never_overloaded(found, capacity)
    return [NotMeasured(what="Isolation on an overloaded host", why=idle)] if idle else []


def _repeated(trials: Sequence[Trial]) -> int:
    valid = {key_of(trial) for trial in trials if trial.status == "ok"}
    return sum(trial.status == "no-verdict" and key_of(trial) in valid for trial in trials)


def _disturbed(trial: Trial) -> bool:
    others = MADE_AGAIN | {InvalidKind.DISTURBED}
    return trial.status == "ok" and not others.isdisjoint(trial.invalid or ())


def _by_others(trials: Sequence[Trial]) -> list[NotMeasured]:
    """Count the trials in which others used the DUT's cores."""
    many = [trial for trial in trials if _disturbed(trial)]
    if not many:
        return []
    others = max(core.user + core.steal for t in many for core in t.cores if core.part == "dut")
    return [
        NotMeasured(
            what=f"{len(many)} of {plural(len(trials), 'trial')} without others on the routers' "
            "cores",
            why=f"other processes, or the hypervisor, had up to {100 * others:.0f} % of a core of "
            "the device under test; these trials count, so the figures are those beside them",
        )
    ]


def _without_cpu(trials: Sequence[Trial]) -> list[NotMeasured]:
    reasons = Counter(
        (trial.arm, router.cpu_reason or "no reason was recorded")
        for trial in trials
        if trial.status == "ok" and trial.purpose == "measure"
        for router in trial.routers
        if router.cpu_ns is None and router.cpu_caused_ns is None
    )
    return [
        NotMeasured(what=f"CPU time of each router in arm {arm}", why=reason)
        for arm, reason in reasons
    ]


def _wrong_cpu(trials: Sequence[Trial]) -> list[NotMeasured]:
    wrong = [trial for trial in trials if trial.status == "ok" and not tells_cpu(trial)]
    if not wrong:
        return []
    return [
        NotMeasured(
            what=f"CPU time in {plural(len(wrong), 'valid trial')}",
            why=f"{wrong[0].reason}; the trials count for all else",
        )
    ]


def _without_interval(found: Sequence[Cell]) -> list[NotMeasured]:
    gaps = [*_few_values(found)]
    if found and max(cell.throughput_pps.invocations for cell in found) == 1:
        why = (
            "there was one invocation: the intervals hold for this run, and figures of later runs "
            "differ by more; use --invocations 6 or more"
        )
        gaps.append(NotMeasured(what="What differs from invocation to invocation", why=why))
    return gaps


def _few_values(found: Sequence[Cell]) -> list[NotMeasured]:
    """Say where no interval can hold the median 95 % of the time."""
    few = min((cell.throughput_pps.units for cell in found), default=MIN_UNITS)
    if few >= MIN_UNITS:
        return []
    several = any(cell.throughput_pps.invocations > 1 for cell in found)
    noun = "invocation" if several else "repeat"
    why = (
        f"with one {noun} there is no interval at all"
        if few == 1
        else f"the fewest that a point has is {plural(few, noun)}: even the range of so many holds "
        f"the median only {100 * coverage_of_ranks(few, 1):.4g} % of the time; {MIN_UNITS} are "
        "needed for 95 %"
    )
    return [NotMeasured(what="95 % confidence intervals", why=why)]

"""The delays of a cell: medians over the repeats, of times that may be infinite."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from isolane.analysis.delivery import ByRound, Runs, delays, over, tells_delays
from isolane.analysis.flow_words import flow_of
from isolane.analysis.wording import plural
from isolane.results.results import Cell, Delay, Interval, Lateness, NotMeasured, Trial
from isolane.stats.isolation import paired_ratios

_FAR_NS, _LONGEST_NS = 1e30, 1e15
"""Stands for an infinite time; longer than any delay (11 days)."""


def times(runs: Runs, values: ByRound) -> Interval | None:
    """Return median and interval of times, of which some may be infinite: more frames were lost.

    The median of resampled repeats is taken with a time beyond all others in their place; what an
    interpolation makes of it is infinite again.
    """
    found = over(runs, {repeat: min(value, _FAR_NS) for repeat, value in values.items()})
    if found is None:
        return None
    ends = {"median": found.median, "low": found.low, "high": found.high}
    return found.model_copy(
        update={name: math.inf if value > _LONGEST_NS else value for name, value in ends.items()}
    )


def maximum(values: ByRound) -> Interval | None:
    """Return the maximum over the repeats, with the smallest of the repeats' maxima."""
    known = [value for value in values.values() if math.isfinite(value)]
    if not known:
        return None
    return Interval(median=max(known), low=min(known), high=max(known), n=len(known))


def inflation(runs: Runs, reference: Runs) -> Interval | None:
    """Return p99 over the reference's p99, by round; without infinite references."""
    p99, before = (delays(found, lambda delay: delay.p99_ns) for found in (runs, reference))
    known = {repeat: ns for repeat, ns in before.items() if math.isfinite(ns)}
    return times(runs, paired_ratios(p99, known))


def delay_figures(runs: Runs) -> dict[str, Interval | None]:
    """Return the fields of a :class:`~isolane.results.results.Cell` that tell of delays."""
    departure: dict[str, Callable[[Delay], float]] = {
        "delay_p50_ns": lambda delay: delay.p50_ns,
        "delay_p90_ns": lambda delay: delay.p90_ns,
        "delay_p99_ns": lambda delay: delay.p99_ns,
        "delay_p999_ns": lambda delay: delay.p999_ns,
        "delay_p9999_ns": lambda delay: delay.p9999_ns,
        "arrived_p50_ns": lambda delay: delay.median_arrived_ns,
    }
    return {
        **{name: times(runs, delays(runs, pick)) for name, pick in departure.items()},
        "delay_max_ns": maximum(delays(runs, lambda delay: delay.max_ns)),
        "due_p50_ns": times(runs, delays(runs, lambda delay: delay.p50_ns, due=True)),
        "due_p99_ns": times(runs, delays(runs, lambda delay: delay.p99_ns, due=True)),
        "due_max_ns": maximum(delays(runs, lambda delay: delay.max_ns, due=True)),
        "lateness_p50_ns": times(runs, _lateness(runs, lambda late: late.p50_ns)),
        "lateness_p99_ns": times(runs, _lateness(runs, lambda late: late.p99_ns)),
    }


def _lateness(runs: Runs, pick: Callable[[Lateness], float]) -> ByRound:
    return {t.repeat: pick(r.lateness) for t, r in runs if r.lateness is not None}


def without_delay(trials: Sequence[Trial], found: Sequence[Cell]) -> Iterator[NotMeasured]:
    """Name the delays that are not told, and why."""
    for arm, invalid in groupby(sorted(filter(_silent, trials), key=_arm), _arm):
        reasons = [trial.reason for trial in invalid]
        yield NotMeasured(
            what=f"Delays in {plural(len(reasons), 'valid trial')} on {arm}",
            why=f"{reasons[0]}; the trials count for all else",
        )
    for cell in found:
        if cell.delay_p50_ns is None and cell.offered_pps.median > 0:
            came = "was answered" if cell.mode == "http" else "arrived"
            why = f"not one of its {flow_of([cell.mode]).many} {came} in the window"
            if cell.throughput_pps.median > 0:
                why = "the delays of each of its trials are invalid"
            what = f"Delay of {cell.router} on {cell.arm} at {cell.point_label}"
            yield NotMeasured(what=what, why=why)


def _silent(trial: Trial) -> bool:
    return trial.purpose == "measure" and trial.status == "ok" and not tells_delays(trial)


def _arm(trial: Trial) -> str:
    return trial.arm

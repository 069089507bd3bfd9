"""Compares two runs, figure by figure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from isolane.analysis.cells import usable
from isolane.analysis.delivery import SAME_LOAD, Runs
from isolane.analysis.flow_words import Flow, flow_of
from isolane.analysis.trial_figures import FIGURES, Figure
from isolane.compare.circumstances import changed
from isolane.compare.compared_figures import offered, offered_beside, routers_of, values_of
from isolane.compare.comparison_models import LIMIT, Comparison, Difference, Outcome
from isolane.errors import SpecError
from isolane.results.folder import EXPERIMENT, RunFolder
from isolane.results.results import Trial
from isolane.results.resume import refuse_search
from isolane.spec import load_experiment
from isolane.spec.fields import Mode
from isolane.stats.shifts import Shift, adjusted, shift

SAME_ATTACK: Final = 0.05
"""Part by which what the other routers are sent may differ: each run finds for itself what the
generator can send at most, and a heavy attack falls a little short of what it was to be."""
ROUNDING: Final = 1e-9
"""Of logarithms and back; no change is known so exactly."""
Key = tuple[str, str]
"""Arm and load."""


@dataclass(frozen=True)
class _Run:
    folder: RunFolder
    name: str
    points: Mapping[Key, Sequence[Trial]]


@dataclass(frozen=True)
class _Pair:
    """A figure in both runs, before all of them are looked at together."""

    arm: str
    load: str
    router: str
    figure: Figure
    before: Sequence[float]
    after: Sequence[float]
    reason: str | None
    mode: Mode
    same_load: bool
    """Else it is at the same multiple of what a router forwards, which each run has found anew."""


def compare(before: Path, after: Path, tolerance: float) -> Comparison:
    """Compare two runs of one experiment, or of two that have arms and loads in common.

    Parameters
    ----------
    before, after
        Their folders.
    tolerance
        By how much a figure may get worse, part of its first value (of loss: of the offered
        frames), so that it is not `beyond_tolerance`.

    Raises
    ------
    SpecError
        If one is no run, has no trial that counts, or they have nothing in common.
    """
    first, second = (_read(path) for path in (before, after))
    common = [key for key in first.points if key in second.points]
    if not common:
        raise SpecError(
            f"{before} and {after} have no arm at the same load in common: the first has "
            f"{_listed(first.points)}, the second {_listed(second.points)}"
        )
    pairs = [pair for key in common for pair in _pairs(key, first.points[key], second.points[key])]
    return Comparison(
        before=str(before),
        after=str(after),
        name=first.name,
        tolerance=tolerance,
        differences=tuple(_differences(pairs, tolerance)),
        only_before=tuple(_named(key) for key in first.points if key not in second.points),
        only_after=tuple(_named(key) for key in second.points if key not in first.points),
        changed=changed(first.folder, second.folder),
    )


def _read(path: Path) -> _Run:
    folder = RunFolder.open(path)
    refuse_search(folder)
    experiment = load_experiment(path / EXPERIMENT)
    groups = usable(folder.trials(), [arm.name for arm in experiment.resolved_arms()])
    if not groups:
        raise SpecError(f"{path}: no trial of this run counts, so there is nothing to compare")
    return _Run(
        folder,
        experiment.name,
        {(arm, trials[0].point_label): trials for (arm, _), trials in groups.items()},
    )


def _pairs(key: Key, before: Sequence[Trial], after: Sequence[Trial]) -> Iterator[_Pair]:
    first, second = routers_of(before), routers_of(after)
    for router in first:
        if router in second:
            yield from _of_router(key, router, first[router], second[router])


def _of_router(key: Key, router: str, before: Runs, after: Runs) -> Iterator[_Pair]:
    mode = before[0][1].mode
    if after[0][1].mode != mode:
        return  # frames and requests have nothing in common
    told = _another_load(before, after, flow_of([mode]))
    in_capacities = all(router.load_x is not None for _, router in (*before, *after))
    for figure in FIGURES:
        values = values_of(figure, before), values_of(figure, after)
        if all(values):
            # At the same multiple of what a router forwards, it is to lose the same part.
            is_part = in_capacities and not figure.relative
            yield _Pair(
                *key, router, figure, *values, None if is_part else told, mode, told is None
            )


def _another_load(before: Runs, after: Runs, flow: Flow) -> str | None:
    """Say why nothing is compared, where both runs do not mean the same loads by their name."""
    looked_at = (("", offered, SAME_LOAD), ("to the other routers ", offered_beside, SAME_ATTACK))
    for whose, of, within in looked_at:
        first, second = of(before), of(after)
        if abs(second - first) > within * max(first, second):
            told = f"{whose}{flow.rate(first)} were sent, then {flow.rate(second)}"
            hint = " (--capacity-from gives two runs the same 1x)"
            return told + (hint if _have_their_own_1x(before, after) else "")
    return None


def _have_their_own_1x(before: Runs, after: Runs) -> bool:
    """Tell whether loads in x mean different loads in two runs."""
    first, second = (
        [
            (router.intended_pps or router.offered_pps) / router.load_x
            for trial, _ in runs
            for router in trial.routers
            if router.load_x
        ]
        for runs in (before, after)
    )
    if not first or not second:
        return False
    return not math.isclose(median(first), median(second), rel_tol=SAME_LOAD)


def _differences(pairs: Sequence[_Pair], tolerance: float) -> Iterator[Difference]:
    shifts = [None if pair.reason else _shift(pair) for pair in pairs]
    known = iter(adjusted([found.p for found in shifts if found is not None]))
    for pair, found in zip(pairs, shifts, strict=True):
        yield _difference(pair, found, None if found is None else next(known), tolerance)


def _shift(pair: _Pair) -> Shift:
    """Return the shift; that of logarithms where a change is a part of the first value."""
    if pair.figure.relative and min(*pair.before, *pair.after) > 0:
        return shift(list(map(math.log, pair.before)), list(map(math.log, pair.after)))
    return shift(pair.before, pair.after)


def _difference(
    pair: _Pair, found: Shift | None, adjusted_p: float | None, tolerance: float
) -> Difference:
    change, low, high = _change(pair, found)
    outcome = _outcome(pair.figure, found, adjusted_p)
    fewer = None if high is None else -high
    near = fewer if pair.figure.more_is_better else low
    return Difference(
        arm=pair.arm,
        load=pair.load,
        router=pair.router,
        figure=pair.figure.name,
        before=median(pair.before),
        after=median(pair.after),
        values=(len(pair.before), len(pair.after)),
        change=change,
        low=low,
        high=high,
        p=None if found is None else found.p,
        adjusted_p=adjusted_p,
        outcome=outcome,
        beyond_tolerance=outcome == "worse"
        and pair.same_load
        and (near is None or near > tolerance + ROUNDING),
        reason=pair.reason,
        mode=pair.mode,
    )


def _change(pair: _Pair, found: Shift | None) -> tuple[float | None, float | None, float | None]:
    """Return the change with its interval, as the figure has it."""
    if found is None:
        return None, None, None
    if not pair.figure.relative:
        return found.estimate, _bound(found.low), _bound(found.high)
    base = median(pair.before)
    if math.isinf(base) or math.isinf(median(pair.after)) or base <= 0:
        return None, None, None
    ends = (None if math.isinf(end) else end for end in (found.low, found.high))
    if min(*pair.before, *pair.after) <= 0:  # one of them has no logarithm
        low, high = (None if end is None else end / base for end in ends)
        return found.estimate / base, low, high
    low, high = (None if end is None else math.expm1(end) for end in ends)
    return math.expm1(found.estimate), low, high


def _bound(end: float) -> float | None:
    return None if math.isinf(end) else end


def _outcome(figure: Figure, found: Shift | None, adjusted_p: float | None) -> Outcome:
    if found is None or adjusted_p is None:
        return "not compared"
    if adjusted_p > LIMIT or found.estimate == 0:
        return "no difference shown"
    return "better" if (found.estimate > 0) == figure.more_is_better else "worse"


def _named(key: Key) -> str:
    return f"{key[0]} at {key[1]}"


def _listed(points: Mapping[Key, Sequence[Trial]]) -> str:
    names = [_named(key) for key in points]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more

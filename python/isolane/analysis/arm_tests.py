"""Tests whether the arms of a run are different, and whether the load matters to each of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, count
from typing import Final

import numpy as np

from isolane.analysis.arm_values import (
    ByArm,
    Observed,
    TwoArms,
    finite_median,
    invocations,
    observed,
    trend_values,
)
from isolane.analysis.delivery import Groups
from isolane.analysis.trial_figures import FIGURES, Figure
from isolane.results.arm_test_models import (
    LIMIT,
    ArmDifference,
    ArmTests,
    LoadTrend,
    Outcome,
    Spread,
    TrendOutcome,
)
from isolane.stats.rank_trend import rank_trend, smallest_trend_p
from isolane.stats.sequential import holm
from isolane.stats.shifts import Shift, rank_biserial, shift, smallest_p
from isolane.stats.signed_ranks import signed_ranks, smallest_signed_p

TESTED: Final = tuple(f for f in FIGURES if f.name in ("p50", "p99", "CPU per frame"))
"""What a verdict does not tell; throughput and loss it does, with simultaneous intervals."""
_FAR_NS, _LONGEST_NS = 1e30, 1e15
"""Stands for an infinite time between quartiles; longer than any delay (11 days)."""


def arm_tests(groups: Groups) -> ArmTests | None:
    """Compare the arms of a run, and each arm's loads.

    Parameters
    ----------
    groups
        The trials that count, by arm and point.

    Returns
    -------
    ArmTests or None
        None with one arm and one load, where there is nothing to compare.
    """
    differences: list[ArmDifference] = []
    trends: list[LoadTrend] = []
    spreads: list[Spread] = []
    for figure in TESTED:
        found = observed(groups, figure)
        differences += compared_arms(figure, found)
        trends += correlated_loads(figure, found)
        spreads += _spreads(figure, found)
    if not differences and not trends:
        return None
    family = len(list(combinations({arm for arm, _ in groups}, 2)))
    return ArmTests(
        differences=tuple(differences),
        trends=tuple(trends),
        spreads=tuple(spreads),
        rounds_needed=rounds_needed(family) if differences else None,
        unit="invocation" if invocations(groups) > 1 else "round",
    )


def rounds_needed(comparisons: int) -> int:
    """Return how many rounds of each arm can show a difference in so many comparisons."""
    return next(n for n in count(2) if comparisons * smallest_p(n, n) <= LIMIT)


@dataclass(frozen=True)
class _Tested:
    """Two arms, before all comparisons of the figure are looked at together."""

    first: str
    second: str
    arms: TwoArms
    paired: bool
    """Decided by the number of rounds alone, or p would be chosen after a look at it."""
    pairs: int
    shift: Shift
    effect: float

    @property
    def smallest_p(self) -> float:
        return smallest_signed_p(self.pairs) if self.paired else smallest_p(*self.arms.units())


def compared_arms(figure: Figure, found: ByArm) -> Iterator[ArmDifference]:
    """Compare each two arms by one figure; p values are corrected for all of them."""
    both = [(a, b, TwoArms.of(found[a], found[b])) for a, b in combinations(found, 2)]
    both = [(a, b, arms) for a, b, arms in both if arms.first and arms.second]
    tests = [_tested(a, b, arms, len(both)) for a, b, arms in both]
    adjusted = holm([test.shift.p for test in tests])
    smallest = holm([test.smallest_p for test in tests])
    for test, p, min_p in zip(tests, adjusted, smallest, strict=True):
        yield _difference(figure, test, (p, min_p))


def _tested(first: str, second: str, arms: TwoArms, comparisons: int) -> _Tested:
    """Test pairs where there are enough of them to show anything, else the two samples."""
    scale = math.log if arms.positive else float
    ratios = arms.differences(scale)
    paired = bool(ratios) and comparisons * smallest_signed_p(len(ratios)) <= LIMIT
    if paired:
        signed = signed_ranks(ratios)
        found, effect = Shift(signed.estimate, signed.low, signed.high, signed.p), signed.effect
    else:
        samples = arms.samples(scale)
        found, effect = shift(*samples), rank_biserial(*samples)
    return _Tested(first, second, arms, paired, len(ratios), found, effect)


def _difference(figure: Figure, test: _Tested, ps: tuple[float, float]) -> ArmDifference:
    found, shift_ns = test.shift, test.shift.estimate
    change = low = high = None
    if test.arms.positive and math.isfinite(found.estimate):
        change = math.expm1(found.estimate)
        shift_ns = change * finite_median([one.value for one in test.arms.first])
        if math.isfinite(found.low) and math.isfinite(found.high):
            low, high = math.expm1(found.low), math.expm1(found.high)
    outcome: Outcome = "no difference shown"
    if ps[1] > LIMIT:
        outcome = "too few rounds"
    elif ps[0] <= LIMIT and found.estimate:
        outcome = "different"
    return ArmDifference(
        figure=figure.name,
        router=_router((*test.arms.first, *test.arms.second)),
        first=test.first,
        second=test.second,
        loads=test.arms.loads,
        test="Wilcoxon" if test.paired else "Mann-Whitney",
        pairs=test.pairs,
        values=test.arms.units(),
        shift=shift_ns,
        change=change,
        low=low,
        high=high,
        effect=test.effect,
        p=found.p,
        adjusted_p=ps[0],
        smallest_p=ps[1],
        outcome=outcome,
    )


def _router(own: Sequence[Observed]) -> str:
    names = {name for one in own for name, _ in one.asked}
    return names.pop() if len(names) == 1 else "mean of all routers"


def correlated_loads(figure: Figure, found: ByArm) -> Iterator[LoadTrend]:
    """Correlate one figure with the load, in each arm that has several loads."""
    known = [
        (arm, varied, settings, values)
        for arm, own in found.items()
        for varied, settings, values in (trend_values(own),)
        if len(set(settings)) > 1
    ]
    tests = [rank_trend(settings, values) for _, _, settings, values in known]
    adjusted = holm([test.p for test in tests])
    smallest = holm([smallest_trend_p(settings) for _, _, settings, _ in known])
    for (arm, varied, settings, values), test, p, min_p in zip(
        known, tests, adjusted, smallest, strict=True
    ):
        outcome: TrendOutcome = "no trend shown"
        if min_p > LIMIT:
            outcome = "too few rounds"
        elif p <= LIMIT:
            outcome = "rises" if test.tau > 0 else "falls"
        yield LoadTrend(
            figure=figure.name,
            router=_router(found[arm]),
            arm=arm,
            load=varied,
            loads=len(set(settings)),
            values=len(values),
            tau=test.tau,
            p=test.p,
            adjusted_p=p,
            outcome=outcome,
        )


def _spreads(figure: Figure, found: ByArm) -> Iterator[Spread]:
    for arm, own in found.items():
        for point in sorted({one.point for one in own}):
            here = [one for one in own if one.point == point]
            ends = [min(one.value, _FAR_NS) for one in here]
            five = np.quantile(ends, (0.0, 0.25, 0.5, 0.75, 1.0))
            low, p25, middle, p75, high = (
                math.inf if value > _LONGEST_NS else float(value) for value in five
            )
            yield Spread(
                figure=figure.name,
                router=_router(here),
                arm=arm,
                point=point,
                point_label=here[0].label,
                trials=len(here),
                minimum=low,
                p25=p25,
                median=middle,
                p75=p75,
                maximum=high,
            )

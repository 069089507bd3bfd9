"""One value of a figure for each trial of a run, and the values of two arms that can be compared.

Trials of one round use one test bed in each arm, so they are more alike than trials of different
rounds: a round counts once, with the median over its loads. Where a run has several invocations,
an invocation counts once.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from isolane.analysis.delivery import Groups, aggressors_of, same_load
from isolane.analysis.trial_figures import Figure
from isolane.results.arm_test_models import Varied
from isolane.results.results import RouterTrial, Trial
from isolane.spec.work_models import NO_WORK

Scale = Callable[[float], float]
"""What is made of a value before values are subtracted: its logarithm, or nothing."""


@dataclass(frozen=True)
class Observed:
    """The figure of one trial."""

    point: int
    label: str
    repeat: int
    unit: int
    """Round or invocation: what counts as one independent value."""
    offered_pps: float
    """To the routers whose figure it is."""
    aggressors_pps: float
    all_pps: float
    routers: int
    """All of the trial, aggressors among them."""
    asked: tuple[tuple[str, str], ...]
    """These routers, and whether they pass frames on or answer."""
    value: float
    working: int = 0
    """Routers that work besides."""
    closed: bool = False
    """Whether one of all is asked in a closed loop, of which nobody says how much it is."""


ByArm = Mapping[str, Sequence[Observed]]


def watched(trial: Trial) -> list[RouterTrial]:
    """Return the routers that a run is about: victims; without any, all but aggressors."""
    victims = [router for router in trial.routers if router.role == "victim"]
    others = [router for router in trial.routers if router.role != "aggressor"]
    return victims or others or list(trial.routers)


def observed(groups: Groups, figure: Figure) -> ByArm:
    """Return the figure of all trials that tell it, by arm.

    Of several routers their mean: the slowest of many is slower than that of few by chance alone.
    """
    found: dict[str, list[Observed]] = defaultdict(list)
    several = invocations(groups) > 1
    for (arm, _), trials in groups.items():
        for trial in trials:
            value = _value(trial, figure)
            if value is not None:
                found[arm].append(_observed(trial, value, several=several))
    return found


def invocations(groups: Groups) -> int:
    """Return how many invocations a run's trials are from."""
    return len({trial.invocation for trials in groups.values() for trial in trials})


def _value(trial: Trial, figure: Figure) -> float | None:
    values = [figure.pick(trial, router) for router in watched(trial)]
    known = [value for value in values if value is not None]
    if not values or len(known) < len(values):
        return None
    return fmean(known)


def _observed(trial: Trial, value: float, *, several: bool) -> Observed:
    routers = watched(trial)
    return Observed(
        point=trial.point,
        label=trial.point_label,
        repeat=trial.repeat,
        unit=trial.invocation if several else trial.repeat,
        offered_pps=sum(router.asked_pps for router in routers),
        aggressors_pps=sum(router.asked_pps for router in aggressors_of(trial)),
        all_pps=sum(router.asked_pps for router in trial.routers),
        routers=len(trial.routers),
        working=sum(router.work != NO_WORK for router in trial.routers),
        closed=any(router.closed for router in trial.routers),
        asked=tuple((router.router, router.mode) for router in routers),
        value=value,
    )


@dataclass(frozen=True)
class TwoArms:
    """The trials of two arms at the loads that both have in common."""

    first: Sequence[Observed]
    second: Sequence[Observed]

    @classmethod
    def of(cls, first: Sequence[Observed], second: Sequence[Observed]) -> TwoArms:
        """Leave out trials at points where the other arm has none, or is offered another load."""
        return cls(_comparable(first, second), _comparable(second, first))

    @property
    def positive(self) -> bool:
        """Whether ratios can be taken."""
        return all(one.value > 0 for one in (*self.first, *self.second))

    @property
    def loads(self) -> int:
        """Number of loads in common."""
        return len({one.point for one in self.first})

    def differences(self, scale: Scale) -> list[float]:
        """Return second less first at the same load and round: the median of each unit."""
        before = {(one.point, one.repeat): one for one in self.first}
        found: dict[int, list[float]] = defaultdict(list)
        for one in self.second:
            other = before.get((one.point, one.repeat))
            if other is not None:
                found[one.unit].append(minus(scale(one.value), scale(other.value)))
        return [_middle(values) for values in found.values()]

    def samples(self, scale: Scale) -> tuple[list[float], list[float]]:
        """Return the values of both arms less the median at their load: the median of each unit."""
        found: dict[int, list[float]] = defaultdict(list)
        for one in (*self.first, *self.second):
            found[one.point].append(scale(one.value))
        middles = {point: finite_median(values) for point, values in found.items()}
        return _centred(self.first, middles, scale), _centred(self.second, middles, scale)

    def units(self) -> tuple[int, int]:
        """Return how many rounds or invocations each arm has."""
        return len({one.unit for one in self.first}), len({one.unit for one in self.second})


def _comparable(own: Sequence[Observed], others: Sequence[Observed]) -> list[Observed]:
    by_point = {one.point: one for one in others}
    return [one for one in own if (it := by_point.get(one.point)) is not None and _alike(one, it)]


def _alike(one: Observed, other: Observed) -> bool:
    return (
        one.asked == other.asked
        and same_load(one.offered_pps, other.offered_pps)
        and same_load(one.aggressors_pps, other.aggressors_pps)
        and one.working == other.working
    )


def _centred(own: Sequence[Observed], middles: Mapping[int, float], scale: Scale) -> list[float]:
    found: dict[int, list[float]] = defaultdict(list)
    for one in own:
        found[one.unit].append(scale(one.value) - middles[one.point])
    return [_middle(values) for values in found.values()]


def finite_median(values: Sequence[float]) -> float:
    """Return the median of the finite values; 0 without any."""
    return median([value for value in values if math.isfinite(value)] or [0.0])


def _middle(values: Sequence[float]) -> float:
    found = median(values)
    return 0.0 if math.isnan(found) else found  # between opposite infinities


def minus(value: float, other: float) -> float:
    """Return the difference; that of two infinite values is none."""
    return 0.0 if math.isinf(value) and value == other else value - other


def trend_values(own: Sequence[Observed]) -> tuple[Varied, list[float], list[float]]:
    """Return what an arm's points vary, its value in each trial, and the figure there.

    The number of routers, if each point has another one; else the aggressors' load, if that
    varies; else the load of all routers, frames/s. Each unit counts once at each point. Points
    count at which as few routers as at any work besides.
    """
    fewest = min((one.working for one in own), default=0)
    own = [one for one in own if one.working == fewest]
    points = {one.point: one for one in own if not one.closed}
    routers = {point: float(one.routers) for point, one in points.items()}
    attacks = {point: _rounded(one.aggressors_pps) for point, one in points.items()}
    varied: Varied = "offered load"
    settings = {point: _rounded(one.all_pps) for point, one in points.items()}
    if len(set(routers.values())) == len(points) > 1:
        varied, settings = "number of routers", routers
    elif len(set(attacks.values())) > 1:
        varied, settings = "aggressor's load", attacks
    units: dict[tuple[int, int], list[float]] = defaultdict(list)
    for one in own:
        if not one.closed:  # nobody says how much a closed loop is
            units[one.point, one.unit].append(one.value)
    at = [settings[point] for point, _ in units]
    return varied, at, [median(values) for values in units.values()]


def _rounded(load_pps: float) -> float:
    """Let loads be equal that were worked out in different ways."""
    return float(f"{load_pps:.9g}")

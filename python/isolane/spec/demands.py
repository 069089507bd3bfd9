"""What each router is offered at a point: the experiment's loads, as far as they can be sent.

Loads are open loop. Above the generator's own maximum it would send less than it is asked for, and
late. So that maximum is known before the first round, and the loads of a point beyond it are moved:
first the aggressors', in one proportion, until the point as a whole can be sent. The maximum is
each arm's own: a generator that shares its core with the receiver sends less where more comes
through.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from isolane.spec.experiment import Experiment
from isolane.spec.load_points import Point, PointRouter
from isolane.spec.units import Load

ROUNDING = 1e-9
SAME = 0.001
"""A point that is moved by a smaller share counts as not moved."""


@dataclass(frozen=True)
class Demand:
    """What one router is offered in a trial."""

    router: PointRouter
    offered_pps: float
    load_x: float | None
    """The same as a multiple of the capacity, where there is one."""
    intended_pps: float | None = None
    """What the experiment asks for, where that is more than can be sent; None: the same."""


@dataclass(frozen=True)
class Scale:
    """What the loads of an experiment refer to.

    Parameters
    ----------
    capacity_pps
        What 1x is, frames/s; None where it is not known, or not needed.
    max_pps
        By arm: the highest sum of all routers' loads that can be sent there, frames/s.
    line_pps
        The same for arms that are not in it; None: no limit.
    """

    capacity_pps: float | None = None
    max_pps: Mapping[str, float] = field(default_factory=dict)
    line_pps: float | None = None

    def limit(self, arm: str) -> float | None:
        """Return the highest sum of loads in an arm, frames/s; None without a limit."""
        return self.max_pps.get(arm, self.line_pps)


def demands_of(experiment: Experiment, point: Point, scale: Scale, arm: str) -> tuple[Demand, ...]:
    """Return what each router is offered at a point of an arm.

    Raises
    ------
    ValueError
        If a load refers to a capacity or a maximum that is not known.
    """
    asked = [_asked(experiment, router, scale) for router in point.routers]
    limit = scale.limit(arm)
    filled = _filled(point, asked, limit)
    moved = _moved(point, filled, limit)
    return tuple(
        Demand(
            router,
            pps,
            _as_multiple(router.load, pps, scale.capacity_pps),
            None if pps == intended else intended,
        )
        for router, pps, intended in zip(point.routers, moved, filled, strict=True)
    )


def highest_pps(experiment: Experiment, scale: Scale) -> float:
    """Return the highest offered load of all points and arms, frames/s."""
    window_ns = experiment.trial.duration_ns
    return max(
        sum(
            demand.router.pattern.timing.while_sending_pps(demand.offered_pps, window_ns)
            for demand in demands_of(experiment, point, scale, arm.name)
        )
        for arm in experiment.resolved_arms()
        for point in experiment.points()
    )


def known_demands(
    experiment: Experiment, point: Point, scale: Scale, arm: str
) -> tuple[Demand | None, ...]:
    """Return the same where it can be told; None for a load in capacities that nobody knows."""
    try:
        return demands_of(experiment, point, scale, arm)
    except ValueError:
        pass
    absolute = [
        None if router.load.unit in ("x", "max") else _asked(experiment, router, scale)
        for router in point.routers
    ]
    return tuple(
        None if pps is None else Demand(router, pps, None)
        for router, pps in zip(point.routers, absolute, strict=True)
    )


def line_pps(experiment: Experiment) -> float:
    """Return what one wire carries of the largest frames, frames/s.

    The maximum, of all routers together, of a generator that has no other.
    """
    largest = max(experiment.traffic_of(r.name).wire_bps(1.0) for r in experiment.routers)
    return experiment.traffic.line_rate_bps / largest


def intended_pps(demands: Sequence[Demand]) -> float:
    """Return what a point was to offer in all, frames/s."""
    return sum(
        demand.offered_pps if demand.intended_pps is None else demand.intended_pps
        for demand in demands
    )


def offered_pps(demands: Sequence[Demand]) -> float:
    """Return what a point offers in all, frames/s."""
    return sum(demand.offered_pps for demand in demands)


def is_moved(demands: Sequence[Demand]) -> bool:
    """Tell whether a point lies below what the experiment asked for."""
    return offered_pps(demands) < (1 - SAME) * intended_pps(demands)


def _asked(experiment: Experiment, router: PointRouter, scale: Scale) -> float | None:
    """Return the load of a router, frames/s; None for what is left of the maximum."""
    if router.load.unit == "max":
        return None
    frame_bytes = experiment.traffic_of(router.name).mean_frame_bytes
    return router.load.to_pps(scale.capacity_pps, frame_bytes)


def _filled(point: Point, asked: Sequence[float | None], max_pps: float | None) -> list[float]:
    """Divide what is left of the maximum among the routers that ask for it."""
    known = sum(pps for pps in asked if pps is not None)
    shares = sum(r.load.value for r, pps in zip(point.routers, asked, strict=True) if pps is None)
    if shares and max_pps is None:
        raise ValueError("max has no meaning where the generator's maximum is not known")
    left = max(0.0, (max_pps or 0.0) - known)
    return [
        left * router.load.value / shares if pps is None else pps
        for router, pps in zip(point.routers, asked, strict=True)
    ]


def _moved(point: Point, pps: Sequence[float], max_pps: float | None) -> list[float]:
    """Reduce the aggressors' loads, then all, until the sum can be sent."""
    if max_pps is None or sum(pps) <= (1 + ROUNDING) * max_pps:
        return list(pps)
    attack = [router.role == "aggressor" for router in point.routers]
    attacked = sum(load for load, is_attack in zip(pps, attack, strict=True) if is_attack)
    rest = sum(pps) - attacked
    if rest < max_pps and attacked:
        factor = (max_pps - rest) / attacked
        return [
            load * factor if is_attack else load
            for load, is_attack in zip(pps, attack, strict=True)
        ]
    return [load * max_pps / sum(pps) for load in pps]


def _as_multiple(load: Load, pps: float, capacity_pps: float | None) -> float | None:
    if load.unit == "x" and capacity_pps and math.isclose(pps, load.value * capacity_pps):
        return load.value
    return pps / capacity_pps if capacity_pps else None

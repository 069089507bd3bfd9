"""The search for the generator's own maximum in each arm, before the first round.

The point with the highest load is tried for some 100 ms, and less where not all of it leaves
(:mod:`isolane.analysis.generator_maximum`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from isolane.analysis.generator_maximum import PURPOSE, audits_of, is_known, sendable_pps
from isolane.results.results import Capacity, Trial
from isolane.run.schedule import Task
from isolane.spec import Arm, Experiment, Point
from isolane.spec.demands import Demand, Scale, demands_of, line_pps, offered_pps

WINDOW_NS, WARMUP_NS = 60_000_000, 20_000_000
SURE_PPS: Final = 100_000.0
"""Taken to be within the reach of every generator: no search is made for less."""


def is_needed(experiment: Experiment, capacity: Capacity | None) -> bool:
    """Tell whether an experiment may ask for more than a generator sends."""
    if experiment.web:  # clients are no generator of frames: where one is the limit, the trial says
        return False
    return _asked_pps(experiment, heaviest(experiment, capacity), capacity) > SURE_PPS


def heaviest(experiment: Experiment, capacity: Capacity | None) -> Point:
    """Return the point with the highest sum of loads, whose routers do nothing besides."""
    points = experiment.points()
    return max(points, key=lambda p: _asked_pps(experiment, p, capacity)).without_work()


def _asked_pps(experiment: Experiment, point: Point, capacity: Capacity | None) -> float:
    if any(router.load.unit == "max" for router in point.routers):
        return math.inf
    scale = Scale(capacity.pps.median if capacity else None)
    return offered_pps(demands_of(experiment, point, scale, ""))


def next_task(
    experiment: Experiment, arm: Arm, trials: Sequence[Trial], capacity: Capacity | None
) -> Task | None:
    """Return the trial that an arm still lacks; None when its maximum is known."""
    own = audits_of(trials, arm.name)
    if is_known(own):
        return None
    return Task(arm, heaviest(experiment, capacity), len(own), PURPOSE)


def next_demands(
    experiment: Experiment,
    arm: Arm,
    trials: Sequence[Trial],
    capacity: Capacity | None,
    first_pps: float,
) -> tuple[Demand, ...]:
    """Return what the next trial of an arm offers.

    Parameters
    ----------
    trials
        All trials of the run so far.
    first_pps
        The first load to try, frames/s, if the experiment asks for more.
    """
    own = audits_of(trials, arm.name)
    first = min(first_pps, line_pps(experiment)) if experiment.needs_maximum else first_pps
    limit = sendable_pps(own) if own else first
    scale = Scale(capacity.pps.median if capacity else None, {arm.name: limit})
    return demands_of(experiment, heaviest(experiment, capacity), scale, arm.name)

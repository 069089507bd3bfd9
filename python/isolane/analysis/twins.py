"""Twins: second copies of arms, which show how much two equal arms differ (an A/A comparison).

A twin is the same arm on a test bed of its own, built anew, in the same round as the arm, and at a
random place in it. It is measured at one point only, where the offered load is highest: there the
host is busiest, and there most verdicts fall. Twins cost about a tenth of a run.
"""

from __future__ import annotations

import math
import random

from isolane.spec import Arm, Experiment, Point
from isolane.spec.work_models import NO_WORK

IN_TEN_TRIALS = 1
"""Twins to ten other trials; ..."""
IN_TEN_ROUNDS = 6
"""... and not fewer than this in ten rounds."""
MIN_PAIRS = 3
"""Fewer pairs of an arm and its twin say nothing about noise; an experiment with too few trials
for so many has no twins."""
ANY_CAPACITY_PPS = 1e6
"""Stands for 1x where loads are compared before it is known."""


def twins(experiment: Experiment, repeat: int) -> tuple[Arm, ...]:
    """Return the arms that have a twin in a round.

    Depends on the experiment and the round alone, so a resumed run keeps it. The arms take turns.
    """
    arms = list(experiment.resolved_arms())
    in_ten = max(IN_TEN_TRIALS * len(arms) * len(experiment.points()), IN_TEN_ROUNDS)
    if experiment.trial.repeats * in_ten < 10 * MIN_PAIRS:
        return ()
    random.Random(f"{experiment.trial.seed}/twins").shuffle(arms)  # noqa: S311 - an order
    first, behind = repeat * in_ten // 10, (repeat + 1) * in_ten // 10
    return tuple(arms[number % len(arms)] for number in range(first, behind))[: len(arms)]


def twin_point(experiment: Experiment) -> Point:
    """Return the point at which twins are measured: the one with the highest offered load.

    Among those at which as many routers as at any work besides.
    """
    return max(
        experiment.points(),
        key=lambda point: (
            sum(router.work != NO_WORK for router in point.routers),
            _offered_pps(experiment, point),
        ),
    )


def _offered_pps(experiment: Experiment, point: Point) -> float:
    return sum(
        math.inf
        if router.load.unit == "max"
        else router.load.to_pps(
            ANY_CAPACITY_PPS, experiment.traffic_of(router.name).mean_frame_bytes
        )
        for router in point.routers
    )

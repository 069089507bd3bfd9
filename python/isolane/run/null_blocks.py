"""Trials of the null DUT: which there are, and how long they take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

from isolane.analysis.null_dut import ARM, PURPOSE
from isolane.run.schedule import Block, Task
from isolane.spec import Experiment

WINDOW_NS, WARMUP_NS = 100_000_000, 20_000_000
"""A window is as long as the experiment's, but at most this; a wire has nothing to warm up."""


def null_times(warmup_ns: int, window_ns: int) -> tuple[int, int]:
    """Return warm-up and window of a trial without a router, ns, from those of the experiment."""
    return min(warmup_ns, WARMUP_NS), min(window_ns, WINDOW_NS)


def null_blocks(experiment: Experiment, done: set[int]) -> Iterator[Block]:
    """Order the points that have not been measured yet by their routers, which share a bench.

    There are none where all routers are external, since their wires are not Isolane's, nor of load
    balancers, without which nobody answers.
    """
    made = [arm for arm in experiment.resolved_arms() if not arm.external]
    if not made or experiment.web:
        return
    arm = replace(made[0], name=ARM)
    quiet = [point.without_work() for point in experiment.points()]
    points = sorted(quiet, key=lambda point: len(point.routers))
    for _, same in groupby(points, key=lambda point: [router.name for router in point.routers]):
        group = [point for point in same if point.index not in done]
        if group:
            yield Block(
                arm, group[0].routers, tuple(Task(arm, point, 0, PURPOSE) for point in group)
            )

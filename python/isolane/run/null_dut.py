"""The null DUT: what the wire alone, generator and receiver included, adds to each delay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from isolane.run.results import NullDut, Trial
from isolane.run.schedule import Block, Task
from isolane.spec import Experiment

PURPOSE: Final = "null-dut"
ARM = "null DUT"
"""Stands for the arm in its trials; no arm of an experiment can have this name."""
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


def floors(trials: Sequence[Trial]) -> tuple[NullDut, ...]:
    """Return what the trials without a device under test found, by point and router."""
    found = sorted((t for t in trials if t.purpose == PURPOSE), key=lambda trial: trial.point)
    return tuple(
        NullDut(
            point=trial.point,
            point_label=trial.point_label,
            router=router.router,
            offered_pps=router.offered_pps,
            loss_ratio=router.loss_ratio,
            delay=router.delay,
            due_delay=router.due_delay,
            lateness=router.lateness,
            reason=trial.reason,
        )
        for trial in found
        for router in trial.routers
    )

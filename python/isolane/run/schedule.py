"""The order of trials: each round goes through all arms and points, so drift affects all alike."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from isolane.analysis.attempts import Key
from isolane.results.results import Purpose
from isolane.spec import Arm, Experiment, Point, PointRouter


@dataclass(frozen=True)
class Task:
    """One trial to be carried out."""

    arm: Arm
    point: Point
    repeat: int
    purpose: Purpose = "measure"
    invocation: int = 0

    @property
    def key(self) -> Key:
        """Identifies a trial within a run."""
        return (self.purpose, self.arm.name, self.point.index, self.repeat)


@dataclass(frozen=True)
class Block:
    """Trials on one bench, in order: same arm, same round, same routers."""

    arm: Arm
    routers: tuple[PointRouter, ...]
    tasks: tuple[Task, ...]


def blocks(
    experiment: Experiment,
    is_open: Callable[[Key], bool],
    invocations: int = 1,
) -> Iterator[Block]:
    """Order the trials that are still to be made.

    An invocation is as many rounds as the experiment has repeats. Rounds are numbered on through
    all invocations, and no block, so no test bed, serves two rounds.

    A round holds every arm and point once. Arms come in random order, and so do the points of an
    arm. Points with the same routers stay together, because a bench is built for them; these
    groups come in random order, too, so that drift does not look like an effect of the number of
    routers. The order depends on the experiment's seed and the round alone, so a resumed run
    keeps it.
    """
    for repeat in range(experiment.trial.repeats * invocations):
        order = random.Random(f"{experiment.trial.seed}/{repeat}")  # noqa: S311 - an order, no secret
        arms = list(experiment.resolved_arms())
        order.shuffle(arms)
        for arm in arms:
            yield from _of_arm(experiment, arm, repeat, order, is_open)


def _of_arm(
    experiment: Experiment,
    arm: Arm,
    repeat: int,
    order: random.Random,
    is_open: Callable[[Key], bool],
) -> Iterator[Block]:
    points = list(experiment.points())
    order.shuffle(points)
    groups: dict[tuple[str, ...], list[Point]] = {}
    for point in points:
        groups.setdefault(_router_names(point), []).append(point)
    # From a fixed order: that of the first points would favour groups with many points.
    for names in order.sample(sorted(groups), len(groups)):
        group = groups[names]
        invocation = repeat // experiment.trial.repeats
        tasks = tuple(Task(arm, point, repeat, "measure", invocation) for point in group)
        open_tasks = tuple(task for task in tasks if is_open(task.key))
        if open_tasks:
            yield Block(arm, group[0].routers, open_tasks)


def _router_names(point: Point) -> tuple[str, ...]:
    return tuple(router.name for router in point.routers)

"""Checks of objectives: are there such routers and arms, and can the figure be had?"""

from __future__ import annotations

from collections.abc import Iterator

from isolane.spec.arms import resolve_arms
from isolane.spec.load_points import patterns_of
from isolane.spec.models import ExperimentData
from isolane.spec.problems import Loc, Problem, listed, nearest, show


def objective_misfits(data: ExperimentData) -> Iterator[Problem]:
    """Yield the problems of the objectives of an experiment."""
    arms = [arm.name for arm in resolve_arms(data)]
    routers = {name: r for r in data.routers for name in (*r.member_names(), r.name)}
    for i, objective in enumerate(data.objectives):
        loc: Loc = ("objectives", i)
        router = routers.get(objective.router)
        if router is None:
            what = f"objective of an unknown router {show(objective.router)}"
            names = [each.name for each in data.routers]
            yield Problem(loc, what, listed(names) + nearest(objective.router, names))
        elif any(pattern.ends for pattern in patterns_of(router)):
            what = f"objective of {show(objective.router)}, none of whose frames comes back"
            yield Problem(loc, what, "a router with another pattern")
        elif (objective.relative or objective.metric == "retained") and router.role != "victim":
            what = f"{objective.metric} of {show(objective.router)} against that alone"
            yield Problem(loc, what, "this of a router with role victim")
        for arm in objective.arms:
            if arm not in arms:
                what = f"objective for an unknown arm {show(arm)}"
                yield Problem(loc, what, listed(arms) + nearest(arm, arms))

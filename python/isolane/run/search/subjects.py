"""What a search looks at: each router alone, or all of them together, in each arm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from isolane.errors import SpecError
from isolane.spec import Arm, Experiment, PointRouter
from isolane.spec.patterns import EVENLY
from isolane.spec.work_models import NO_WORK


@dataclass(frozen=True)
class Subject:
    """One search: these routers in this arm, each offered an equal share."""

    arm: Arm
    routers: tuple[PointRouter, ...]

    @property
    def together(self) -> bool:
        """Whether more than one router is loaded."""
        return len(self.routers) > 1

    @property
    def label(self) -> str:
        """Name of the routers."""
        if self.together:
            return f"{len(self.routers)} routers together"
        return self.routers[0].name


def subjects_of(
    experiment: Experiment, names: Sequence[str] = (), *, together: bool = False
) -> tuple[Subject, ...]:
    """Return what to search, arm by arm.

    Parameters
    ----------
    experiment
        Its arms are searched.
    names
        Routers (or groups) to search alone. By default the one that defines 1x, and each other one
        that is not like an earlier one in that arm (kind, path, policy, traffic).
    together
        Search all routers of the experiment together instead.

    Raises
    ------
    SpecError
        If a name is not one of the experiment's, or it has no frames.
    """
    if experiment.web:
        raise SpecError(
            f"router {experiment.web[0]}: with mode http it is asked for web objects, and a search "
            "looks for a rate of frames"
        )
    if together:
        fullest = max(experiment.points(), key=lambda point: len(point.routers)).routers
        for router in fullest:
            _refuse_ending(router)
        at_once = tuple(map(_at_once, fullest))
        return tuple(Subject(arm, at_once) for arm in experiment.resolved_arms())
    return tuple(
        Subject(arm, (router,))
        for arm in experiment.resolved_arms()
        for router in (_named(experiment, names) if names else _different(experiment, arm))
    )


def _named(experiment: Experiment, names: Sequence[str]) -> list[PointRouter]:
    known = {r.name: r for point in reversed(experiment.points()) for r in reversed(point.routers)}
    groups = {router.group: router for router in reversed(known.values())}
    found = []
    for name in dict.fromkeys(names):
        router = known.get(name) or groups.get(name)
        if router is None:
            accepted = ", ".join(dict.fromkeys([*(r.name for r in experiment.routers)]))
            raise SpecError(
                f"--router {name}: the experiment has no such router; it has {accepted}"
            )
        _refuse_ending(router)
        found.append(_at_once(router))
    return found


def _refuse_ending(router: PointRouter) -> None:
    if router.pattern.ends:
        raise SpecError(
            f"router {router.name}: with pattern {router.pattern} none of its frames comes back, "
            "and a search looks for the load at which all do"
        )


def _at_once(router: PointRouter) -> PointRouter:
    """Return a router whose frames begin with a trial, whose windows are not the experiment's.

    It does not work besides, either: what it forwards then is the kernel's to divide. And it has no
    role: of an aggressor nobody minds that it is sent less than it was to be.
    """
    router = replace(router, work=NO_WORK, role="router")
    if router.pattern.timing.kind != "from":
        return router
    return replace(router, pattern=replace(router.pattern, timing=EVENLY))


def _different(experiment: Experiment, arm: Arm) -> list[PointRouter]:
    """Return one router of each sort in an arm, that of 1x first."""
    reference = experiment.router(experiment.capacity_reference().router).name
    routers = experiment.points()[0].routers
    groups = dict.fromkeys([reference, *(router.group for router in routers)])
    found: dict[str, PointRouter] = {}
    for group in groups:
        first = _at_once(next(router for router in routers if router.group == group))
        traffic = (experiment.traffic_of(group), first.pattern)
        sort = (replace(arm.router(group), group=""), *traffic)
        if not first.pattern.ends:
            found.setdefault(repr(sort), first)
    return list(found.values())

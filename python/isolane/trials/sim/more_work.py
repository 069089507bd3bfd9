"""More for a router's kernel to do with each frame than its path's file says."""

from __future__ import annotations

from typing import Final

from isolane.errors import NotSupported
from isolane.spec.hostmodel import WIRE, PathData, ProfileData, Stage

FORWARDS: Final = "ip-forward"
"""The cost that tells where a router's kernel has a frame."""


def takes_in(path: PathData) -> tuple[str, Stage]:
    """Return where a router's kernel has a frame, and a stage of its own could come after it.

    What routers share goes on to be the same for all: then it is the last stage that they share
    without a queue between.

    Raises
    ------
    NotSupported
        If there is no such stage.
    """
    found = [(at, stage) for at, stage in path.ordered() if FORWARDS in stage.cost]
    if not found:
        raise NotSupported(
            f"no stage of path {path.name} has the cost {FORWARDS}, where its kernel could do "
            "more; accepted: mode forward and no services"
        )
    at, stage = found[0]
    while stage.shared and goes_on(path, stage):
        at, stage = stage.next, path.stages[stage.next]
    return at, stage


def with_more(path: PathData, costs: tuple[str, ...], name: str) -> PathData:
    """Return the path of a router whose kernel does more with each frame.

    Parameters
    ----------
    costs
        What that is, costs of a profile.
    name
        Of the stage that does it, where the one that forwards is shared with other routers.
    """
    at, stage = takes_in(path)
    if not stage.shared:
        dearer = stage.model_copy(update={"cost": (*stage.cost, *costs)})
        return path.model_copy(update={"stages": {**path.stages, at: dearer}})
    own = stage.model_copy(update={"cost": costs, "queue": None, "shared": False})
    return inserted(path, at, name, own)


def inserted(path: PathData, at: str, name: str, own: Stage) -> PathData:
    """Return the path with a stage of that name after another one.

    Raises
    ------
    NotSupported
        If the path has one of that name already.
    """
    if name in path.stages:
        raise NotSupported(
            f"path {path.name} has a stage {name} already, where Isolane would put one of its own; "
            "accepted: another name for that stage"
        )
    before = path.stages[at].model_copy(update={"next": name})
    return path.model_copy(update={"stages": {**path.stages, at: before, name: own}})


def goes_on(path: PathData, stage: Stage) -> bool:
    """Tell whether the context of a stage goes on with the next one, without a queue between."""
    return stage.next != WIRE and path.stages[stage.next].queue is None


def lacking(profile: ProfileData, path: PathData, made: PathData) -> list[str]:
    """Return what a path has come to need that a profile does not have, in words, each once."""
    costs = dict.fromkeys(cost for stage in made.stages.values() for cost in stage.cost)
    queues = dict.fromkeys(stage.queue for stage in made.stages.values() if stage.queue)
    old = {(*stage.cost, stage.queue) for stage in path.stages.values()}
    known = {name for names in old for name in names}
    return [
        *(f"cost {cost}" for cost in costs if cost not in known | profile.costs.keys()),
        *(f"queue {queue}" for queue in queues if queue not in known | profile.queues.keys()),
    ]

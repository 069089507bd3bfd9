"""The way of a request and its answer through a router, from that of frames that it passes on."""

from __future__ import annotations

from typing import Final

from isolane.errors import NotSupported
from isolane.spec.fields import Mode
from isolane.spec.hostmodel import WIRE, PathData, ProfileData, Stage

SERVER: Final = "server"
"""Name of the stage that answers, and the context of a container's server."""
ANSWER, ICMP_ANSWER, SOCKET = "answer", "icmp-answer", "socket"
"""What a profile says of them: costs of a server and of the kernel's ICMP, and its socket."""
_FORWARDS: Final = "ip-forward"
_IN_GUESTS: Final = ("process", "domain")


def answering(path: PathData, mode: Mode) -> PathData:
    """Return the path of a router that answers, if it does.

    The router's kernel takes in a request where it would pass a frame on. ICMP is answered there.
    A container's server is a process with a queue before it, its socket; the answer goes on in the
    server's time, up to the next queue. In a virtual machine kernel and server are the guest's.

    Parameters
    ----------
    path
        Of frames that it passes on.
    mode
        ``forward``, ``echo`` or ``icmp-echo``.

    Raises
    ------
    NotSupported
        If no stage of the path takes requests in, or one has the name of the one to come.
    """
    if mode == "forward":
        return path
    stages = dict(path.stages)
    name, stage = _takes_in(path)
    in_kernel = mode == "icmp-echo" or stage.context in _IN_GUESTS
    cost = ICMP_ANSWER if mode == "icmp-echo" else ANSWER
    if in_kernel and not stage.shared:
        stages[name] = stage.model_copy(update={"cost": (*stage.cost, cost)})
        return path.model_copy(update={"stages": stages})
    # What routers share goes on to be the same for all, those that answer and those that do not.
    while stage.shared and _goes_on(path, stage):
        name, stage = stage.next, path.stages[stage.next]
    stages[name] = stage.model_copy(update={"next": SERVER})
    if in_kernel:
        stages[SERVER] = stage.model_copy(update={"cost": (cost,), "queue": None, "shared": False})
        return path.model_copy(update={"stages": stages})
    stages[SERVER] = Stage(
        context=SERVER, cost=(cost,), queue=SOCKET, account=SERVER, next=stage.next
    )
    after = stage
    while _goes_on(path, after):
        following, after = after.next, path.stages[after.next]
        stages[following] = after.model_copy(update={"context": SERVER, "shared": False})
    return path.model_copy(update={"stages": stages})


def _takes_in(path: PathData) -> tuple[str, Stage]:
    """Return where a router's kernel has a frame that it would pass on."""
    if SERVER in path.stages:
        raise NotSupported(
            f"path {path.name} has a stage {SERVER} already: routers on it cannot be asked; "
            "accepted: another name for that stage"
        )
    for name, stage in path.ordered():
        if _FORWARDS in stage.cost:
            return name, stage
    raise NotSupported(
        f"a router on path {path.name} cannot be asked, because no stage of it has the cost "
        f"{_FORWARDS}, where requests are taken in; accepted: mode forward"
    )


def missing_of_answers(profile: ProfileData, path: PathData) -> list[str]:
    """Return what of an answering router's path is not in a profile, in words."""
    stages = path.stages.values()
    costs = dict.fromkeys(cost for stage in stages for cost in stage.cost)
    lacking = [
        cost for cost in costs if cost in (ANSWER, ICMP_ANSWER) and cost not in profile.costs
    ]
    sockets = {stage.queue for stage in stages} & {SOCKET} - set(profile.queues)
    return [*(f"cost {cost}" for cost in lacking), *(f"queue {queue}" for queue in sockets)]


def _goes_on(path: PathData, stage: Stage) -> bool:
    """Tell whether the context of a stage goes on with the next one, without a queue between."""
    return stage.next != WIRE and path.stages[stage.next].queue is None

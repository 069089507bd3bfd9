"""The way of a request and its answer through a router, from that of frames that it passes on."""

from __future__ import annotations

from typing import Final

from isolane.spec.fields import Mode
from isolane.spec.hostmodel import WIRE, PathData, ProfileData, Stage

SERVER: Final = "server"
"""Name of the stage that is a container's server."""
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
    """
    if mode == "forward":
        return path
    stages = dict(path.stages)
    name, stage = next((name, stage) for name, stage in path.ordered() if _FORWARDS in stage.cost)
    if mode == "icmp-echo" or stage.context in _IN_GUESTS:
        more = ICMP_ANSWER if mode == "icmp-echo" else ANSWER
        stages[name] = stage.model_copy(update={"cost": (*stage.cost, more)})
        return path.model_copy(update={"stages": stages})
    # What routers share goes on to be the same for all.
    while stage.shared and _goes_on(path, stage):
        name, stage = stage.next, path.stages[stage.next]
    server = Stage(context=SERVER, cost=(ANSWER,), queue=SOCKET, account=SERVER, next=stage.next)
    stages[name] = stage.model_copy(update={"next": SERVER})
    stages[SERVER] = server
    after = stage
    while _goes_on(path, after):
        following, after = after.next, path.stages[after.next]
        stages[following] = after.model_copy(update={"context": SERVER, "shared": False})
    return path.model_copy(update={"stages": stages})


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

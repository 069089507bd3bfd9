"""The way of a request and its answer through a router, from that of frames that it passes on."""

from __future__ import annotations

from typing import Final

from isolane.spec.fields import Mode
from isolane.spec.hostmodel import PathData, Stage
from isolane.trials.sim.more_work import goes_on, inserted, takes_in, with_more

SERVER: Final = "server"
"""Name of the stage that answers, and the context of a container's server."""
ANSWER, ICMP_ANSWER, SOCKET = "answer", "icmp-answer", "socket"
"""What a profile says of them: costs of a server and of the kernel's ICMP, and its socket."""
PROXY, TCP, CONNECTIONS = "proxy", "tcp", "connections"
"""The same of a load balancer: costs of its process and of the kernel's TCP, and its sockets."""
IN_KERNEL: Final = "tcp"
"""Name of the stage at which the kernel of a load balancer answers frames by itself."""
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
        ``forward``, ``echo``, ``icmp-echo`` or ``http``.

    Raises
    ------
    NotSupported
        If no stage of the path takes requests in, or one has the name of the one to come.
    """
    if mode == "forward":
        return path
    if mode == "icmp-echo":
        return with_more(path, (ICMP_ANSWER,), SERVER)
    name, stage = takes_in(path)
    if stage.context in _IN_GUESTS:
        return with_more(path, (ANSWER,), SERVER)
    cost, queue = ((TCP, PROXY), CONNECTIONS) if mode == "http" else ((ANSWER,), SOCKET)
    server = Stage(context=SERVER, cost=cost, queue=queue, account=SERVER, next=stage.next)
    stages = dict(inserted(path, name, SERVER, server).stages)
    after = stage
    while goes_on(path, after):
        following, after = after.next, path.stages[after.next]
        stages[following] = after.model_copy(update={"context": SERVER, "shared": False})
    return path.model_copy(update={"stages": stages})


def in_kernel(path: PathData) -> PathData:
    """Return the path of frames that a load balancer's kernel answers, its process does not.

    Raises
    ------
    NotSupported
        As of `answering`.
    """
    name, stage = takes_in(path)
    own = Stage(context=stage.context, cost=(TCP,), account=IN_KERNEL, next=stage.next)
    return inserted(path, name, IN_KERNEL, own)

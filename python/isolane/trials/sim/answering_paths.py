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
    if mode == "icmp-echo":
        return with_more(path, (ICMP_ANSWER,), SERVER)
    name, stage = takes_in(path)
    if stage.context in _IN_GUESTS:
        return with_more(path, (ANSWER,), SERVER)
    server = Stage(context=SERVER, cost=(ANSWER,), queue=SOCKET, account=SERVER, next=stage.next)
    stages = dict(inserted(path, name, SERVER, server).stages)
    after = stage
    while goes_on(path, after):
        following, after = after.next, path.stages[after.next]
        stages[following] = after.model_copy(update={"context": SERVER, "shared": False})
    return path.model_copy(update={"stages": stages})

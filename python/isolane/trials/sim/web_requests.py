"""A web request through a load balancer, as the simulator has it: frames that take turns.

What a connection of its own for each request makes of TCP: the client's SYN, its ACK, its question;
then the web server's SYN and ACK, its ACK of the question, and its answer in parts. The load
balancer's process works at question, SYN and ACK, and answer; the others are its kernel's.
Afterwards the client acknowledges the rest, and both connections are closed. On connections that
are kept there are question and answer, and what acknowledges it. So many frames were counted in a
container (benches/RESULTS.md): 10 that come in for an empty object, after GRO, 21 for 64 KiB.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from isolane.spec.demands import Demand
from isolane.trials.sim import simulation as to

KERNEL: Final = "/tcp"
"""Behind a load balancer's name: the path of frames that its kernel answers."""
SMALL: Final = 84
"""Size of a frame with nothing in it, or a question, bytes."""
HEADERS: Final = 250
"""Of an answer, bytes."""
BUFFER: Final = 16_000
"""Of an answer that the process passes on at once, bytes: HAProxy's buffer holds 16 KiB."""
CLOSING: Final = 4
"""Frames that come in when both connections are closed: an ACK and a FIN of each side."""
ACKNOWLEDGED: Final = 9_000
"""Of an answer, bytes, for each ACK of the client beyond those."""
PEER: Final = "peer"
"""Cost of a profile: what client and web server need for each of their frames."""
ANSWER_NS: Final = 2_000_000_000
"""After so long a request has failed."""


def owner(router: str) -> str:
    """Return the router whose frames take a simulated router's path."""
    return router.removesuffix(KERNEL)


@dataclass(frozen=True)
class Peers:
    """Client and web server, on a core that they share."""

    wait_ns: int
    """From a frame until it is looked at, ns."""
    frame_ns: float
    """What it takes to send the next one, ns."""
    byte_ns: float
    """The same for each byte of that."""

    def turn(self, router: str, frame_bytes: int, *, at_once: bool = False) -> to.Turn:
        """Return the turn that one of them begins; `at_once`: behind the one before."""
        busy_ns = round(self.frame_ns + self.byte_ns * frame_bytes)
        return to.Turn(router, frame_bytes, 0 if at_once else self.wait_ns, busy_ns)


def traffic(demand: Demand, peers: Peers, *, keep_alive: bool, end_ns: int) -> Iterator[to.Traffic]:
    """Yield what a load balancer is asked, and what acknowledges answers and closes connections.

    Parameters
    ----------
    demand
        Of the load balancer.
    peers
        Who asks it, and whom it asks.
    keep_alive
        Whether connections are kept.
    end_ns
        From when on nothing is asked, ns.
    """
    name = demand.router.name
    turns = tuple(_turns(demand, peers, keep_alive=keep_alive))
    yield to.Traffic(name, name, turns[0].frame_bytes, to.Requests(_begin(demand), turns), end_ns)
    frames = round(demand.router.object_bytes / ACKNOWLEDGED) + (0 if keep_alive else CLOSING)
    if frames:
        rest = (peers.turn(name + KERNEL, SMALL),) * frames
        after = to.Requests(to.Begin("after", traffic=name), rest)
        yield to.Traffic(f"{name}/after", name + KERNEL, SMALL, after)


def _turns(demand: Demand, peers: Peers, *, keep_alive: bool) -> Iterator[to.Turn]:
    name = demand.router.name
    if not keep_alive:
        yield peers.turn(name + KERNEL, SMALL)  # SYN
        yield peers.turn(name + KERNEL, SMALL)  # ACK
    yield peers.turn(name, SMALL, at_once=not keep_alive)  # the question
    if not keep_alive:
        yield peers.turn(name, SMALL)  # the server's SYN and ACK
        yield peers.turn(name + KERNEL, SMALL)  # its ACK of the question
    left, first = demand.router.object_bytes + HEADERS, True
    while left > 0:
        at_once = not (first and keep_alive)  # behind the ACK
        yield peers.turn(name, max(SMALL, min(left, BUFFER)), at_once=at_once)
        left, first = left - BUFFER, False


def _begin(demand: Demand) -> to.Begin:
    if demand.router.load.unit == "conn":
        return to.Begin("closed", requests=round(demand.router.load.value))
    if demand.router.pattern.timing.kind == "poisson":
        return to.Begin("poisson", rate_pps=demand.offered_pps)
    return to.Begin("cbr", rate_pps=demand.offered_pps)

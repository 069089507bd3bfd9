"""What a router is entitled to, as the kernel is told: rates, bursts, classes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isolane.enforce import htb
from isolane.enforce.model import FoundRouter, Interface
from isolane.errors import SpecError
from isolane.spec.policy import Policy
from isolane.spec.policy_fields import RateLimit
from isolane.spec.policy_router import RouterPolicy

QUANTUM = 1600
"""Bytes that a class of weight 1 sends in its turn: a full frame on the wire, at least."""
LEAST_RATE = 1000
"""Rate of a class that nothing is guaranteed to, bytes/s: the kernel demands one."""
_BURST_S = 0.01
_DEFAULT_PRIORITY = 3


ROOM = 64
"""Frames that may wait for the router of least weight while it overflows: one poll's worth. More
would only make those wait that come too often anyway, and let their memory leave the cache."""
MOST_ROOM = 240
"""A veth holds 256."""


@dataclass(frozen=True)
class Link:
    """A NIC whose link is shared out."""

    nic: str
    rate: int
    """Bytes/s."""
    routers: tuple[str, ...]
    """The routers that send by it."""
    quantum: int = QUANTUM
    """Bytes that a class of weight 1 sends in its turn: with less than a full frame, which leaves
    whole all the same, weights would have no effect."""


def limits(limit: RateLimit | None, burst: int | None, *, bits: bool = True) -> list[list[int]]:
    """Return the token buckets of a ceiling: [[frames/s, depth], [bit/s, depth]], 0: none.

    Parameters
    ----------
    burst
        Bytes that may exceed the rate at once; None: 10 ms of it.
    bits
        False where a class of the link keeps the bit rate already.
    """
    pps = round(limit.pps) if limit and limit.pps else 0
    bps = round(limit.bps) if limit and limit.bps and bits else 0
    frames = max(2, round(pps * _BURST_S)) if burst is None else max(2, burst // 1538)
    most = 8 * htb.burst_bytes(bps // 8, burst)
    return [[pps, frames if pps else 0], [bps, most if bps else 0]]


def neighbours(policy: Policy, router: str) -> dict[str, int]:
    """Return the weights of those that a router shares cores with, itself included."""
    cores = set(policy.routers[router].cores)
    return {
        name: other.cpu_weight
        for name, other in policy.routers.items()
        if name == router or not cores or not other.cores or cores & set(other.cores)
    }


def room(policy: Policy, router: str) -> tuple[int, int]:
    """Return how many frames may wait for a router while it overflows, and when it has not lately.

    In proportion to the weights: a queue that ran empty between two polls of the NIC would cost
    the router some of its share. XDP empties any queue faster than the NIC is polled.
    """
    own = policy.routers[router]
    if own.queue is not None:
        return own.queue, own.queue
    if own.forward == "xdp":
        return MOST_ROOM, MOST_ROOM
    least = min(neighbours(policy, router).values())
    return min(MOST_ROOM, ROOM * own.cpu_weight // least), MOST_ROOM


def of_class(policy: RouterPolicy, link: Link) -> list[int]:
    """Return the settings of a router's class; see :class:`isolane.enforce.pieces.LinkClass`."""
    least = policy.rate_min_bps
    rate = max(LEAST_RATE, round(least / 8)) if least else LEAST_RATE
    limit = policy.rate_max.egress
    ceil = min(link.rate, round(limit.bps / 8)) if limit and limit.bps else link.rate
    ceil = max(ceil, rate)
    burst = htb.burst_bytes(rate, policy.burst)
    return [rate, ceil, burst, policy.priority, link.quantum * policy.link_weight]


def wants_link(policy: RouterPolicy) -> bool:
    """Tell whether a router's policy needs the link to be shared out."""
    limit = policy.rate_max.egress
    return bool(
        policy.rate_min
        or (limit and limit.bps)
        or policy.priority != _DEFAULT_PRIORITY
        or policy.link_weight != 1
    )


def uplinks(policy: Policy, router: FoundRouter, at: Interface) -> tuple[str, ...]:
    """Return the NICs that a router's frames may leave by on one of its interfaces.

    Raises
    ------
    SpecError
        If nothing tells: no bridge, several NICs, and no word in the policy.
    """
    named = policy.routers[router.name].interfaces.get(at.ifname)
    if named:
        return (named,)
    if at.bridge is not None or len(policy.nics) <= 1:
        return tuple(policy.nics)
    raise SpecError(
        f"router {router.name}: nothing tells by which NIC the frames of its interface {at.ifname} "
        f"leave; say so with interfaces: {{{at.ifname}: NIC}}, NIC being one of "
        f"{', '.join(policy.nics)}"
    )


def entitled_cpu(weights: dict[str, int], router: str) -> float:
    """Return the CPU share of a router when all of them want more, 0..1."""
    return weights[router] / sum(weights.values())


def entitled_link(policy: Policy, link: Link, active: Sequence[str]) -> dict[str, float]:
    """Return the link shares when all ``active`` routers want more.

    Least rates first, then by priority, within one by weight, no one above its ceiling.

    Returns
    -------
    dict
        Router -> share of the link, 0..1.
    """
    given, ceiling = {}, {}
    for name in active:
        rate, ceil, *_ = of_class(policy.routers[name], link)
        given[name] = float(rate if rate > LEAST_RATE else 0)
        ceiling[name] = float(ceil)
    left = max(0.0, link.rate - sum(given.values()))
    for priority in sorted({policy.routers[name].priority for name in active}):
        level = [name for name in active if policy.routers[name].priority == priority]
        left = _fill(policy, level, given, ceiling, left)
    return {name: given[name] / link.rate for name in active}


def _fill(
    policy: Policy,
    level: list[str],
    given: dict[str, float],
    ceiling: dict[str, float],
    left: float,
) -> float:
    """Share ``left`` out by weight up to the ceilings; return what remains."""
    hungry = [name for name in level if given[name] < ceiling[name]]
    while hungry and left > 1e-9:
        weights = sum(policy.routers[name].link_weight for name in hungry)
        step = min(
            left / weights,
            *((ceiling[name] - given[name]) / policy.routers[name].link_weight for name in hungry),
        )
        for name in hungry:
            given[name] += step * policy.routers[name].link_weight
        left -= step * weights
        hungry = [name for name in hungry if ceiling[name] - given[name] > 1e-9]
    return left

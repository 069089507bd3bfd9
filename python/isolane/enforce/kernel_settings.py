"""What the kernel is told of a policy: token buckets, queue limits, classes of HTB. Pure.

Who may have what is worked out in :mod:`isolane.enforce.fair_share`.
"""

from __future__ import annotations

from collections.abc import Collection

from isolane.enforce import htb
from isolane.enforce.fair_share import Link, ceiling_bps, guaranteed_bps, sharing_cores_with
from isolane.enforce.router_facts import FoundRouter, Interface
from isolane.errors import SpecError
from isolane.spec.policy import Policy
from isolane.spec.policy_fields import RateLimit
from isolane.spec.policy_router import RouterPolicy

LEAST_RATE = 1000
"""Rate of a class that nothing is guaranteed to, bytes/s: the kernel demands one."""
_BURST_S = 0.01

ROOM = 64
"""Frames that may wait for the router of least weight while it overflows: one poll's worth. More
would only make those wait that come too often anyway, and let their memory leave the cache."""
MOST_ROOM = 240
"""A veth holds 256."""


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
    frames = max(2, round(pps * _BURST_S)) if burst is None else max(2, burst // htb.FULL_FRAME)
    most = 8 * htb.burst_bytes(bps // 8, burst)
    return [[pps, frames if pps else 0], [bps, most if bps else 0]]


def queue_limits(policy: Policy, router: str, active: Collection[str]) -> tuple[int, int]:
    """Return how many frames may wait for a router while it overflows, and when it has not lately.

    In proportion to the weights: a queue that ran empty between two polls of the NIC would cost
    the router some of its share. XDP empties any queue faster than the NIC is polled.

    Parameters
    ----------
    active
        The routers that run: one that does not shares no cores with anybody.
    """
    own = policy.routers[router]
    if own.queue is not None:
        return own.queue, own.queue
    if own.forward == "xdp":
        return MOST_ROOM, MOST_ROOM
    sharing = sharing_cores_with(policy, router, active)
    lightest = min(policy.routers[name].cpu_weight for name in sharing)
    return min(MOST_ROOM, ROOM * own.cpu_weight // lightest), MOST_ROOM


def class_settings(policy: RouterPolicy, link: Link) -> list[int]:
    """Return the settings of a router's class; see :class:`isolane.enforce.settings.LinkClass`."""
    rate = max(LEAST_RATE, round(guaranteed_bps(policy) / 8))
    ceil = max(rate, round(min(link.rate, ceiling_bps(policy) / 8)))
    burst = htb.burst_bytes(rate, policy.burst)
    return [rate, ceil, burst, policy.priority, link.quantum * policy.link_weight]


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

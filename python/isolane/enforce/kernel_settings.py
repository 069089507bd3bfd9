"""What the kernel is told of a policy: token buckets, queue limits, classes of HTB. Pure.

Who may have what is worked out in :mod:`isolane.enforce.fair_share`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from isolane._native import CpuBudget, RateLimits, TokenBucket
from isolane.enforce import htb
from isolane.enforce.fair_share import (
    Link,
    ceiling_bps,
    guaranteed_bps,
    on_nics_core,
    sharing_cores_with,
)
from isolane.enforce.router_facts import FoundRouter, Interface
from isolane.errors import SpecError
from isolane.spec.policy import Policy
from isolane.spec.policy_fields import RateLimit
from isolane.spec.policy_router import RouterPolicy

MIN_CLASS_RATE = 1000
"""Rate of a class that nothing is guaranteed to, bytes/s: the kernel demands one."""
_BURST_S = 0.01

BASE_QUEUE_LIMIT = 64
"""Frames that may wait for the router of least weight while it overflows: one poll's worth. More
would only make those wait that come too often anyway, and let their memory leave the cache."""
MAX_QUEUE_LIMIT = 240
"""A veth holds 256."""


@dataclass(frozen=True)
class QueueLimits:
    """Frames that may wait for a router."""

    limit: int
    """Where the queue refuses more than one frame for eight that it takes."""
    burst_limit: int
    """Otherwise."""


def limits(limit: RateLimit | None, burst: int | None, *, bits: bool = True) -> RateLimits:
    """Return the token buckets of a ceiling; rate 0: none.

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
    depth = 8 * htb.burst_bytes(bps // 8, burst)
    return RateLimits(
        frames=TokenBucket(rate=pps, depth=frames if pps else 0),
        bits=TokenBucket(rate=bps, depth=depth if bps else 0),
    )


def queue_limits(policy: Policy, router: str, active: Collection[str]) -> QueueLimits:
    """Return how many frames may wait for a router where it always has too much, and else.

    In proportion to the weights: a queue that ran empty between two polls of the NIC would cost
    the router some of its share. XDP empties any queue faster than the NIC is polled.

    Parameters
    ----------
    active
        The routers that run: one that does not shares no cores with anybody.
    """
    own = policy.routers[router]
    if own.queue is not None:
        return QueueLimits(own.queue, own.queue)
    if own.forward == "xdp":
        return QueueLimits(MAX_QUEUE_LIMIT, MAX_QUEUE_LIMIT)
    sharing = sharing_cores_with(policy, router, active)
    lightest = min(policy.routers[name].cpu_weight for name in sharing)
    limit = min(MAX_QUEUE_LIMIT, BASE_QUEUE_LIMIT * own.cpu_weight // lightest)
    return QueueLimits(limit, MAX_QUEUE_LIMIT)


def cpu_budget(policy: Policy, router: str, kind: str) -> CpuBudget | None:
    """Return a router's budget of CPU time; None where it has no cap and pays for no NIC's work.

    A virtual machine has none: its cap is a quota of its own threads.
    """
    if kind == "vm":
        return None
    values = policy.routers[router]
    pays = on_nics_core(policy, router)
    if not values.cpu_max and not pays:
        return None
    rate_ns = round((values.cpu_max or 0) * 1e7)
    weight = values.cpu_weight if pays else 0
    return CpuBudget(rate_ns=rate_ns, depth_ns=rate_ns // 100, weight=weight)


def class_settings(policy: RouterPolicy, link: Link) -> htb.ClassSettings:
    """Return the settings of a router's class."""
    rate = max(MIN_CLASS_RATE, round(guaranteed_bps(policy) / 8))
    ceil = max(rate, round(min(link.rate, ceiling_bps(policy) / 8)))
    burst = htb.burst_bytes(rate, policy.burst)
    quantum = link.quantum * policy.link_weight
    return htb.ClassSettings(rate, ceil, burst, policy.priority, quantum)


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

"""What routers are entitled to: CPU time, and their part of a link. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from isolane.spec import Policy, RouterPolicy, wire_bps


def cpu_shares(weights: Mapping[str, float], caps: Mapping[str, float]) -> dict[str, float]:
    """Share 1 out by weight, nobody above its cap; what one cannot use goes to the others.

    Parameters
    ----------
    weights
        Positive, relative.
    caps
        Greatest share of each, 0 to 1; those that are not named have none.

    Returns
    -------
    dict
        Shares, 0 to 1; they add up to 1 unless the caps do not allow it.
    """
    shares: dict[str, float] = {}
    open_ = dict(weights)
    left = 1.0
    while open_:
        total = sum(open_.values())
        capped = [name for name in open_ if caps.get(name, 1.0) < left * open_[name] / total]
        if not capped:
            shares |= {name: left * weight / total for name, weight in open_.items()}
            break
        for name in capped:
            shares[name] = caps[name]
            left -= caps[name]
            del open_[name]
    return {name: shares[name] for name in weights}


def link_shares(
    policy: Policy, rate_bps: float, demands_bps: Mapping[str, float]
) -> dict[str, float]:
    """Share a link out: guarantees first, then by priority, within one by weight.

    Parameters
    ----------
    rate_bps
        Of the link, bit/s on the wire.
    demands_bps
        What each router wants to send, bit/s on the wire; infinite for all it can get.

    Returns
    -------
    dict
        What each is entitled to, bit/s on the wire.
    """
    routers = {name: policy.routers[name] for name in demands_bps}
    most = {name: min(demand, _most_bps(routers[name])) for name, demand in demands_bps.items()}
    given = {name: min(most[name], r.rate_min_bps or 0.0) for name, r in routers.items()}
    left = max(0.0, rate_bps - sum(given.values()))
    for priority in sorted({router.priority for router in routers.values()}):
        level = {n: float(r.link_weight) for n, r in routers.items() if r.priority == priority}
        while left > 0 and (open_ := {n: w for n, w in level.items() if given[n] < most[n]}):
            # So much for each weight until the first has all it may have, or nothing is left.
            step = min(
                left / sum(open_.values()),
                *((most[name] - given[name]) / weight for name, weight in open_.items()),
            )
            for name, weight in open_.items():
                full = (most[name] - given[name]) / weight <= step
                given[name] = most[name] if full else given[name] + step * weight
            left = max(0.0, left - step * sum(open_.values()))
    return given


def _most_bps(router: RouterPolicy) -> float:
    limit = router.rate_max.egress
    return math.inf if limit is None or limit.bps is None else limit.bps


def ceiling_pps(policy: RouterPolicy, frame_bytes: int) -> float | None:
    """Return the lowest ceiling of a router in frames/s of one size; None without any."""
    return min(ceilings(policy, frame_bytes), default=None)


def ceilings(policy: RouterPolicy, frame_bytes: int) -> Iterable[float]:
    """Yield the ceilings of a router in frames/s of one size."""
    for limit in (policy.rate_max.ingress, policy.rate_max.egress):
        if limit is not None and limit.pps is not None:
            yield limit.pps
        if limit is not None and limit.bps is not None:
            yield limit.bps / wire_bps(1.0, frame_bytes)


def components(policy: Policy, routers: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """Divide routers into those whose cores have to do with each other, in the policy's order.

    A router that is not pinned may run on any core, so it belongs to all of them.
    """
    names = tuple(routers)
    if any(not policy.routers[name].cores for name in names):
        return (names,) if names else ()
    groups: list[tuple[set[int], list[str]]] = []
    for name in names:
        cores, members = set(policy.routers[name].cores), [name]
        apart = []
        for group in groups:
            if group[0] & cores:
                cores |= group[0]
                members = group[1] + members
            else:
                apart.append(group)
        groups = [*apart, (cores, members)]
    order = {name: number for number, name in enumerate(names)}
    found = [tuple(sorted(members, key=order.__getitem__)) for _, members in groups]
    return tuple(sorted(found, key=lambda members: order[members[0]]))

"""Who may have what by a policy: fair shares of CPU time and of links, guaranteed rates. Pure.

Everybody who needs such a figure asks here: apply, status, top, export, verify, the simulator.

Only active routers count, on cores as on links. A router that does not run uses nothing, so the
others get its part; whoever counted it would promise them too little. A router gets no more than
its cap or ceiling, either, and the others get what it leaves.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from isolane.enforce import htb
from isolane.spec.policy import Policy
from isolane.spec.policy_router import PolicyValues, RouterPolicy
from isolane.spec.units import wire_bps

_DEFAULTS = PolicyValues()
_NO_CAPS: Mapping[str, float] = {}


@dataclass(frozen=True)
class Link:
    """A NIC whose link is shared out."""

    nic: str
    rate: int
    """Bytes/s."""
    routers: tuple[str, ...]
    """The routers that send by it."""
    quantum: int = htb.QUANTUM
    """Bytes that a class of weight 1 sends in its turn: with less than a full frame, which leaves
    whole all the same, weights would have no effect."""

    @property
    def rate_bps(self) -> float:
        """Bit/s on the wire."""
        return self.rate * 8.0


def guaranteed_bps(router: RouterPolicy) -> float:
    """Return the rate that a router is guaranteed on each link, bit/s on the wire; 0: none."""
    return router.rate_min_bps or 0.0


def ceiling_bps(router: RouterPolicy) -> float:
    """Return what a router may send at most, bit/s on the wire; infinite without a ceiling."""
    limit = router.rate_max.egress
    return math.inf if limit is None or limit.bps is None else limit.bps


def ceiling_pps(router: RouterPolicy, frame_bytes: int) -> float | None:
    """Return the lowest ceiling of a router in frames/s of one size; None without any."""
    found = []
    for limit in (router.rate_max.ingress, router.rate_max.egress):
        if limit is not None and limit.pps is not None:
            found.append(limit.pps)
        if limit is not None and limit.bps is not None:
            found.append(limit.bps / wire_bps(1.0, frame_bytes))
    return min(found, default=None)


def wants_link(router: RouterPolicy) -> bool:
    """Tell whether a router's policy needs the link to be shared out."""
    return bool(
        router.rate_min
        or ceiling_bps(router) < math.inf
        or router.priority != _DEFAULTS.priority
        or router.link_weight != _DEFAULTS.link_weight
    )


def sharing_cores_with(policy: Policy, router: str, active: Iterable[str]) -> tuple[str, ...]:
    """Return a router and the active ones that may run on one of its cores.

    A router that is not pinned may run on any core, so it shares cores with everybody.
    """
    cores = set(policy.routers[router].cores)
    return tuple(
        name
        for name in policy.routers
        if name == router
        or (
            name in active
            and not (
                cores
                and policy.routers[name].cores
                and cores.isdisjoint(policy.routers[name].cores)
            )
        )
    )


def groups_sharing_cores(policy: Policy, active: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """Divide routers into groups whose cores have to do with each other, in the given order."""
    names = tuple(active)
    if any(not policy.routers[name].cores for name in names):
        return (names,) if names else ()
    groups: list[tuple[set[int], list[str]]] = []
    for name in names:
        cores, members = set(policy.routers[name].cores), [name]
        disjoint = []
        for group in groups:
            if group[0] & cores:
                cores |= group[0]
                members = group[1] + members
            else:
                disjoint.append(group)
        groups = [*disjoint, (cores, members)]
    order = {name: number for number, name in enumerate(names)}
    found = [tuple(sorted(members, key=order.__getitem__)) for _, members in groups]
    return tuple(sorted(found, key=lambda members: order[members[0]]))


def same_cores(policy: Policy, routers: Iterable[str]) -> bool:
    """Tell whether routers are bound to the same cores, all of them."""
    return len({frozenset(policy.routers[name].cores) for name in routers}) <= 1


def cpu_cap(router: RouterPolicy, cores: int) -> float:
    """Return ``cpu_max`` as a share of a number of cores, 0 to 1; 1 without a cap."""
    return 1.0 if router.cpu_max is None else min(1.0, router.cpu_max / 100 / cores)


def cpu_fair_shares(
    policy: Policy, group: Iterable[str], cores: int, caps: Mapping[str, float] = _NO_CAPS
) -> dict[str, float]:
    """Return the fair shares of CPU time in a group: by weight, nobody above its ``cpu_max``.

    They hold when all routers of the group want more. ``rate_max`` holds a router down as well, but
    by how much depends on its frames, which only the caller may know.

    Parameters
    ----------
    group
        Routers that share cores, all active.
    cores
        Number of cores of the group.
    caps
        What else holds a router down, as a share of all the cores.

    Returns
    -------
    dict
        Shares of all the cores, 0 to 1; they add up to 1 unless the caps do not allow it.
    """
    routers = {name: policy.routers[name] for name in group}
    weights = {name: float(router.cpu_weight) for name, router in routers.items()}
    least = {n: min(cpu_cap(r, cores), caps.get(n, 1.0)) for n, r in routers.items()}
    return share_out(weights, least)


def cpu_fair_shares_on_host(
    policy: Policy, active: Iterable[str], host_cores: int
) -> dict[str, float | None]:
    """Return each router's fair share of its own cores when all of them want more, 0 to 1.

    None where some routers of a group share a part of its cores only: how much each gets then
    depends on where the scheduler puts threads, and no figure would be true.
    """
    shares: dict[str, float | None] = {}
    for group in groups_sharing_cores(policy, active):
        if same_cores(policy, group):
            cores = len(set(policy.routers[group[0]].cores)) or host_cores
            shares |= cpu_fair_shares(policy, group, cores)
        else:
            shares |= dict.fromkeys(group)
    return shares


def share_out(weights: Mapping[str, float], caps: Mapping[str, float]) -> dict[str, float]:
    """Share 1 out by weight, nobody above its cap; what one cannot use goes to the others.

    Parameters
    ----------
    weights
        Positive, relative.
    caps
        Maximum share of each, 0 to 1; those that are not named have none.

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


def link_fair_rates(
    policy: Policy, rate_bps: float, demands_bps: Mapping[str, float]
) -> dict[str, float]:
    """Share a link out: guaranteed rates first, then by priority, within one by weight.

    Parameters
    ----------
    rate_bps
        Of the link, bit/s on the wire.
    demands_bps
        What each active router wants to send, bit/s on the wire; infinite for all it can get.

    Returns
    -------
    dict
        What each may have, bit/s on the wire.
    """
    routers = {name: policy.routers[name] for name in demands_bps}
    wanted = {name: min(bps, ceiling_bps(routers[name])) for name, bps in demands_bps.items()}
    given = {name: min(wanted[name], guaranteed_bps(r)) for name, r in routers.items()}
    left = max(0.0, rate_bps - sum(given.values()))
    for priority in sorted({router.priority for router in routers.values()}):
        level = {n: float(r.link_weight) for n, r in routers.items() if r.priority == priority}
        while left > 0 and (open_ := {n: w for n, w in level.items() if given[n] < wanted[n]}):
            # So much for each weight until the first has all it may have, or nothing is left.
            total = sum(open_.values())
            first = min((wanted[name] - given[name]) / weight for name, weight in open_.items())
            step = min(left / total, first)
            for name, weight in open_.items():
                full = (wanted[name] - given[name]) / weight <= step
                given[name] = wanted[name] if full else given[name] + step * weight
            # Not by subtraction alone: rounding may leave a rest that is never used up.
            left = max(0.0, left - step * total) if first < left / total else 0.0
    return given


def link_fair_shares(policy: Policy, link: Link, active: Collection[str]) -> dict[str, float]:
    """Return the shares of a link when all active routers that send by it want more, 0 to 1."""
    members = [name for name in link.routers if name in active]
    due = link_fair_rates(policy, link.rate_bps, dict.fromkeys(members, math.inf))
    return {name: bps / link.rate_bps for name, bps in due.items()}

"""Works out what a policy gives each router: fair shares of CPU time and links, guaranteed rates.

The only place that does: apply, status, top, export, verify and the simulator call these functions.

Only active routers count, on cores as on links. A router that does not run uses nothing, so the
others share its part; counting it would promise them too little. No router gets more than its cap
or ceiling, and the others share what it leaves. No function here touches the host.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from isolane.enforce import htb
from isolane.errors import SpecError
from isolane.spec.policy import Policy
from isolane.spec.policy_router import PolicyValues, RouterPolicy
from isolane.spec.units import wire_bps

_DEFAULTS = PolicyValues()
_NO_CAPS: Mapping[str, float] = {}


@dataclass(frozen=True)
class Link:
    """A NIC whose link the routers share by class."""

    nic: str
    rate: int
    """Bytes/s."""
    routers: tuple[str, ...]
    """The routers that send by this NIC."""
    quantum: int = htb.QUANTUM
    """Bytes that a class of weight 1 sends per turn: at least a full frame. HTB always sends whole
    frames, so with a smaller quantum weights would have no effect."""

    @property
    def rate_bps(self) -> float:
        """Rate of the link, bit/s on the wire."""
        return self.rate * 8.0


def guaranteed_bps(router: RouterPolicy) -> float:
    """Return the rate that a router is guaranteed on each link, bit/s on the wire; 0: none."""
    return router.rate_min_bps or 0.0


def commitment(nic: str, guaranteed: Iterable[float], rate_bps: float) -> None:
    """Refuse guarantees that a link has not got.

    Parameters
    ----------
    guaranteed
        Of each router, bit/s on the wire.

    Raises
    ------
    SpecError
        Naming both.
    """
    rates = [rate for rate in guaranteed if rate]
    if sum(rates) > rate_bps:
        parts = " + ".join(f"{rate / 1e6:g}" for rate in rates)
        raise SpecError(
            f"nics: {nic}: rate_min adds up to {sum(rates) / 1e6:g} Mbit/s ({parts}), "
            f"its link has {rate_bps / 1e6:g} Mbit/s"
        )


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
    """Tell whether a router's policy needs a class of its own on the link."""
    return bool(
        router.rate_min
        or ceiling_bps(router) < math.inf
        or router.priority != _DEFAULTS.priority
        or router.link_weight != _DEFAULTS.link_weight
    )


def sharing_cores_with(policy: Policy, router: str, active: Iterable[str]) -> tuple[str, ...]:
    """Return a router and the active routers that may run on one of its cores.

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
    """Group routers that share cores, directly or through others, in the given order."""
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
    """Tell whether all these routers are pinned to the same cores."""
    return len({frozenset(policy.routers[name].cores) for name in routers}) <= 1


def on_nics_core(policy: Policy, router: str) -> bool:
    """Tell whether a router runs on one core only, which is that of all NICs' threads, too.

    There the NICs' threads take from the routers what telling their frames apart costs.
    """
    mine = frozenset(policy.routers[router].cores)
    nics = {frozenset(nic.cores or ()) for nic in policy.nics.values()}
    return len(mine) == 1 and nics == {mine}


def cpu_cap(router: RouterPolicy, cores: int) -> float:
    """Return ``cpu_max`` as a share of a number of cores, 0 to 1; 1 without a cap."""
    return 1.0 if router.cpu_max is None else min(1.0, router.cpu_max / 100 / cores)


def cpu_fair_shares(
    policy: Policy,
    group: Iterable[str],
    cores: int,
    caps: Mapping[str, float] = _NO_CAPS,
    capped_within: Collection[str] = (),
) -> dict[str, float]:
    """Return the fair shares of CPU time in a group: by weight, nobody above its ``cpu_max``.

    They hold when all routers of the group want more. ``rate_max`` limits a router as well; by how
    much depends on its frames, so the caller has to pass that in ``caps``.

    Parameters
    ----------
    group
        Routers that share cores, all active.
    cores
        Number of cores of the group.
    caps
        Further limits of routers, each a share of all the cores.
    capped_within
        Routers whose ``cpu_max`` is one on some of their threads: what feeds those may use the
        rest of what their weight gives them.

    Returns
    -------
    dict
        Shares of all the cores, 0 to 1; they add up to 1 unless the caps do not allow it.
    """
    routers = {name: policy.routers[name] for name in group}
    weights = {name: float(router.cpu_weight) for name, router in routers.items()}
    lower = {
        name: min(1.0 if name in capped_within else cpu_cap(router, cores), caps.get(name, 1.0))
        for name, router in routers.items()
    }
    return share_out(weights, lower)


def cpu_fair_shares_on_host(
    policy: Policy, active: Iterable[str], host_cores: int, capped_within: Collection[str] = ()
) -> dict[str, float | None]:
    """Return each router's fair share of its own cores when all of them want more, 0 to 1.

    None where routers of a group share only some of their cores: what each gets then depends on
    where the kernel's scheduler puts the threads, and no single figure is right.
    ``capped_within`` as in :func:`cpu_fair_shares`.
    """
    shares: dict[str, float | None] = {}
    for group in groups_sharing_cores(policy, active):
        if same_cores(policy, group):
            cores = len(set(policy.routers[group[0]].cores)) or host_cores
            shares |= cpu_fair_shares(policy, group, cores, capped_within=capped_within)
        else:
            shares |= dict.fromkeys(group)
    return shares


def share_out(weights: Mapping[str, float], caps: Mapping[str, float]) -> dict[str, float]:
    """Divide 1 by weight, nobody above its cap; the others share what a cap leaves over.

    Parameters
    ----------
    weights
        Positive, relative.
    caps
        Maximum share of each, 0 to 1; whoever is not named has no cap.

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
    """Divide a link: guaranteed rates first, then by priority, within one priority by weight.

    Parameters
    ----------
    rate_bps
        Rate of the link, bit/s on the wire.
    demands_bps
        What each active router wants to send, bit/s on the wire; infinite: as much as it can get.

    Returns
    -------
    dict
        Rate of each router, bit/s on the wire.
    """
    routers = {name: policy.routers[name] for name in demands_bps}
    wanted = {name: min(bps, ceiling_bps(routers[name])) for name, bps in demands_bps.items()}
    given = {name: min(wanted[name], guaranteed_bps(r)) for name, r in routers.items()}
    left = max(0.0, rate_bps - sum(given.values()))
    for priority in sorted({router.priority for router in routers.values()}):
        level = {n: float(r.link_weight) for n, r in routers.items() if r.priority == priority}
        while left > 0 and (open_ := {n: w for n, w in level.items() if given[n] < wanted[n]}):
            # Raise all by weight until the first has all that it wants, or nothing is left.
            total = sum(open_.values())
            first = min((wanted[name] - given[name]) / weight for name, weight in open_.items())
            step = min(left / total, first)
            for name, weight in open_.items():
                full = (wanted[name] - given[name]) / weight <= step
                given[name] = wanted[name] if full else given[name] + step * weight
            # Subtraction alone might leave a rounding error that is never used up.
            left = max(0.0, left - step * total) if first < left / total else 0.0
    return given


def link_fair_shares(policy: Policy, link: Link, active: Collection[str]) -> dict[str, float]:
    """Return the active routers' shares of a link when all of them want more, 0 to 1."""
    members = [name for name in link.routers if name in active]
    due = link_fair_rates(policy, link.rate_bps, dict.fromkeys(members, math.inf))
    return {name: bps / link.rate_bps for name, bps in due.items()}

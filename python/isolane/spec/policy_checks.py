"""Checks of a policy that need more than one value, but not the host."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from isolane.spec.policy_fields import reserved_bps
from isolane.spec.policy_models import (
    ALONE,
    HIDDEN,
    IDENTITIES,
    OWN,
    NicEntry,
    PolicyFile,
    VirtualFunction,
)
from isolane.spec.policy_router import PolicyValues, RouterPolicy
from isolane.spec.problems import Loc, Problem, listed, nearest, show
from isolane.spec.units import Load, format_bps


def as_written(policy: PolicyFile) -> Iterator[Problem]:
    """Yield the problems of the identities; all other checks need them."""
    taken: dict[tuple[str, object], str] = {}
    for name, router in policy.routers.items():
        loc: Loc = ("routers", name)
        given = router.identities()
        if len(given) != 1:
            found = f"{len(given)} ways to find it ({listed(given)})" if given else "no identity"
            what = f"router {show(name)} has {found}"
            yield Problem(loc, what, f"exactly one of {listed(IDENTITIES)}")
            continue
        key, value = next(iter(given.items()))
        same = _same(key, value)
        if same in taken:
            what = f"router {show(name)} is the same as {show(taken[same])}: {key} {_told(value)}"
            yield Problem((*loc, key), what, "each router once")
        taken.setdefault(same, name)
        if router.mac is not None and key not in HIDDEN:
            what = f"mac of router {show(name)}, whose addresses are found by its {key}"
            yield Problem((*loc, "mac"), what, f"with {listed(HIDDEN)} only")
        if key == "interface" and value in policy.nics:
            what = f"interface {show(value)} is shared (under nics) and router {show(name)}'s own"
            yield Problem((*loc, key), what, "one of both")


def together(
    routers: Mapping[str, RouterPolicy], nics: Mapping[str, NicEntry]
) -> Iterator[Problem]:
    """Yield contradictions within a router, and between routers and links."""
    for name, router in routers.items():
        yield from of_one_router(("routers", name), router)
        if router.is_guest and router.forward == "xdp":
            what = f"forward xdp for router {show(name)}, a virtual machine"
            yield Problem(("routers", name, "forward"), what, "kernel: its guest forwards")
        for own, nic in router.interfaces.items():
            if nic not in nics and nic != OWN:
                what = f"interface {show(own)} of router {show(name)} leaves by {show(nic)}"
                known = f"a NIC under nics ({listed(nics) or 'there is none'}){nearest(nic, nics)}"
                yield Problem(("routers", name, "interfaces", own), what, known)
    shared = [name for name, router in routers.items() if _needs_nic(router)]
    if shared and not nics:
        what = f"no NIC, but router {show(shared[0])} has no interface to itself"
        yield Problem(("nics",), what, "the host's interfaces that its frames come and leave by")
    yield from _sums(routers, nics)


def of_one_router(loc: Loc, router: PolicyValues) -> Iterator[Problem]:
    """Yield the contradictions in the policy of one router, which stands at ``loc``."""
    ceiling = router.rate_max.egress
    if router.rate_min is not None and ceiling is not None:
        wanted = router.rate_min
        same = ceiling.pps if wanted.unit == "pps" else ceiling.bps
        other = ceiling.bps if wanted.unit == "pps" else ceiling.pps
        max_bps = None if other is None else reserved_bps(_in_other_unit(wanted, other))
        above = same is not None and wanted.value > same
        if above or (max_bps is not None and reserved_bps(wanted) > max_bps):
            what = f"rate_min {wanted} is above rate_max {_told(ceiling.written())}"
            yield Problem((*loc, "rate_min"), what, "at most rate_max")
    if router.cpu_max is not None and router.cores and router.cpu_max > 100 * len(router.cores):
        cores = "core" if len(router.cores) == 1 else "cores"
        what = f"cpu_max {router.cpu_max:g}% on {len(router.cores)} {cores}"
        yield Problem((*loc, "cpu_max"), what, f"at most {100 * len(router.cores)}%")


def _alone(router: RouterPolicy) -> bool:
    """Tell whether a router shares no NIC, as far as the policy tells."""
    leaves_by = set(router.interfaces.values())
    return router.identity[0] in ALONE or leaves_by == {OWN}


def _needs_nic(router: RouterPolicy) -> bool:
    """Tell whether the policy has to name a NIC that a router's frames come and leave by.

    A virtual machine is a process, whose CPU time can be shared out without a look at its frames.
    """
    return not (_alone(router) or (router.is_guest and not router.asks_for_frames()))


def nics_of(router: RouterPolicy, nics: Mapping[str, NicEntry]) -> tuple[str, ...]:
    """Return the NICs that a router's frames leave by, as far as the policy tells."""
    if router.identity[0] in ALONE:
        return ()
    if router.interfaces:
        return tuple(dict.fromkeys(nic for nic in router.interfaces.values() if nic != OWN))
    return tuple(nics) if len(nics) == 1 else ()


def _sums(routers: Mapping[str, RouterPolicy], nics: Mapping[str, NicEntry]) -> Iterator[Problem]:
    promised: dict[str, dict[str, float]] = defaultdict(dict)
    for name, router in routers.items():
        for nic in nics_of(router, nics):
            if router.rate_min_bps is not None:
                promised[nic][name] = router.rate_min_bps
    for nic, by_router in promised.items():
        rate_bps = nics[nic].rate_bps if nic in nics else None
        total_bps = sum(by_router.values())
        if rate_bps is not None and total_bps > rate_bps * (1 + 1e-9):
            names = listed(list(by_router)[:4]) + (" ..." if len(by_router) > 4 else "")
            sums = "is" if len(by_router) == 1 else f"({names}) adds up to"
            what = f"rate_min {sums} {format_bps(total_bps)} on {nic}"
            yield Problem(("nics", nic, "rate"), what, f"at most {format_bps(rate_bps)} in all")


def _in_other_unit(rate: Load, value: float) -> Load:
    return Load(value, "bps" if rate.unit == "pps" else "pps")


def _same(key: str, value: object) -> tuple[str, object]:
    """Return an identity so that two ways to write the same one are equal."""
    if key == "netns" and isinstance(value, str):
        for folder in ("/run/netns/", "/var/run/netns/"):
            value = value.removeprefix(folder)
    if key in {"qemu", "process"}:
        key = "pid"
    return key, value


def _told(value: object) -> str:
    if isinstance(value, VirtualFunction):
        return f"{value.number} of {value.pf}"
    return " and ".join(value) if isinstance(value, list) else str(value)

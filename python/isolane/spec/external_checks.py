"""Checks of external routers: do they have addresses where they need them, and do these fit?"""

from __future__ import annotations

from collections.abc import Iterator

from isolane.spec.arms import ArmRouter, resolve_arms
from isolane.spec.external_models import External, ExternalSide
from isolane.spec.host_addresses import lowest_free
from isolane.spec.models import ExperimentData
from isolane.spec.problems import Loc, Problem, listed, nearest, show

_NEEDED = "external: {ingress: {interface, mac, address}, egress: {interface, mac, address}}"


def external_misfits(data: ExperimentData) -> Iterator[Problem]:
    """Yield the problems of external routers, each of them once."""
    yield from _misplaced(data)
    told: set[str] = set()
    for i, arm in enumerate(resolve_arms(data)):
        external = [router for router in arm.routers if router.kind == "external"]
        if external and len(external) < len(arm.routers):
            others = [router.group for router in arm.routers if router.kind != "external"]
            loc: Loc = ("arms", i) if data.arms else ("routers",)
            what = f"external {listed(r.group for r in external)} beside {listed(others)}"
            yield Problem(loc, what, "an arm whose routers are all external, or none of them")
        for problem in (*_routers_of_arm(data, i, external), *_one_netns(data, i, external)):
            if str(problem) not in told:
                told.add(str(problem))
                yield problem


def _misplaced(data: ExperimentData) -> Iterator[Problem]:
    """Yield addresses of routers that do not exist, or that are external in no arm."""
    arms = resolve_arms(data)
    known = [router.name for router in data.routers]
    for j, router in enumerate(data.routers):
        kinds = {arm.routers[j].kind for arm in arms}
        if router.external is not None and "external" not in kinds:
            what = f"external of router {show(router.name)}, whose kind is {listed(sorted(kinds))}"
            yield Problem(("routers", j, "external"), what, "kind external, for it or for an arm")
        if router.address is not None and kinds == {"external"}:
            what = f"address of router {show(router.name)}, which is external"
            accepted = "its addresses under external.ingress and external.egress"
            yield Problem(("routers", j, "address"), what, accepted)
    for i, change in enumerate(data.arms):
        for name in change.external or ():
            loc: Loc = ("arms", i, "external", name)
            if name not in known:
                what = f"external of an unknown router {show(name)}"
                yield Problem(loc, what, listed(known) + nearest(name, known))
            elif (kind := arms[i].router(name).kind) != "external":
                what = f"external of router {show(name)}, whose kind is {kind} in this arm"
                yield Problem(loc, what, "kind external, for it or for the arm")


def _routers_of_arm(data: ExperimentData, arm: int, routers: list[ArmRouter]) -> Iterator[Problem]:
    for router in routers:
        j = next(j for j, each in enumerate(data.routers) if each.name == router.group)
        if data.routers[j].count != (1,):
            what = f"a group of external routers {show(router.group)}"
            yield Problem(("routers", j, "count"), what, "one entry with a name for each of them")
        if router.external is None:
            loc: Loc = ("arms", arm) if data.arms else ("routers", j)
            yield Problem(loc, f"external router {show(router.group)} has no addresses", _NEEDED)
        else:
            yield from _sides(data, router.external, _location(data, arm, j))


def _location(data: ExperimentData, arm: int, router: int) -> Loc:
    """Return where a router's addresses stand: the arm's, if it has some of its own there."""
    name = data.routers[router].name
    if data.arms and name in (data.arms[arm].external or {}):
        return ("arms", arm, "external", name)
    return ("routers", router, "external")


def _sides(data: ExperimentData, external: External, loc: Loc) -> Iterator[Problem]:
    version = data.traffic.ip
    for name, side in (("ingress", external.ingress), ("egress", external.egress)):
        at: Loc = (*loc, name)
        if side.address.version != version:
            what = f"{side.address} is not IPv{version}, but the traffic is IPv{version}"
            accepted = f"an IPv{version} address, or traffic with ip: {10 - version}"
            yield Problem((*at, "address"), what, accepted)
        else:
            yield from _own(side, at)
    mine, other = external.ingress.subnet, external.egress.subnet
    if mine.version == other.version and mine.overlaps(other):
        what = f"{other} on the egress side overlaps {mine} on the ingress side"
        yield Problem((*loc, "egress", "address"), what, "another subnet on each side")


def _own(side: ExternalSide, at: Loc) -> Iterator[Problem]:
    if side.own is None and lowest_free(side.address) is None:
        what = f"{side.subnet} has no address left beside the router's"
        yield Problem((*at, "address"), what, "a subnet of two hosts or more")
        return
    own = side.own_address
    if own == side.address.ip:
        yield Problem((*at, "own"), f"{own} is the router's own address", "another one")
    elif own not in side.subnet:
        what = f"{own} is not in {side.subnet}, the router's subnet"
        yield Problem((*at, "own"), what, "an address of this subnet, or leave it out")


def _one_netns(data: ExperimentData, arm: int, routers: list[ArmRouter]) -> Iterator[Problem]:
    """Yield sides that the generator cannot reach, since it sends from one namespace."""
    first: str | None = None
    for k, router in enumerate(each for each in routers if each.external is not None):
        assert router.external is not None
        netns = router.external.ingress.netns
        first = netns if k == 0 else first
        if netns != first:
            j = next(j for j, each in enumerate(data.routers) if each.name == router.group)
            what = f"ingress interfaces in namespaces {show(first)} and {show(netns)}"
            yield Problem((*_location(data, arm, j), "ingress"), what, "all in one namespace")

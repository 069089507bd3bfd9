"""Checks of services: is there a kernel of Isolane's own that can do them to each frame?"""

from __future__ import annotations

from collections.abc import Iterator

from isolane.spec.arms import Arm, ArmRouter, resolve_arms
from isolane.spec.models import ExperimentData
from isolane.spec.problems import Loc, Problem, listed, nearest, show
from isolane.spec.services_models import MAX_NAT_FLOWS


def services_misfits(data: ExperimentData) -> Iterator[Problem]:
    """Yield the problems of services of routers, and of arms."""
    known = [router.name for router in data.routers]
    for i, change in enumerate(data.arms):
        for name in change.services or ():
            if name not in known:
                what = f"services of an unknown router {show(name)}"
                yield Problem(
                    ("arms", i, "services", name), what, listed(known) + nearest(name, known)
                )
    told: set[str] = set()
    for i, arm in enumerate(resolve_arms(data)):
        for j, router in enumerate(arm.routers):
            if router.services is None:
                continue
            for problem in _of_router(data, arm, router, _location(data, i, j)):
                if str(problem) not in told:
                    told.add(str(problem))
                    yield problem


def _location(data: ExperimentData, arm: int, router: int) -> Loc:
    """Return where a router's services stand: with the arm, if it has some for it."""
    name = data.routers[router].name
    if data.arms and name in (data.arms[arm].services or {}):
        return ("arms", arm, "services", name)
    return ("routers", router, "services")


def _of_router(data: ExperimentData, arm: Arm, router: ArmRouter, loc: Loc) -> Iterator[Problem]:
    assert router.services is not None
    name, inside = show(router.group), f" in arm {show(arm.name)}" if data.arms else ""
    if router.kind != "container":
        what = f"services of router {name}{inside}, whose kind is {router.kind}"
        yield Problem(loc, what, "kind container")
        return
    if router.policy is not None and router.policy.forward == "xdp":
        what = f"services of router {name}{inside} with forward: xdp, which no rule sees"
        yield Problem(loc, what, "forward: kernel, or no services")
    traffic = data.traffic_of(router.group)
    if traffic.mode != "forward":
        what = f"services of router {name} with mode {traffic.mode}: it passes no frames on"
        yield Problem(loc, what, "mode: forward, or no services")
    if router.services.nat and traffic.flows > MAX_NAT_FLOWS:
        what = f"nat of router {name} with {traffic.flows} flows, which need a port each"
        yield Problem((*loc, "nat"), what, f"at most {MAX_NAT_FLOWS} flows")

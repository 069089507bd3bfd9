"""Checks of virtual machines with an image, memory or processors of the user's choice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from isolane.spec.arms import Arm, ArmRouter, resolve_arms
from isolane.spec.host_addresses import lowest_free
from isolane.spec.image_models import Image
from isolane.spec.models import ExperimentData, Router
from isolane.spec.problems import Loc, Problem, listed, show

_KEYS: Final = ("image", "memory", "vcpus")
IMAGE_PATHS: Final = ("tap", "bridge", "macvtap")
"""Paths on which a router that Isolane did not set up can ask for its neighbours."""


def image_misfits(data: ExperimentData) -> Iterator[Problem]:
    """Yield the problems of images, and of what else a virtual machine may be given."""
    arms = resolve_arms(data)
    for j, router in enumerate(data.routers):
        loc: Loc = ("routers", j)
        machines = [arm.routers[j] for arm in arms if arm.routers[j].kind == "vm"]
        given = [key for key in _KEYS if getattr(router, key) is not None]
        if given and not machines:
            what = f"{listed(given)} of router {show(router.name)}, which is no virtual machine"
            yield Problem((*loc, given[0]), what, "kind vm, for it or for an arm")
        if router.image is not None:
            yield from _addresses(data, router, router.image, loc)
        told: set[str] = set()
        for problem in (p for one in machines for p in _machine(router, one, loc)):
            if str(problem) not in told:
                told.add(str(problem))
                yield problem
    yield from _mixed(arms, named=bool(data.arms))


def _mixed(arms: tuple[Arm, ...], *, named: bool) -> Iterator[Problem]:
    """Yield guests that would receive, and count, what images on the same wire ask all."""
    for i, arm in enumerate(arms):
        here = [one for one in arm.routers if one.kind == "vm" and one.path == "macvtap"]
        images = [one.group for one in here if one.image is not None]
        others = [one.group for one in here if one.image is None]
        if images and others:
            what = f"image of {listed(images)} beside {listed(others)} on path macvtap"
            loc: Loc = ("arms", i) if named else ("routers",)
            yield Problem(loc, what, "path tap or bridge, or images for all on macvtap")


def _machine(router: Router, one: ArmRouter, loc: Loc) -> Iterator[Problem]:
    name = show(router.name)
    if one.hypervisor == "uml":
        for key in ("image", "vcpus"):
            if getattr(router, key) is not None:
                what = f"{key} of router {name} under hypervisor uml"
                yield Problem((*loc, key), what, "hypervisor kvm or tcg")
    if router.vcpus is not None and router.image is None and one.hypervisor == "auto":
        what = f"vcpus of router {name} under hypervisor auto, which may be uml"
        yield Problem((*loc, "vcpus"), what, "hypervisor kvm or tcg")
    if router.image is not None and one.path not in IMAGE_PATHS:
        what = f"image of router {name} on path {one.path}"
        yield Problem((*loc, "image"), what, f"path {listed(IMAGE_PATHS)}")


def _addresses(data: ExperimentData, router: Router, image: Image, loc: Loc) -> Iterator[Problem]:
    sides = {"ingress": image.ingress, "egress": image.egress}
    given = {name: side for name, side in sides.items() if side is not None}
    version = data.traffic.ip
    for name, side in given.items():
        at: Loc = (*loc, "image", name)
        if side.version != version:
            what = f"{side} is not IPv{version}, but the traffic is IPv{version}"
            yield Problem(at, what, f"an IPv{version} address, or traffic with ip: {10 - version}")
        elif lowest_free(side) is None:
            what = f"{side.network} has no address left beside the router's"
            yield Problem(at, what, "a subnet of two hosts or more")
    if len(given) == 1:
        missing = next(name for name in sides if name not in given)
        what = f"image of router {show(router.name)} has an address on one side only"
        yield Problem((*loc, "image"), what, f"{missing}, too, or neither of them")
    if len(given) == 2:
        mine, other = (side.network for side in given.values())
        if mine.version == other.version and mine.overlaps(other):
            what = f"{other} on the egress side overlaps {mine} on the ingress side"
            yield Problem((*loc, "image", "egress"), what, "another subnet on each side")
        if router.count != (1,):
            what = f"one address for all of the group {show(router.name)}"
            yield Problem((*loc, "count"), what, "one entry for each of them, or no addresses")
        if router.address is not None:
            what = f"address of router {show(router.name)} beside image.ingress"
            yield Problem((*loc, "address"), what, "one of them")

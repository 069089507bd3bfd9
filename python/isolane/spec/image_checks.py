"""Checks of virtual machines with an image, memory or processors of the user's choice."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
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
    yield from _nobodys(data, arms)
    told: set[str] = set()
    for i, arm in enumerate(arms):
        for j, one in enumerate(arm.routers):
            if one.kind != "vm":
                continue
            for problem in _machine(data, one, _KeysOf(data, i, j)):
                if str(problem) not in told:
                    told.add(str(problem))
                    yield problem
        loc: Loc = ("arms", i) if data.arms else ("routers",)
        yield from _mixed(arm, loc)
        yield from _same_subnets(arm, loc)


class _KeysOf:
    """Where the keys of a router in an arm stand: with the arm, if it has them."""

    def __init__(self, data: ExperimentData, arm: int, router: int) -> None:
        self._change = data.arms[arm] if data.arms else None
        self._arm: Loc = ("arms", arm)
        self._router: Loc = ("routers", router)
        self.router: Router = data.routers[router]

    def of(self, key: str) -> Loc:
        by_arm = self._change is not None and getattr(self._change, key) is not None
        return (*(self._arm if by_arm else self._router), key)


def _nobodys(data: ExperimentData, arms: tuple[Arm, ...]) -> Iterator[Problem]:
    """Yield keys that no virtual machine has."""
    for j, router in enumerate(data.routers):
        given = [key for key in _KEYS if getattr(router, key) is not None]
        if given and all(arm.routers[j].kind != "vm" for arm in arms):
            what = f"{listed(given)} of router {show(router.name)}, which is no virtual machine"
            yield Problem(("routers", j, given[0]), what, "kind vm, for it or for an arm")
    for i, change in enumerate(data.arms):
        given = [key for key in _KEYS if getattr(change, key) is not None]
        if given and all(one.kind != "vm" for one in arms[i].routers):
            what = f"{listed(given)} of arm {show(change.name)}, which has no virtual machine"
            yield Problem(("arms", i, given[0]), what, "kind vm, for a router or for the arm")


def _mixed(arm: Arm, loc: Loc) -> Iterator[Problem]:
    """Yield guests that would receive, and count, what images on the same wire ask all."""
    here = [one for one in arm.routers if one.kind == "vm" and one.path == "macvtap"]
    images = [one.group for one in here if one.image is not None]
    others = [one.group for one in here if one.image is None]
    if images and others:
        what = f"image of {listed(images)} beside {listed(others)} on path macvtap"
        yield Problem(loc, what, "path tap or bridge, or images for all on macvtap")


def _same_subnets(arm: Arm, loc: Loc) -> Iterator[Problem]:
    """Yield images with a subnet in common on a wire in common, where each would hear the other."""
    images = [one for one in arm.routers if one.image is not None and one.shares_wire]
    for first, second in combinations(images, 2):
        if first.path == second.path and _overlap(first.image, second.image):
            what = f"images of {show(first.group)} and {show(second.group)} with a subnet in common"
            yield Problem(loc, f"{what} on path {first.path}", "path tap, or subnets of their own")


def _overlap(first: Image | None, second: Image | None) -> bool:
    if first is None or second is None:
        return False
    sides = ((first.ingress, second.ingress), (first.egress, second.egress))
    return any(a is not None and b is not None and a.network.overlaps(b.network) for a, b in sides)


def _machine(data: ExperimentData, one: ArmRouter, keys: _KeysOf) -> Iterator[Problem]:
    name = show(one.group)
    if one.hypervisor == "uml":
        for key, value in (("image", one.image), ("vcpus", one.vcpus)):
            if value is not None:
                what = f"{key} of router {name} under hypervisor uml"
                yield Problem(keys.of(key), what, "hypervisor kvm or tcg")
    if one.vcpus is not None and one.image is None and one.hypervisor == "auto":
        what = f"vcpus of router {name} under hypervisor auto, which may be uml"
        yield Problem(keys.of("vcpus"), what, "hypervisor kvm or tcg")
    if one.image is None:
        return
    if one.path not in IMAGE_PATHS:
        what = f"image of router {name} on path {one.path}"
        yield Problem(keys.of("image"), what, f"path {listed(IMAGE_PATHS)}")
    yield from _addresses(data, keys.router, one.image, keys.of("image"))


def _addresses(data: ExperimentData, router: Router, image: Image, loc: Loc) -> Iterator[Problem]:
    sides = {"ingress": image.ingress, "egress": image.egress}
    given = {name: side for name, side in sides.items() if side is not None}
    version = data.traffic.ip
    for name, side in given.items():
        if side.version != version:
            what = f"{side} is not IPv{version}, but the traffic is IPv{version}"
            accepted = f"an IPv{version} address, or traffic with ip: {10 - version}"
            yield Problem((*loc, name), what, accepted)
        elif lowest_free(side) is None:
            what = f"{side.network} has no address left beside the router's"
            yield Problem((*loc, name), what, "a subnet of two hosts or more")
    if len(given) == 1:
        missing = next(name for name in sides if name not in given)
        what = f"image of router {show(router.name)} has an address on one side only"
        yield Problem(loc, what, f"{missing}, too, or neither of them")
    if len(given) == 2:
        mine, other = (side.network for side in given.values())
        if mine.version == other.version and mine.overlaps(other):
            what = f"{other} on the egress side overlaps {mine} on the ingress side"
            yield Problem((*loc, "egress"), what, "another subnet on each side")
        if router.count != (1,):
            what = f"one address for all of the group {show(router.name)}"
            yield Problem(loc, what, "no addresses, or one entry for each router")
        if router.address is not None:
            what = f"address of router {show(router.name)} beside image.ingress"
            yield Problem(loc, what, "one of them")

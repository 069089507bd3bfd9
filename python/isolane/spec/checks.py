"""Checks of an experiment that need more than one value.

:func:`structure` needs nothing but values that are right one by one; :func:`consequences` needs an
experiment without problems of structure, because it looks at the arms and points that follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from isolane.spec.arms import ArmRouter, resolve_arms, resolve_router
from isolane.spec.bridge_checks import bridge_misfits
from isolane.spec.external_checks import external_misfits
from isolane.spec.fields import MAX_ROUTERS, NicModel
from isolane.spec.image_checks import image_misfits
from isolane.spec.kinds import NICS, PATHS, WITHOUT_PATH, uml_nic
from isolane.spec.load_points import sweeps
from isolane.spec.models import ArmChange, ExperimentData
from isolane.spec.objective_checks import objective_misfits
from isolane.spec.pattern_checks import pattern_misfits
from isolane.spec.policy_arms import misfits
from isolane.spec.problems import Loc, Problem, listed, nearest, show
from isolane.spec.services_checks import services_misfits
from isolane.spec.web_checks import web_misfits
from isolane.spec.work_checks import work_misfits

_OF_UPLINK: Final = ("scheduler", "uplink_rate", "uplink_burst", "back_pressure", "early_drop")
RESERVED: Final = ("gen", "rcv", "dut", "total")
"""Names that routers cannot have, because the test bed and the tables use them."""


def structure(data: ExperimentData) -> tuple[Problem, ...]:
    """Return the contradictions in the experiment as it is written."""
    checks: tuple[Callable[[ExperimentData], Iterator[Problem]], ...] = (
        _router_names,
        _number,
        _loads,
        _lists,
        _arm_names,
        _kinds_and_paths,
        bridge_misfits,
        misfits,
        external_misfits,
        image_misfits,
        pattern_misfits,
        services_misfits,
        work_misfits,
        web_misfits,
        objective_misfits,
        _capacity,
    )
    return tuple(problem for check in checks for problem in check(data))


def _router_names(data: ExperimentData) -> Iterator[Problem]:
    taken: dict[str, str] = {}
    for i, router in enumerate(data.routers):
        loc: Loc = ("routers", i, "name")
        members = router.member_names()
        if router.name in RESERVED:
            what = f"router name {show(router.name)} is used by Isolane itself"
            yield Problem(loc, what, f"any other name than {listed(RESERVED)}")
        if len(members[-1]) > 12:
            what = f"name {show(router.name)} is too long: its members would be {members[-1]}"
            yield Problem(loc, what, f"{12 + len(router.name) - len(members[-1])} characters here")
        for name in dict.fromkeys((router.name, *members)):
            if name in taken:
                what = f"router name {show(name)} is given twice"
                hint = "" if name == router.name else f" (by the members of {show(router.name)})"
                yield Problem(loc, what + hint, "a name of its own for each router")
                break
            taken[name] = router.name


def _number(data: ExperimentData) -> Iterator[Problem]:
    total = sum(max(router.count) for router in data.routers)
    if total > MAX_ROUTERS:
        largest = max(range(len(data.routers)), key=lambda i: max(data.routers[i].count))
        what = f"{total} routers in all"
        yield Problem(("routers", largest, "count"), what, f"at most {MAX_ROUTERS}")


def _loads(data: ExperimentData) -> Iterator[Problem]:
    names = tuple(dict.fromkeys(router.name for router in data.routers))
    for name in data.load:
        if name not in names:
            what = f"load for an unknown router {show(name)}"
            yield Problem(("load", name), what, listed(names) + nearest(name, names))
    for i, router in enumerate(data.routers):
        if router.name not in data.load:
            what = f"router {show(router.name)} has no load"
            accepted = f"an entry {router.name} under load (0x for none)"
            yield Problem(("routers", i, "name"), what, accepted)


def _lists(data: ExperimentData) -> Iterator[Problem]:
    lengths = list(sweeps(data))
    for loc, length in lengths[1:]:
        first, expected = lengths[0]
        if length != expected:
            where = ".".join(str(part) for part in first if not isinstance(part, int))
            what = f"a list of {length} values beside {where} with {expected}"
            accepted = f"lists of the same length, or single values (here: {expected} values or 1)"
            yield Problem(loc, what, accepted)


def _arm_names(data: ExperimentData) -> Iterator[Problem]:
    names = [arm.name for arm in data.arms]
    for i, name in enumerate(names):
        if name in names[:i]:
            what = f"arm name {show(name)} is given twice"
            yield Problem(("arms", i, "name"), what, "a name of its own for each arm")


def _kinds_and_paths(data: ExperimentData) -> Iterator[Problem]:
    for i, router in enumerate(data.routers):
        if router.kind in WITHOUT_PATH and router.path not in {None, "none"}:
            what = f"router {show(router.name)} is {router.kind} and has no path"
            what += f", but {show(router.path)}"
            yield Problem(("routers", i, "path"), f"{what} is given", "none, or leave path out")
    changes: tuple[ArmChange | None, ...] = data.arms or (None,)
    for i, change in enumerate(changes):
        loc: Loc = ("arms", i) if change else ("routers",)
        if change and change.kind in WITHOUT_PATH and change.path not in {None, "none"}:
            what = f"arm {show(change.name)} is {change.kind} and has no path"
            yield Problem((*loc, "path"), what, "none, or leave path out")
            continue
        routers = [resolve_router(router, change) for router in data.routers]
        for key in _OF_UPLINK:
            given = change is not None and getattr(change, key) is not None
            linked = key == "uplink_rate" and any(router.shares_link for router in routers)
            if change and given and not linked and all(r.path != "netback" for r in routers):
                what = f"{key} of arm {show(change.name)}, in which no router has path netback"
                yield Problem((*loc, key), what, f"path netback, or leave {key} out")
        if change and change.uplink_burst is not None and change.uplink_rate is None:
            what = f"uplink_burst of arm {show(change.name)} without uplink_rate"
            yield Problem((*loc, "uplink_burst"), what, "uplink_rate as well")
        yield from _paths_of_arm(data, change, routers, loc)


def _paths_of_arm(
    data: ExperimentData, change: ArmChange | None, routers: list[ArmRouter], loc: Loc
) -> Iterator[Problem]:
    suffix = f" in arm {show(change.name)}" if change else ""
    for i, router in enumerate(routers):
        at: Loc = loc if change else ("routers", i)
        yield from _path_of_router(router, suffix, at)
        yield from _nic_of_router(router, suffix, at)
    native = [i for i, router in enumerate(routers) if router.kind == "native"]
    if sum(max(data.routers[i].count) for i in native) > 1:
        what = f"more than one native router{suffix}: the host itself is only one"
        yield Problem(loc if change else ("routers", native[-1]), what, "one native router")
    useless = change and not change.kind and change.path not in {None, "none"}
    if change and useless and all(router.kind in WITHOUT_PATH for router in routers):
        what = f"path {show(change.path)}{suffix}, where all routers are {routers[0].kind}"
        yield Problem((*loc, "path"), what, "none, or leave path out")


def _path_of_router(router: ArmRouter, suffix: str, loc: Loc) -> Iterator[Problem]:
    accepted = f"a path of {listed(PATHS[router.kind])}, for the router or for the arm"
    if router.path == "none" and router.kind not in WITHOUT_PATH:
        what = f"{router.kind} {show(router.group)} has no path{suffix}"
        yield Problem(loc, what, accepted)
    elif router.path not in PATHS[router.kind]:
        what = f"{router.kind} {show(router.group)} cannot have path {show(router.path)}{suffix}"
        yield Problem((*loc, "path"), what, accepted)


def _nic_of_router(router: ArmRouter, suffix: str, loc: Loc) -> Iterator[Problem]:
    models = _nic_models(router)
    if router.nic is not None and models and router.nic not in models:
        by = f" and hypervisor {router.hypervisor}" if router.hypervisor != "auto" else ""
        what = f"NIC model {show(router.nic)} with path {show(router.path)}{by}{suffix}"
        yield Problem((*loc, "nic"), what, listed(models))


def _nic_models(router: ArmRouter) -> tuple[NicModel, ...]:
    """Return the NIC models that a router can have, as far as its hypervisor is known."""
    of_qemu, of_uml = NICS.get(router.path, ()), uml_nic(router.path)
    any_of_them = tuple(dict.fromkeys((*of_qemu, of_uml)))
    return {"uml": (of_uml,), "auto": any_of_them}.get(router.hypervisor or "", of_qemu)


def _capacity(data: ExperimentData) -> Iterator[Problem]:
    if data.capacity is None:
        return
    arms = tuple(dict.fromkeys(arm.name for arm in resolve_arms(data)))
    routers = tuple(dict.fromkeys(router.name for router in data.routers))
    for key, name, known in (
        ("arm", data.capacity.arm, arms),
        ("router", data.capacity.router, routers),
    ):
        if name is not None and name not in known:
            what = f"capacity of an unknown {key} {show(name)}"
            yield Problem(("capacity", key), what, listed(known) + nearest(name, known))

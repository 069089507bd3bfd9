"""Checks of routers' work: is there a router of Isolane's own that can do it?"""

from __future__ import annotations

from collections.abc import Iterator

from isolane.spec.arms import ArmRouter, resolve_arms
from isolane.spec.models import ExperimentData, Router
from isolane.spec.problems import Problem, show
from isolane.spec.work_models import NO_WORK


def work_misfits(data: ExperimentData) -> Iterator[Problem]:
    """Yield the problems of the work of routers."""
    arms = resolve_arms(data)
    for i, router in enumerate(data.routers):
        if set(router.work) == {NO_WORK}:
            continue
        if data.traffic_of(router.name).mode == "http":
            what = f"work of {show(router.name)} with mode http"
            yield Problem(("routers", i, "work"), what, "another mode, or no work")
        if (problem := _of_attack(data, router)) is not None:
            yield Problem(("routers", i, "work"), *problem)
        for arm in arms:
            why = _why_not(arm.router(router.name))
            if why is not None:
                inside = f" in arm {show(arm.name)}" if data.arms else ""
                what = f"work of {show(router.name)}{inside}, {why}: Isolane starts nothing in it"
                yield Problem(("routers", i, "work"), what, "a container, or a vm without image")
                break


def _of_attack(data: ExperimentData, router: Router) -> tuple[str, str] | None:
    """Return what is wrong with work where victims are compared with how they fare without."""
    if not any(other.role == "victim" for other in data.routers):
        return None
    swept, name = len(set(router.work)) > 1, show(router.name)
    if router.role == "aggressor":
        why = f"work of {name}, an aggressor, at each point: nothing tells what it does to a victim"
        return None if swept else (why, "a list with none in it")
    whose = "a victim" if router.role == "victim" else "which is no aggressor"
    why = f"work of {name}, {whose}, that is swept: what it does would count as another's"
    return (why, "one of none, cpu") if swept else None


def _why_not(router: ArmRouter) -> str | None:
    if router.image is not None:
        return "which starts from an image"
    if router.kind == "container" and router.policy is not None and router.policy.cores:
        return "whose policy chooses its cores"
    if router.kind in ("container", "vm"):
        return None
    return "an external router" if router.kind == "external" else f"whose kind is {router.kind}"

"""Checks of routers' work: is there a router of Isolane's own that can do it?"""

from __future__ import annotations

from collections.abc import Iterator

from isolane.spec.arms import ArmRouter, resolve_arms
from isolane.spec.models import ExperimentData
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
        if router.role == "victim" and len(set(router.work)) > 1:
            what = (
                f"work of {show(router.name)}, a victim, that is swept: it would be its own enemy"
            )
            yield Problem(("routers", i, "work"), what, "one of none, cpu")
        for arm in arms:
            why = _why_not(arm.router(router.name))
            if why is not None:
                inside = f" in arm {show(arm.name)}" if data.arms else ""
                what = f"work of {show(router.name)}{inside}, {why}: Isolane starts nothing in it"
                yield Problem(("routers", i, "work"), what, "a container, or a vm without image")
                break


def _why_not(router: ArmRouter) -> str | None:
    if router.image is not None:
        return "which starts from an image"
    if router.kind == "container" and router.policy is not None and router.policy.cores:
        return "whose policy chooses its cores"
    if router.kind in ("container", "vm"):
        return None
    return "an external router" if router.kind == "external" else f"whose kind is {router.kind}"

"""Checks of routers' work: is there a router of Isolane's own that can do it?"""

from __future__ import annotations

from collections.abc import Iterator

from isolane.spec.arms import ArmRouter, resolve_arms
from isolane.spec.models import ExperimentData, Router
from isolane.spec.problems import Problem, show
from isolane.spec.units import format_ns
from isolane.spec.work_models import DISK_WORK, NO_WORK


def work_misfits(data: ExperimentData) -> Iterator[Problem]:
    """Yield the problems of the work of routers."""
    arms = resolve_arms(data)
    for i, router in enumerate(data.routers):
        if (wrong := _of_times(data, router)) is not None:
            key, what, accepted = wrong
            yield Problem(("routers", i, key), what, accepted)
        if set(router.work) == {NO_WORK}:
            continue
        if data.traffic_of(router.name).mode == "http":
            what = f"work of {show(router.name)} with mode http"
            yield Problem(("routers", i, "work"), what, "another mode, or no work")
        if (problem := _of_attack(data, router)) is not None:
            yield Problem(("routers", i, "work"), *problem)
        for arm in arms:
            problem = _of_kind(arm.router(router.name), disk=DISK_WORK in router.work)
            if problem is not None:
                inside = f" in arm {show(arm.name)}" if data.arms else ""
                why, accepted = problem
                what = f"work of {show(router.name)}{inside}, {why}"
                yield Problem(("routers", i, "work"), what, accepted)
                break


def _of_times(data: ExperimentData, router: Router) -> tuple[str, str, str] | None:
    """Return what is wrong with the times of a router's work: key, problem, what is accepted."""
    times = {"work_from": router.work_from_ns, "work_until": router.work_until_ns}
    given = [key for key, at_ns in times.items() if at_ns is not None]
    if not given:
        return None
    key, name = given[-1], show(router.name)
    if set(router.work) == {NO_WORK}:
        return key, f"{name} has no work", "a router with work"
    if any(other.role == "victim" for other in data.routers):
        why = f"work of {name} in a part of the window: nothing tells what it does to a victim"
        return key, why, "work while frames are sent, or roles without a victim"
    window_ns = data.trial.duration_ns
    begin_ns = router.work_from_ns or 0
    end_ns = window_ns if router.work_until_ns is None else router.work_until_ns
    if end_ns <= begin_ns or end_ns > window_ns:
        what = f"work of {name} from {format_ns(begin_ns)} until {format_ns(end_ns)}"
        return key, what, f"times within the window of {format_ns(window_ns)}, one after the other"
    return None


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
    return (why, "a single value") if swept else None


def _of_kind(router: ArmRouter, *, disk: bool) -> tuple[str, str] | None:
    """Return why a router cannot do its work, and which one could."""
    why = _why_not(router)
    if why is not None:
        return f"{why}: Isolane starts nothing in it", "a container, or a vm without image"
    if disk and router.kind == "container":
        return "a container: it has no disk of its own", "work cpu, or a vm without image"
    return None


def _why_not(router: ArmRouter) -> str | None:
    if router.image is not None:
        return "which starts from an image"
    if router.kind == "container" and router.policy is not None and router.policy.cores:
        return "whose policy chooses its cores"
    if router.kind in ("container", "vm"):
        return None
    return "an external router" if router.kind == "external" else f"whose kind is {router.kind}"

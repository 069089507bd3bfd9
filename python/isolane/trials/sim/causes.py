"""Who caused a simulated core's time, by the rule of live runs (`isolane.trials.cpu_causes`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from isolane.results.cpu_results import CorePartName, CpuPart
from isolane.results.results import CoreTrial
from isolane.trials.cpu_causes import Parts
from isolane.trials.sim.build import SimModel
from isolane.trials.sim.web_requests import owner

Json = Mapping[str, Any]


def causes(model: SimModel, found: Json) -> dict[str, Parts]:
    """Return the CPU time that each router caused, by why it was spent, ns.

    Own is what its threads, processes and domains had, and what the softirq did for it where the
    NIC is its own. The simulator knows for whom it did a shared stage's work; a poll is divided by
    the frames that it took, as in a live run.
    """
    parts: dict[str, Parts] = {}
    for name in dict.fromkeys(owner(router.name) for router in model.simulation.routers):
        own = _own_contexts(model, name, found)
        parts[name] = {} if own is None else {"own": own}
    for stage in found["stages"]:
        for name, part, ns in _stage(model, stage):
            parts[name][part] = parts[name].get(part, 0) + ns
    return parts


def _own_contexts(model: SimModel, router: str, found: Json) -> int | None:
    """Return what the router's own contexts had; None if it has none."""
    mine = [
        context["cpu_ns"]
        for context in found["contexts"]
        if model.owners.get(context["name"]) == router
    ]
    return round(sum(mine)) if mine else None


def _stage(model: SimModel, stage: Json) -> list[tuple[str, CpuPart, int]]:
    """Divide a stage's time in contexts that are nobody's own."""
    segment = model.segments[stage["name"]]
    if model.owners.get(stage["context"]) is not None:
        return []
    served = [
        router.name
        for router in model.simulation.routers
        if stage["name"] in model.simulation.path(router.name)
    ]
    if not served:
        return []
    shares = stage.get("routers") or {served[0]: stage["cpu_ns"]}
    own_thread = segment.context in ("dom0", "back-end")  # what waits for it is on no backlog
    found: list[tuple[str, CpuPart, int]] = []
    for router, ns in shares.items():
        passed = _stages(model, router)
        shared = any(_is_shared(model, name) for name in passed)
        before = passed[: passed.index(stage["name"]) + 1]
        waits = not own_thread and any(model.segments[name].stages[0][1].queue for name in before)
        part: CpuPart = "own" if not shared else "backlog" if waits else "receive"
        found.append((owner(router), part, round(ns)))
    return found


def _stages(model: SimModel, router: str) -> list[str]:
    return [name for name in model.simulation.path(router) if name in model.segments]


def _is_shared(model: SimModel, name: str) -> bool:
    return model.segments[name].router is None


def core_trial(model: SimModel, number: int, found: Json) -> CoreTrial:
    """Return how a core's time was divided."""
    core = found["cores"][number]
    window = core["window_ns"]
    softirq = core["irq_ns"] + core["softirq_ns"]
    user = core["modes"].get("user", 0)
    system = max(0, core["busy_ns"] - softirq - user)
    return CoreTrial(
        core=number,
        part="dut",
        user=user / window,
        system=system / window,
        softirq=softirq / window,
        idle=max(0.0, 1 - core["busy_ns"] / window),
        routers=min(1.0, core["busy_ns"] / window),
        steal=0.0,
        parts=_parts(model, core, found),
    )


def _parts(model: SimModel, core: Json, found: Json) -> dict[CorePartName, float]:
    """Divide a core's time; what neither router nor interrupt had is the softirqs' own cost."""
    here = {one.name for one in model.simulation.contexts if core["name"] in one.cores}
    own = sum(
        context["cores"].get(core["name"], 0)
        for context in found["contexts"]
        if model.owners.get(context["name"]) is not None
    )
    shared = 0
    for stage in found["stages"]:
        if stage["context"] in here and model.owners.get(stage["context"]) is None:
            for _, part, ns in _stage(model, stage):
                own += ns if part == "own" else 0
                shared += ns if part != "own" else 0
    window = core["window_ns"]
    rest = max(0, core["busy_ns"] - core["irq_ns"] - own - shared)
    return {
        "own": own / window,
        "shared": shared / window,
        "interrupts": core["irq_ns"] / window,
        "softirqs": rest / window,
        "other_nics": 0.0,
        "kernel_threads": 0.0,
        "processes": 0.0,
        "steal": 0.0,
        "idle": max(0.0, 1 - core["busy_ns"] / window),
    }

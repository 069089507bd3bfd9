"""Work of simulated routers: a process that computes, beside a container's frames or a guest's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from isolane.spec import Arm, PointRouter
from isolane.spec.work_models import NO_WORK, Work
from isolane.trials.backend import Setting
from isolane.trials.sim import simulation as to
from isolane.trials.sim.catalogue import SimHost
from isolane.trials.sim.simulated_cores import of_policy

_NICE: Final[dict[Work, int | None]] = {"cpu": 19, "disk": None}
"""Of work beside the guest itself, whose kernel serves frames before its programs. Requests for its
disk are served by another process of this host."""
_READING: Final = to.Requesting("disk", depth=1, cpu_ns=42_000, disk_ns=1_000, blocking_permille=0)
"""As a User-Mode Linux guest reads on the development machine: alone on a core 23,500 requests a
second, which leave it no time (benches/RESULTS.md). Its threads wait for each other in between."""


def add_work(
    model: to.Simulation,
    host: SimHost,
    arm: Arm,
    setting: Setting,
    core_of: Callable[[str], str],
) -> tuple[to.Simulation, dict[str, str]]:
    """Return the model with the work of its routers, and whose each new context is.

    As in a live run (:mod:`isolane.testbed.router_work`) it takes time while frames are sent, or in
    a part of the window.
    A container's is a process of its own weight; a guest's is part of what the guest has of its
    core.

    Parameters
    ----------
    model
        Without work.
    host
        Its profile names the scheduler.
    arm, setting
        Which routers they are, and which of them work.
    core_of
        Router -> the core that it is on.
    """
    contexts, loads, owners = [], [], {}
    for demand in setting.demands:
        router = demand.router
        if router.work == NO_WORK:
            continue
        of_arm = arm.router(router.group)
        name, guest = f"work/{router.name}", of_arm.kind == "vm"
        context = to.Context(
            name=name,
            kind="process",
            cores=(core_of(router.name),),
            nice=_NICE[router.work] if guest else None,
            group=router.name if guest else None,
        )
        if guest and of_arm.policy is not None:
            context = of_policy(host, context, own_wire=False)
        contexts.append(context)
        begin_ns, end_ns = _times(router, model)
        load = _READING if router.work == "disk" else to.Computing("cpu")
        loads.append(to.Load(name, name, load, end_ns, begin_ns))
        owners[name] = router.name
    if not loads:
        return model, {}
    contexts = [*model.contexts, *contexts]
    return replace(model, contexts=tuple(contexts), loads=tuple(loads)), owners


def _times(router: PointRouter, model: to.Simulation) -> tuple[int, int]:
    """Return when the work begins and stops, ns since the trial's start."""
    begin_ns, end_ns = router.work_from_ns, router.work_until_ns
    return (
        0 if begin_ns is None else model.warm_up_ns + begin_ns,
        model.window_end_ns if end_ns is None else model.warm_up_ns + end_ns,
    )

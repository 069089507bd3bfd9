"""Work of simulated routers: a process that computes, beside a container's frames or in a guest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from isolane.spec import Arm
from isolane.spec.work_models import NO_WORK
from isolane.trials.backend import Setting
from isolane.trials.sim import simulation as to

_BEHIND_FRAMES: Final = 19
"""Nice value of a guest's program beside the guest itself, whose kernel serves frames first."""


def add_work(
    model: to.Simulation, arm: Arm, setting: Setting, core_of: Callable[[str], str]
) -> tuple[to.Simulation, dict[str, str]]:
    """Return the model with the work of its routers, and whose each new context is.

    As in a live run (:mod:`isolane.testbed.router_work`) it takes time while frames are sent.
    A container's is a process of its own weight; a guest's is part of what the guest has of its
    core.

    Parameters
    ----------
    model
        Without work.
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
        name, guest = f"work/{router.name}", arm.router(router.group).kind == "vm"
        contexts.append(
            to.Context(
                name=name,
                kind="process",
                cores=(core_of(router.name),),
                nice=_BEHIND_FRAMES if guest else None,
                group=router.name if guest else None,
            )
        )
        loads.append(to.Load(name, name, to.Computing("cpu"), model.window_end_ns))
        owners[name] = router.name
    if not loads:
        return model, {}
    contexts = [*model.contexts, *contexts]
    return replace(model, contexts=tuple(contexts), loads=tuple(loads)), owners

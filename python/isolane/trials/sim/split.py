"""What a core's time went into, by the accounts of the paths' stages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from isolane.trials.sim.build import SimModel

IDLE = "idle"


def split(model: SimModel, found: Mapping[str, Any], core: int = 0) -> dict[str, float]:
    """Return the shares of a core's time by account; they add up to 1, idle time included.

    Stages that the simulator ran as one are divided in proportion to their costs per frame.
    Interrupts, wake-ups and switches go on the account ``hypervisor`` on a Xen host, else on
    ``kernel``.
    """
    entry = found["cores"][core]
    window = entry["window_ns"]
    shares: dict[str, float] = defaultdict(float)
    here = {context.name for context in model.simulation.contexts if entry["name"] in context.cores}
    for stage in found["stages"]:
        segment = model.segments[stage["name"]]
        if stage["context"] not in here:
            continue
        costs: dict[str, float] = defaultdict(float)
        for name, part in segment.stages:
            costs[part.account or name] += sum(
                model.host.profile.costs[cost].frame_ns for cost in part.cost
            )
        whole = sum(costs.values())
        for account, cost in costs.items():
            shares[account] += stage["cpu_ns"] * (cost / whole if whole else 1 / len(costs))
    xen = any(of.scheduler.kind == "credit" for of in model.simulation.cores)
    rest = entry["busy_ns"] - sum(shares.values())
    shares["hypervisor" if xen else "kernel"] += max(0.0, rest)
    result = {account: value / window for account, value in shares.items()}
    result[IDLE] = max(0.0, 1 - entry["busy_ns"] / window)
    return result

"""The uplink of a simulated network back-end: its scheduler, its link, shares that change.

The schedulers are those of the back-end itself (``crates/sched``), with the same settings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from isolane.spec import WIRE_OVERHEAD_BYTES, Arm, PointRouter, PolicyValues
from isolane.spec.schedulers import KEYS, SchedulerName
from isolane.trials.sim.simulation import Change, FlowSettings, PacketScheduler, Port

AHEAD_FRAMES: Final = 2
"""In a link of some rate: the frame that is being sent, and one behind it: it never idles."""
BURST_NS: Final = 4_000_000
BURST_BYTES: Final = 10 * 1546
"""The back-end's link is a bucket of tokens for so long, and so many bytes at least. Where it looks
at the link, nothing is lost for want of tokens, and two frames are enough. Where it does not, the
port loses what the bucket would, but what it keeps waits there."""


def packet_scheduler(arm: Arm, routers: Sequence[PointRouter]) -> PacketScheduler:
    """Return the packet scheduler of an arm's uplink, with what it guarantees to each router."""
    kind = arm.uplink.scheduler
    settings = tuple(_flow(r.name, arm.router(r.group).policy, kind) for r in routers)
    if kind == "credit-random":
        return PacketScheduler("credit", WIRE_OVERHEAD_BYTES, settings, random=True)
    return PacketScheduler(kind, WIRE_OVERHEAD_BYTES, settings)


def link(name: str, arm: Arm, line_bps: int, egress_frames: int, wire_bytes: float) -> Port:
    """Return the link that the back-end sends on.

    Parameters
    ----------
    name
        Name of the port.
    arm
        Its uplink may have a rate of its own.
    line_bps
        Rate of the line, bit/s on the wire.
    egress_frames
        Frames that wait for the line itself.
    wire_bytes
        What a frame takes of the link in the mean.
    """
    rate_bps = arm.uplink.rate_bps
    if rate_bps is None or rate_bps >= line_bps:
        return Port(name, line_bps, egress_frames)
    if arm.uplink.back_pressure:
        return Port(name, round(rate_bps), AHEAD_FRAMES)
    burst_bytes = rate_bps / 8 * (arm.uplink.burst_ns or BURST_NS) / 1e9
    return Port(name, round(rate_bps), math.ceil(max(BURST_BYTES, burst_bytes) / wire_bytes))


def rates_bps(arm: Arm, routers: Sequence[PointRouter], line_bps: int) -> list[float]:
    """Return the lowest rate that each router is kept to while others send nothing, bit/s."""
    rates = []
    for router in routers:
        policies = [arm.router(router.group).policy]
        policies += [moment.policies[router.group] for moment in arm.changes]
        flows = [_flow(router.name, policy, arm.uplink.scheduler) for policy in policies]
        limits = [flow.rate_max_bps for flow in flows if flow.rate_max_bps is not None]
        rates.append(min(line_bps, arm.uplink.rate_bps or line_bps, *limits))
    return rates


def changes(arm: Arm, routers: Sequence[PointRouter], at: str, start_ns: int) -> tuple[Change, ...]:
    """Return the shares that change while a trial runs.

    Parameters
    ----------
    arm, routers
        Whose shares.
    at
        Name of the stage behind the scheduler.
    start_ns
        When the measuring window begins, ns of simulated time.
    """
    kind = arm.uplink.scheduler
    return tuple(
        Change("flow", start_ns + moment.at_ns, at, _flow(r.name, moment.policies[r.group], kind))
        for moment in arm.changes
        for r in routers
    )


def _flow(router: str, policy: PolicyValues | None, kind: SchedulerName) -> FlowSettings:
    """Return what a router is guaranteed; one without a policy has the defaults of one."""
    values, keys = policy or PolicyValues(), KEYS[kind]
    rate_max = values.rate_max.egress
    rate_max_bps = None if rate_max is None else rate_max.bps
    return FlowSettings(
        flow=router,
        weight=values.link_weight if "weight" in keys else None,
        priority=values.priority if "priority" in keys else None,
        rate_min_bps=_whole(values.rate_min_bps) if "rate_min" in keys else None,
        rate_max_bps=_whole(rate_max_bps) if "rate_max" in keys else None,
    )


def _whole(rate_bps: float | None) -> int | None:
    return None if rate_bps is None else round(rate_bps)

"""From an arm, its routers and their load to the model that the simulator runs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from isolane.enforce.cpu_cgroups import shares_of
from isolane.enforce.policy_plan import NIC_NICE
from isolane.run.backend import Setting
from isolane.run.sim.catalogue import SimHost
from isolane.run.sim.managed import Managed, managed
from isolane.spec import Arm, Experiment, PointRouter
from isolane.spec.arms import DEFAULT_CPU_WEIGHT
from isolane.spec.hostmodel import PathData, Stage

DRAIN_NS = 100_000_000
"""After the last frame was sent: whatever is in a queue then leaves it, or never will."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Segment:
    """Stages that follow each other in one context, as one stage of the simulator."""

    name: str
    context: str
    router: str | None
    """None where all routers of the path share it."""
    stages: tuple[tuple[str, Stage], ...]


@dataclass
class SimModel:
    """A model in the making, and what its names mean."""

    host: SimHost
    arm: Arm
    policy: Managed
    json: Json = field(default_factory=dict)
    segments: dict[str, Segment] = field(default_factory=dict)
    owners: dict[str, str | None] = field(default_factory=dict)
    """Context -> router; None for what serves several."""


def build(
    host: SimHost,
    experiment: Experiment,
    arm: Arm,
    routers: Sequence[PointRouter],
    setting: Setting,
) -> SimModel:
    """Return the model of one trial.

    Parameters
    ----------
    host
        Profile and paths.
    experiment
        Traffic and seed.
    arm, routers
        What is simulated.
    setting
        Offered loads and times.
    """
    line_bps = int(experiment.traffic.line_rate_bps)
    model = SimModel(host, arm, managed(arm, routers, line_bps))
    xen = any(arm.router(router.group).kind == "xen" for router in routers)
    end_ns = setting.warmup_ns + setting.window_ns
    model.json = {
        "seed": seed_of(experiment.trial.seed, setting.label),
        "duration_ns": end_ns + DRAIN_NS,
        "warm_up_ns": setting.warmup_ns,
        "window_end_ns": end_ns,
        "softirq": _softirq(host),
        "cores": [_core(model, i, xen=xen) for i in range(arm.cores)],
        "groups": [],
        "contexts": [],
        "nics": [],
        "ports": [],
        "stages": [],
        "routers": [],
        "traffic": [],
    }
    for number, router in enumerate(routers):
        _add_router(model, router, number, line_bps)
    for demand in setting.demands:
        if demand.offered_pps > 0:
            sizes = _sizes(experiment, demand.router.name)
            model.json["traffic"].append(
                {
                    "name": demand.router.name,
                    "router": demand.router.name,
                    "frame_bytes": sizes[0] if len(sizes) == 1 else sizes,
                    "pattern": {"kind": "cbr", "rate_pps": demand.offered_pps},
                    "stop_ns": end_ns,
                }
            )
    return model


def seed_of(seed: int, label: str) -> int:
    """Return the seed of one trial: the same whatever was simulated before it."""
    digest = hashlib.blake2b(f"{seed}/{label}".encode(), digest_size=6).digest()
    return int.from_bytes(digest, "big")


def _sizes(experiment: Experiment, router: str) -> list[int]:
    sizes = experiment.traffic_of(router).frame_sizes()
    return [size for size, weight in sizes for _ in range(weight)]


def _softirq(host: SimHost) -> Json:
    if host.profile.host.kernel == "linux-6":
        return {}
    # Linux 3.2 runs ten rounds whoever waits, and on every interrupt again.
    return {"restart_time_ns": None, "stop_for_threads": False, "defer_to_ksoftirqd": False}


def _core(model: SimModel, number: int, *, xen: bool) -> Json:
    host = model.host.profile.host
    cfs = {
        "kind": "cfs",
        "latency_ns": int(host.latency_ns),
        "min_granularity_ns": int(host.min_granularity_ns),
        "wakeup_granularity_ns": int(host.wakeup_granularity_ns),
    }
    return {
        "name": f"cpu{number}",
        "switch_ns": host.switch_ns,
        "tick_cost_ns": host.tick_cost_ns,
        "mode": "hypervisor" if xen else "kernel",
        "scheduler": {"kind": "credit"} if xen else cfs,
    }


def _add_router(model: SimModel, router: PointRouter, number: int, line_bps: int) -> None:
    of_arm = model.arm.router(router.group)
    path = model.host.path_of(of_arm)
    wire = of_arm.wire if of_arm.shares_wire else f"{of_arm.path}:{router.name}"
    core = f"cpu{model.policy.core(router.name, number)}"
    ring = f"{wire}/{path.ring}" if path.ring == "port" else f"{wire}/{router.name}"
    _add_wire(model, wire, line_bps, shaped=of_arm.policy is not None)
    # Whoever polls a ring that is shared stays on the core of the first router behind it.
    first = path.stages[path.first].context
    at = _add_ring(model, wire, ring, path, "cpu0" if first == "nic" else core)
    way = [ring]
    for segment in _segments(path, router.name, wire, link=model.policy.shares_link()):
        if segment.name not in model.segments:
            on = at if segment.context in {"softirq", "nic"} else core
            _add_segment(model, segment, ring, on, first=len(way) == 1)
        way.append(segment.name)
    model.json["routers"].append({"name": router.name, "path": [*way, f"{wire}/out"]})


def _add_wire(model: SimModel, wire: str, line_bps: int, *, shaped: bool) -> None:
    if any(nic["name"] == wire for nic in model.json["nics"]):
        return
    host = model.host.profile.host
    model.json["nics"].append(
        {"name": wire, "rate_bps": line_bps, "latency_ns": int(host.wire_ns), "rings": []}
    )
    port = {"name": f"{wire}/out", "rate_bps": line_bps, "capacity": host.egress_frames}
    if shaped:
        model.policy.way_out(port)
    model.json["ports"].append(port)


def _add_ring(model: SimModel, wire: str, name: str, path: PathData, core: str) -> str:
    """Add the ring unless it is there; return the core that serves it."""
    nic = next(nic for nic in model.json["nics"] if nic["name"] == wire)
    known = [ring for ring in nic["rings"] if ring["name"] == name]
    if not known:
        size = model.host.profile.rings[path.ring]
        given = model.arm.moderation_given
        nic["rings"].append(
            {
                "name": name,
                "capacity": size.capacity,
                "refill": size.refill,
                "moderation_ns": model.arm.moderation_ns if given else int(size.moderation_ns),
                "irq_ns": size.irq_ns,
            }
        )
        model.owners[name] = core
    return str(model.owners[name])


def _segments(path: PathData, router: str, wire: str, *, link: bool) -> list[Segment]:
    """Join the stages of a path that run one after the other in one context."""
    found: list[Segment] = []
    for name, stage in path.ordered():
        if stage.only == "shared-link" and not link:
            continue
        owner = wire if stage.shared else router
        last = found[-1] if found else None
        same = last is not None and last.stages[-1][1].shared == stage.shared
        if last is not None and same and stage.queue is None and _alike(last, stage):
            found[-1] = Segment(last.name, last.context, last.router, (*last.stages, (name, stage)))
            continue
        whose = None if stage.shared else router
        found.append(Segment(f"{owner}.{name}", stage.context, whose, ((name, stage),)))
    return found


def _alike(segment: Segment, stage: Stage) -> bool:
    """Tell whether a stage's time goes on the same bill as the segment's."""
    first = segment.stages[0][1]
    return stage.context == first.context and stage.mode == first.mode


def _add_segment(model: SimModel, segment: Segment, ring: str, core: str, *, first: bool) -> None:
    profile = model.host.profile
    costs = [profile.costs[cost] for _, stage in segment.stages for cost in stage.cost]
    head = segment.stages[0][1]
    entry: Json = {
        "name": segment.name,
        "context": _context(model, segment, ring, core),
        "frame_ns": sum(cost.frame_ns for cost in costs),
        "byte_ns": sum(cost.byte_ns for cost in costs),
        "cold_ns": sum(cost.cold_ns for cost in costs),
    }
    if head.drop is not None:
        entry["drop_ns"] = sum(profile.costs[cost].frame_ns for cost in head.drop)
    if head.mode is not None:
        entry["mode"] = head.mode
    if first:
        entry["ring"] = ring
    if head.queue is not None:
        queue = profile.queues[head.queue]
        entry["queue"] = {"capacity": queue.capacity, "notify_ns": queue.notify_ns}
        if queue.shared:
            entry["queue"]["shared"] = f"{entry['context']}/{head.queue}"
        if segment.router is not None and model.policy.weight(segment.router) is not None:
            way_in = model.policy.way_in(segment.router, str(entry["context"]))
            entry["queue"]["admission"] = [way_in]
    if first or head.queue is not None:
        entry["poll_ns"] = sum(cost.poll_ns for cost in costs)
    model.json["stages"].append(entry)
    model.segments[segment.name] = segment


def _context(model: SimModel, segment: Segment, ring: str, core: str) -> str:
    """Return the name of the context that a segment runs in; it is added if it is new."""
    kind, router = segment.context, segment.router
    threaded = kind == "softirq" and model.arm.receive == "threaded"
    name = {
        "softirq": f"napi/{ring}" if threaded else f"softirq/{core}",
        "nic": f"nic/{ring}",
        "dom0": "dom0",
    }.get(kind, f"{kind}/{router}")
    if any(context["name"] == name for context in model.json["contexts"]):
        return name
    cores = [core]
    entry: Json = {"name": name, "kind": _KINDS[kind], "cores": cores}
    if threaded:
        entry["kind"] = "thread"
        entry["whole_polls"] = True
    if kind in {"process", "domain"}:
        entry["wake_ns"] = model.host.profile.host.wake_ns
        entry["exit_ns"] = model.host.profile.host.exit_ns
        entry["cold_ns"] = model.host.profile.host.cold_ns
        entry["wake_mode"] = "hypervisor"
    if kind == "nic":
        entry |= {"nice": NIC_NICE, "whole_polls": True}
    managed_thread = kind == "thread" and model.policy.weight(router or "") is not None
    if managed_thread:
        entry["whole_polls"] = True
    if router is not None and (kind == "process" or managed_thread):
        entry["group"] = router
        model.json["groups"].append({"name": router, "shares": _shares(model, router)})
    if kind == "dom0":
        entry["cores"] = ["cpu0"]
    model.json["contexts"].append(entry)
    shared = kind in {"softirq", "nic", "dom0"}
    model.owners[name] = None if shared and not threaded else router
    return name


_KINDS: Mapping[str, str] = {
    "softirq": "softirq",
    "nic": "thread",
    "thread": "thread",
    "process": "process",
    "domain": "vcpu",
    "dom0": "vcpu",
}


def _shares(model: SimModel, router: str) -> int:
    weight = model.policy.weight(router)
    if weight is not None:
        return shares_of(weight)
    for of_arm in model.arm.routers:
        if router == of_arm.group or router.startswith(f"{of_arm.group}-"):
            return shares_of(of_arm.cpu_weight)
    return shares_of(DEFAULT_CPU_WEIGHT)

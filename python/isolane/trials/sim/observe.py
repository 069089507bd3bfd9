"""From what the simulator counted to the observation of a trial."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from isolane.results.invalid import InvalidKind, InvalidReason
from isolane.results.results import Delay, DropPoint, GeneratorAudit, Lateness, RouterTrial
from isolane.results.series import RouterSeries, TrialSeries, bins_of, padded, window_shift
from isolane.results.steady_models import WindowShift
from isolane.spec import format_pps
from isolane.spec.demands import Demand
from isolane.spec.patterns import read_pattern
from isolane.trials.backend import Observation, Setting
from isolane.trials.cpu_causes import Parts
from isolane.trials.router_cpu import router_cpu
from isolane.trials.sim.build import SimModel
from isolane.trials.sim.causes import causes, core_trial
from isolane.trials.sim.simulated_answers import answered

Json = Mapping[str, Any]


def observe(model: SimModel, setting: Setting, found: Json) -> Observation:
    """Work out the observation of a trial from the simulator's results."""
    flows = {flow["router"]: flow for flow in found["routers"]}
    parts, series = causes(model, found), _series(model, setting, flows)
    routers = tuple(
        _of_frames_or_requests(
            _router(model, setting, demand, flows, found, parts[demand.router.name]).model_copy(
                update={"window_shift": _shift(setting, demand, series, of_router)}
            ),
            demand,
            flows,
            series,
            of_router,
        )
        for demand, of_router in zip(setting.demands, series.routers, strict=True)
    )
    sent = sum(router.generated_frames for router in routers)
    window_s = setting.window_ns / 1e9
    requested = sum(demand.offered_pps for demand in setting.demands)
    audit = GeneratorAudit(
        requested_pps=requested,
        achieved_pps=sent / window_s,
        rate_error=sent / window_s / requested - 1 if requested else 0.0,
        departure_p50_ns=None,
        departure_p99_ns=None,
        departure_max_ns=None,
        busy=0.0,
        saturated=sent / window_s < requested * (1 - setting.budget.limit),
    )
    return Observation(
        routers=routers,
        cores=tuple(core_trial(model, i, found) for i in range(len(found["cores"]))),
        generator=audit,
        placement=None,
        conserved=all(router.lost["unaccounted"] == 0 for router in routers),
        series=series,
        invalid=_wire_limits(routers, setting),
    )


def _of_frames_or_requests(
    trial: RouterTrial,
    demand: Demand,
    flows: Mapping[str, Json],
    series: TrialSeries,
    own: RouterSeries,
) -> RouterTrial:
    if demand.router.mode != "http":
        return trial
    return answered(trial, demand, flows.get(trial.router, _NOTHING), series, own)


def _series(model: SimModel, setting: Setting, flows: Mapping[str, Json]) -> TrialSeries:
    """Return the simulator's bins, as far as a live trial has them."""
    bin_ns = model.simulation.bin_ns
    count = bins_of(setting.warmup_ns, setting.window_ns, bin_ns)
    routers = []
    for demand in setting.demands:
        bins = flows.get(demand.router.name, _NOTHING).get("bins", ())[:count]
        rest = count - len(bins)
        routers.append(
            RouterSeries(
                router=demand.router.name,
                sent=padded([bin_["offered"] for bin_ in bins], count),
                received=padded([bin_["received"] for bin_ in bins], count),
                delay_p99_ns=(*(bin_["delay_p99_ns"] for bin_ in bins), *[None] * rest),
            )
        )
    return TrialSeries(
        trial=0,
        bin_ns=bin_ns,
        warmup_ns=setting.warmup_ns,
        window_ns=setting.window_ns,
        routers=tuple(routers),
    )


def _wire_limits(routers: Sequence[RouterTrial], setting: Setting) -> tuple[InvalidReason, ...]:
    """Say whose load the ingress wire could not carry; an aggressor is to be too much."""
    one_frame_pps = 1e9 / setting.window_ns  # may fall on either side of a window's end
    return tuple(
        InvalidReason(
            InvalidKind.GENERATOR_LIMIT,
            f"the generator was the limit: the wire carried {format_pps(router.generated_pps)} of "
            f"the {format_pps(router.offered_pps)} for {router.router}",
        )
        for router in routers
        if router.role != "aggressor"
        and read_pattern(router.pattern).timing.kind in ("constant", "from")
        and router.generated_pps + one_frame_pps < router.offered_pps * (1 - setting.budget.limit)
    )


def _shift(
    setting: Setting, demand: Demand, series: TrialSeries, router: RouterSeries
) -> WindowShift | None:
    """Tell whether a steady load was served in a steady way."""
    changes = any(each.router.works_in_part for each in setting.demands)
    steady = demand.router.pattern.timing.steady and not changes
    return window_shift(series, router) if steady else None


def _router(
    model: SimModel,
    setting: Setting,
    demand: Demand,
    flows: Mapping[str, Json],
    found: Json,
    parts: Parts,
) -> RouterTrial:
    name, window_s = demand.router.name, setting.window_ns / 1e9
    of_arm = model.arm.router(demand.router.group)
    flow = flows.get(name, _NOTHING)
    offered = int(flow["window"]["offered"]["frames"])
    received = int(flow["window"]["received"]["frames"])
    delay = _delay(flow["delay"])  # a simulated frame leaves when it is due
    return RouterTrial(
        router=name,
        group=demand.router.group,
        role=demand.router.role,
        kind=of_arm.kind,
        path=of_arm.path,
        pattern=str(demand.router.pattern),
        mode=demand.router.mode,
        work=demand.router.work,
        load_x=demand.load_x,
        offered_pps=demand.offered_pps,
        intended_pps=demand.intended_pps,
        generated_pps=offered / window_s,
        received_pps=received / window_s,
        offered_frames=offered,
        generated_frames=offered,
        received_frames=received,
        offered_total=int(flow["offered"]["frames"]),
        received_total=int(flow["received"]["frames"]),
        lost=_lost(model, flow, found),
        loss_ratio=1 - received / offered if offered else None,
        delay=delay,
        due_delay=delay,
        lateness=_on_time(offered),
        reordered=0,
        duplicated=0,
        **router_cpu(parts, received, setting.window_ns * model.arm.cores),
    )


_COUNT: Json = {"frames": 0, "bytes": 0}
_NOTHING: Json = {
    "offered": _COUNT,
    "received": _COUNT,
    "drops": {},
    "left": 0,
    "window": {"offered": _COUNT, "received": _COUNT, "drops": {}},
    "delay": {"count": 0},
}
"""What a router without any load did."""


def _lost(model: SimModel, flow: Json, found: Json) -> dict[DropPoint, int]:
    kinds = {point["name"]: point["kind"] for point in found["places"]}
    words: dict[str, DropPoint] = {"ring": "nic_queue", "queue": "router_queue", "port": "egress"}
    lost: dict[DropPoint, int] = {
        "generator": 0,
        "nic_queue": 0,
        "router_queue": 0,
        "no_route": 0,
        "unanswered": 0,
        "egress": 0,
        "in_router": 0,
        "unaccounted": int(flow["left"]),
    }
    of_queue: dict[str, DropPoint] = {f"{stage}.queue": "egress" for stage in model.scheduled}
    of_queue |= {f"{stage}.queue": "unanswered" for stage in model.servers}
    for point, frames in flow["drops"].items():
        lost[of_queue.get(point) or words[kinds[point]]] += int(frames)
    return lost


def _delay(delay: Json) -> Delay | None:
    if not delay["count"]:
        return None
    keys = ("p50_ns", "p90_ns", "p99_ns", "p999_ns", "p9999_ns")
    return Delay(
        count=delay["count"],
        lost=delay["lost"],
        mean_ns=delay["sum_ns"] / delay["count"],
        arrived_p50_ns=delay["arrived_p50_ns"],
        **{key: math.inf if delay[key] is None else delay[key] for key in keys},
        max_ns=delay["max_ns"],
    )


def _on_time(frames: int) -> Lateness | None:
    if not frames:
        return None
    return Lateness(count=frames, missed=0, p50_ns=0, p99_ns=0, p999_ns=0, max_ns=0)

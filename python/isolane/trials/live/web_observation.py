"""Turns what became of a trial's web requests into its observation, with every invalid reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from isolane import _native
from isolane.results.invalid import InvalidKind, InvalidReason
from isolane.results.results import (
    DROP_POINTS,
    CoreTrial,
    Delay,
    DropPoint,
    GeneratorAudit,
    RouterTrial,
)
from isolane.results.web_results import WebTrial
from isolane.spec import ArmRouter
from isolane.spec.demands import Demand
from isolane.trials.backend import Observation, Setting
from isolane.trials.cpu_causes import Parts
from isolane.trials.live.cpu_accounting import CpuAccounting, Handled
from isolane.trials.live.cpu_agreement import Agreement
from isolane.trials.live.lateness import lateness_of, too_late
from isolane.trials.live.machine_faults import machine_faults, misplaced
from isolane.trials.router_cpu import router_cpu

BUSY = 0.98
"""Part of its time above which the clients' core is taken for the limit."""
AT_LIMIT = 0.95
"""Part of their time above which the routers' cores are at theirs: they could do that much more."""
_OWN_LIMITS = {"out_of_ports": "local port", "out_of_files": "descriptor"}
"""Failures that are this host's own, and what was not to be had."""


@dataclass(frozen=True)
class WebRaw:
    """All that was counted in one trial; reports are in the order of the demands."""

    setting: Setting
    kinds: Mapping[str, ArmRouter]
    reports: Sequence[_native.HttpReport]
    max_connections: int
    """That each client may have."""
    cpu: CpuAccounting
    agreement: Agreement


def observe_web(raw: WebRaw) -> Observation:
    """Return the observation: requests stand where frames do."""
    handled = {
        demand.router.name: Handled(taken=found.answered, dropped=0, sent=found.answered)
        for demand, found in zip(raw.setting.demands, raw.reports, strict=True)
    }
    causes = raw.cpu.causes(handled)
    cores = raw.cpu.of_cores(handled)
    routers = tuple(
        _router(raw, i, demand, causes[demand.router.name])
        for i, demand in enumerate(raw.setting.demands)
    )
    return Observation(
        routers=routers,
        cores=cores,
        generator=_audit(raw),
        placement=raw.cpu.placement(),
        conserved=all(one.offered_total == one.received_total + _lost(one) for one in routers),
        invalid=tuple(_invalid(raw, routers, cores)),
        cpu_audit=raw.agreement.of_cores(),
    )


def _lost(router: RouterTrial) -> int:
    return sum(router.lost.values())


def _router(raw: WebRaw, i: int, demand: Demand, parts: Parts) -> RouterTrial:
    found, window_s = raw.reports[i], raw.setting.window_ns / 1e9
    kind = raw.kinds[demand.router.name]
    failed = sum(found.failed.values())
    lost: dict[DropPoint, int] = dict.fromkeys(DROP_POINTS, 0)
    lost["unanswered"] = failed
    delay = _delay(found)
    # Of a closed loop it is known only now.
    offered_pps = demand.offered_pps or found.offered / window_s
    return RouterTrial(
        router=demand.router.name,
        group=demand.router.group,
        role=demand.router.role,
        kind=kind.kind,
        path=kind.path,
        pattern=str(demand.router.pattern),
        mode=demand.router.mode,
        load_x=demand.load_x,
        offered_pps=offered_pps,
        intended_pps=demand.intended_pps,
        generated_pps=found.offered / window_s,
        received_pps=found.completed / window_s,
        offered_frames=found.offered,
        generated_frames=found.offered,
        received_frames=found.answered,
        offered_total=found.offered,
        received_total=found.answered,
        lost=lost,
        loss_ratio=failed / found.offered if found.offered else None,
        delay=delay,
        lateness=lateness_of(found.late),
        reordered=0,
        duplicated=0,
        web=WebTrial(
            closed=demand.router.load.unit == "conn",
            object_bytes=demand.router.object_bytes,
            failed={why: count for why, count in found.failed.items() if count},
            statuses=found.statuses,
            content_bps=8 * found.completed_bytes / window_s,
            connections=found.connections,
            connect_p50_ns=found.connect.p50_ns,
            connect_p99_ns=found.connect.p99_ns,
            max_in_flight=found.max_in_flight,
        ),
        **router_cpu(parts, found.answered, raw.setting.window_ns * len(raw.cpu.cores.dut)),
    )


def _delay(found: _native.HttpReport) -> Delay | None:
    times = found.latency
    if not times.count:
        return None
    return Delay(mean_ns=found.latency_sum_ns / times.count, **times.as_dict())


def _audit(raw: WebRaw) -> GeneratorAudit:
    window_s = raw.setting.window_ns / 1e9
    requested = sum(demand.offered_pps for demand in raw.setting.demands)
    each = zip(raw.setting.demands, raw.reports, strict=True)
    achieved = sum(found.offered for demand, found in each if demand.offered_pps) / window_s
    late = [found.late for found in raw.reports if found.late.count]
    return GeneratorAudit(
        requested_pps=requested,
        achieved_pps=achieved,
        rate_error=achieved / requested - 1 if requested else 0.0,
        departure_p50_ns=max((one.p50_ns or 0.0 for one in late), default=None),
        departure_p99_ns=max((one.p99_ns or 0.0 for one in late), default=None),
        departure_max_ns=max((float(one.max_ns) for one in late), default=None),
        busy=0.0,
        saturated=False,
    )


def _invalid(
    raw: WebRaw, routers: Sequence[RouterTrial], cores: Sequence[CoreTrial]
) -> Iterator[InvalidReason]:
    """Yield every reason why the trial gives no verdict, or tells less."""
    for router, found in zip(routers, raw.reports, strict=True):
        yield from _own_limits(router, found)
        if router.web is not None and not router.web.closed:
            # In a closed loop a request is due when the one before it is answered.
            yield from too_late(router, router.delay, "the client", "response time")
            yield from _waiting(router, found, raw.max_connections)
    yield from _busy(cores)
    yield from misplaced(raw.cpu, raw.setting.budget.limit)
    yield from machine_faults(raw.setting, raw.cpu, raw.agreement)


def _own_limits(router: RouterTrial, found: _native.HttpReport) -> Iterator[InvalidReason]:
    for why, what in _OWN_LIMITS.items():
        if count := found.failed.get(why, 0):
            yield InvalidReason(
                InvalidKind.GENERATOR_LIMIT,
                f"this host was the limit: {count} requests to {router.router} found no {what}",
            )


def _waiting(
    router: RouterTrial, found: _native.HttpReport, max_connections: int
) -> Iterator[InvalidReason]:
    if found.max_in_flight >= max_connections:
        yield InvalidReason(
            InvalidKind.GENERATOR_LIMIT,
            f"the client was the limit: all {max_connections} connections to {router.router} "
            "were in use, and requests that were due waited for one",
        )


def _busy(cores: Sequence[CoreTrial]) -> Iterator[InvalidReason]:
    """Yield that the clients' and the web server's core had no time left.

    Where the routers' had none either, they were at their limit all the same; but how long an
    answer took is not their doing alone.
    """
    # Not all of them: some may have no router.
    routers_busy = any(core.idle < 1 - AT_LIMIT for core in cores if core.part == "dut")
    for core in cores:
        if core.part != "measure" or core.idle >= 1 - BUSY:
            continue
        busy = f"their core {core.core} was busy for {100 * (1 - core.idle):.0f} % of the window"
        if routers_busy:
            what = "client and web server waited for each other as well as for the routers"
            yield InvalidReason(InvalidKind.LATE, f"{what}: {busy}")
        else:
            what = "the client and the web server were the limit"
            yield InvalidReason(InvalidKind.GENERATOR_LIMIT, f"{what}: {busy}")

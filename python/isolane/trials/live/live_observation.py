"""Turns the raw counts of a live trial into its observation, with every invalid reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from isolane import _native
from isolane.results.invalid import InvalidKind, InvalidReason
from isolane.results.parts import PartTime, with_last
from isolane.results.results import Delay, DropPoint, GeneratorAudit, RouterTrial
from isolane.results.series import TrialSeries, gaps_of, merged, window_shift
from isolane.results.steady_models import Gaps, WindowShift
from isolane.spec import ArmRouter, format_pps
from isolane.spec.demands import Demand
from isolane.spec.patterns import EVENLY
from isolane.trials.backend import Observation, Setting
from isolane.trials.cpu_causes import Parts
from isolane.trials.live.cpu_accounting import CpuAccounting, Handled
from isolane.trials.live.cpu_agreement import Agreement
from isolane.trials.live.lateness import lateness_of, too_late
from isolane.trials.live.machine_faults import machine_faults, misplaced
from isolane.trials.router_cpu import FAR_CPU, RouterCpu, router_cpu

NEGATIVE = 0.0001
"""Share of the frames that may arrive before they were sent."""


@dataclass(frozen=True)
class Raw:
    """All that was counted in one trial; lists are in the order of the demands."""

    setting: Setting
    kinds: Mapping[str, ArmRouter]
    sent: _native.GeneratorReport
    received: Sequence[_native.StreamReceived]
    delays: Sequence[_native.Percentiles]
    """Since departure; frames that left and did not arrive are lost."""
    due_delays: Sequence[_native.Percentiles]
    """Since the frames were due; frames that the generator missed are lost as well."""
    lost: Sequence[dict[DropPoint, int]]
    receiver_dropped: int
    """Frames that the receiver's full wires dropped."""
    at_receiver: Sequence[int | None]
    """The same by router; None where nobody tells whose they were."""
    cpu: CpuAccounting
    agreement: Agreement
    parts: Mapping[str, tuple[PartTime, ...]] = field(default_factory=dict)
    """Router -> times of the parts of its frames' way, where they were stamped."""
    series: TrialSeries | None = None
    """None where the trial is longer than the receiver's series."""
    receiver_pause_ns: int = 0
    """Time between two polls of the receiver."""


def observe(raw: Raw) -> Observation:
    """Return the observation."""
    audit = _audit(raw)
    placement = raw.cpu.placement() if raw.cpu.cores.dut else None
    handled = _handled(raw)
    causes = raw.cpu.causes(handled)
    routers = tuple(
        _router(raw, i, d, causes[d.router.name]) for i, d in enumerate(raw.setting.demands)
    )
    return Observation(
        routers=routers,
        cores=raw.cpu.of_cores(handled),
        generator=audit,
        placement=placement,
        conserved=all(lost["unaccounted"] == 0 for lost in raw.lost),
        series=_kept(raw.series),
        receiver_dropped=raw.receiver_dropped,
        invalid=tuple(_invalid(raw, routers)),
        cpu_audit=raw.agreement.of_cores(),
    )


def _handled(raw: Raw) -> dict[str, Handled]:
    """Count what was done with each router's frames, over the whole trial."""
    found = {}
    each = zip(
        *(raw.setting.demands, raw.sent.streams, raw.lost, raw.received, raw.at_receiver),
        strict=True,
    )
    for demand, sent, lost, received, at_receiver in each:
        found[demand.router.name] = Handled(
            taken=max(0, sent.sent - lost["nic_queue"]),
            dropped=lost["router_queue"],
            sent=received.received - received.duplicated + (at_receiver or 0),
        )
    return found


def came_in_window(
    sent: _native.StreamSent, received: _native.StreamReceived, receiver_lost: int | None
) -> int:
    """Return how many frames of the window came, with those that the receiver's wires dropped.

    As many of these are taken for the window's as of those that arrived, since the wires do not
    tell when they were full; but no more than were sent.
    """
    arrived = received.received_window
    if not receiver_lost or not received.received:
        return arrived
    more = round(receiver_lost * arrived / received.received)
    return max(arrived, min(sent.sent_window, arrived + more))


def _router(raw: Raw, i: int, demand: Demand, parts: Parts) -> RouterTrial:
    window_s = raw.setting.window_ns / 1e9
    sent, received = raw.sent.streams[i], raw.received[i]
    kind = raw.kinds[demand.router.name]
    arrived = came_in_window(sent, received, raw.at_receiver[i])
    forwarded = sent.sent_window
    return RouterTrial(
        router=demand.router.name,
        group=demand.router.group,
        role=demand.router.role,
        kind=kind.kind,
        path=kind.path,
        hypervisor=kind.live_hypervisor,
        nic=kind.live_nic,
        pattern=str(demand.router.pattern),
        work=demand.router.work,
        mode=demand.router.mode,
        parts=_parts(raw, i, demand),
        load_x=demand.load_x,
        offered_pps=demand.offered_pps,
        intended_pps=demand.intended_pps,
        generated_pps=forwarded / window_s,
        received_pps=arrived / window_s,
        offered_frames=forwarded + sent.missed_window,
        generated_frames=forwarded,
        received_frames=arrived,
        offered_total=sent.sent + sent.missed,
        received_total=received.received - received.duplicated,
        receiver_lost=raw.at_receiver[i],
        lost=raw.lost[i],
        loss_ratio=1 - arrived / forwarded if forwarded else None,
        delay=_delay(raw.delays[i], received.delay_sum_ns),
        due_delay=_delay(raw.due_delays[i], received.due_sum_ns),
        lateness=lateness_of(raw.sent.lateness[i]),
        negative_delays=received.negative,
        reordered=received.reordered,
        duplicated=received.duplicated,
        window_shift=_shift(raw, i, demand),
        gaps=_gaps(raw, i, demand),
        **_cpu(raw, parts, arrived),
        cpu_guest=raw.cpu.of_guest(demand.router.name),
    )


def _parts(raw: Raw, i: int, demand: Demand) -> tuple[PartTime, ...] | None:
    parts, delay = (
        raw.parts.get(demand.router.name),
        _delay(raw.delays[i], raw.received[i].delay_sum_ns),
    )
    if parts is None or delay is None:
        return parts
    return with_last(parts, delay.count, delay.mean_ns)


def _cpu(raw: Raw, parts: Parts, received: int) -> RouterCpu:
    cores = len(raw.cpu.cores.dut)
    return router_cpu(parts, received, raw.setting.window_ns * cores) if cores else FAR_CPU


def _shift(raw: Raw, i: int, demand: Demand) -> WindowShift | None:
    """Tell whether a steady load was served in a steady way."""
    changes = any(each.router.works_in_part for each in raw.setting.demands)
    if raw.series is None or changes or not demand.router.pattern.timing.steady:
        return None
    return window_shift(raw.series, raw.series.routers[i])


def _gaps(raw: Raw, i: int, demand: Demand) -> Gaps | None:
    if raw.series is None or not demand.offered_pps or demand.router.pattern.timing != EVENLY:
        return None
    counts, scheduled_ns = raw.series.routers[i].gaps, 1e9 / demand.offered_pps
    return gaps_of(counts, scheduled_ns, raw.receiver_pause_ns)


def _kept(series: TrialSeries | None) -> TrialSeries | None:
    """Make the histograms of gaps smaller; what is told of them was worked out before."""
    if series is None:
        return None
    routers = [one.model_copy(update={"gaps": merged(one.gaps)}) for one in series.routers]
    return series.model_copy(update={"routers": tuple(routers)})


def _delay(delay: _native.Percentiles, sum_ns: int) -> Delay | None:
    if not delay.count:
        return None
    return Delay(mean_ns=sum_ns / delay.count, **delay.as_dict())


def _audit(raw: Raw) -> GeneratorAudit:
    window_s = raw.setting.window_ns / 1e9
    streams = raw.sent.streams
    sent = sum(stream.sent_window for stream in streams)
    offered = sent + sum(stream.missed_window for stream in streams)
    requested = sum(demand.offered_pps for demand in raw.setting.demands)
    departure = raw.sent.departure
    return GeneratorAudit(
        requested_pps=requested,
        achieved_pps=sent / window_s,
        rate_error=sent / window_s / requested - 1 if requested else 0.0,
        departure_p50_ns=departure.p50_ns,
        departure_p99_ns=departure.p99_ns,
        departure_max_ns=departure.max_ns if sent else None,
        busy=raw.sent.iterations_sent / max(1, raw.sent.iterations),
        saturated=sent < (1 - raw.setting.budget.limit) * offered,
    )


def _delays_invalid(router: RouterTrial) -> Iterator[InvalidReason]:
    """Yield why the delays of one router cannot be told; an aggressor's are not."""
    if router.negative_delays > NEGATIVE * router.received_frames:
        yield InvalidReason(
            InvalidKind.CLOCKS,
            f"{router.negative_delays} frames of {router.router} arrived before they were sent: "
            "the clocks of generator and receiver differ",
        )
    yield from too_late(router, router.due_delay, "the generator", "delay")


def _invalid(raw: Raw, routers: Sequence[RouterTrial]) -> Iterator[InvalidReason]:
    """Yield every reason why the trial gives no verdict, or tells less."""
    limit = raw.setting.budget.limit
    for router in routers:
        # What an aggressor really sent is where its point lies, whatever it was asked for.
        as_sent = router.held_up or raw.setting.as_sent
        missing = raw.setting.budget.noise if as_sent else limit
        short = router.generated_frames < (1 - missing) * router.offered_frames
        if router.role != "aggressor" and short:
            yield InvalidReason(
                InvalidKind.GENERATOR_LIMIT,
                f"the generator was the limit: it sent {format_pps(router.generated_pps)} of the "
                f"{format_pps(router.offered_pps)} for {router.router}",
            )
        yield from _delays_invalid(router)
    sent = sum(router.offered_total - router.lost["generator"] for router in routers)
    yield from _receiver_limit(raw, routers, sent)
    yield from misplaced(raw.cpu, limit)
    unaccounted = sum(abs(router.lost["unaccounted"]) for router in routers)
    if unaccounted:
        text = f"{unaccounted} frames are unaccounted for"
        yield InvalidReason(InvalidKind.UNACCOUNTED, text)
    if raw.sent.failed:
        text = f"{raw.sent.failed} frames could not be built"
        yield InvalidReason(InvalidKind.NOT_BUILT, text)
    yield from machine_faults(raw.setting, raw.cpu, raw.agreement)


def _receiver_limit(raw: Raw, routers: Sequence[RouterTrial], sent: int) -> Iterator[InvalidReason]:
    """Yield why too much was lost behind the routers: frames of nobody, or too many of one."""
    untold = raw.receiver_dropped - sum(router.receiver_lost or 0 for router in routers)
    if untold > raw.setting.budget.limit * sent:
        yield InvalidReason(
            InvalidKind.RECEIVER_LIMIT,
            f"the receiver was the limit: its wires dropped {untold} frames, and nobody tells "
            "whose",
        )
    for router in routers:
        lost = router.receiver_lost or 0
        if lost > raw.setting.budget.noise * (router.received_total + lost):
            yield InvalidReason(
                InvalidKind.RECEIVER_LIMIT,
                f"the receiver was the limit: its wires dropped {lost} frames of {router.router}",
            )

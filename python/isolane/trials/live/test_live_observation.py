from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import pytest

from isolane._native import CpuUse, GeneratorReport, Percentiles, StreamReceived, StreamSent
from isolane.procfs import CoreTicks
from isolane.results.error_budget import ErrorBudget
from isolane.results.invalid import InvalidKind
from isolane.results.results import DROP_POINTS, DropPoint, RouterTrial
from isolane.results.series import RouterSeries, TrialSeries
from isolane.spec import ArmRouter, Load, PointRouter
from isolane.spec.demands import Demand
from isolane.trials.backend import Setting
from isolane.trials.live.cores import Cores
from isolane.trials.live.cpu_accounting import IDLE, PROCESS, Accounts, CpuAccounting, CpuUses
from isolane.trials.live.cpu_agreement import NS_PER_EVENT, Agreement
from isolane.trials.live.live_observation import Raw, observe

WINDOW_NS = 500_000_000
OFFERED = 5_000
WARMUP = 1_000
LOST = 40


def sent(**changed: int) -> StreamSent:
    usual = {
        "sent": OFFERED + WARMUP, "sent_window": OFFERED, "sent_window_bytes": OFFERED * 64,
        "missed": 0, "missed_window": 0,
    }  # fmt: skip
    return StreamSent(**usual | changed)


def received(**changed: int) -> StreamReceived:
    usual = {
        "received": OFFERED + WARMUP - LOST, "received_window": OFFERED - LOST,
        "received_window_bytes": (OFFERED - LOST) * 64, "reordered": 0, "duplicated": 0,
        "untracked": 0, "negative": 0, "delay_max_ns": 9_000, "delay_sum_ns": 4_960_000,
        "due_max_ns": 9_500, "due_sum_ns": 5_456_000,
    }  # fmt: skip
    return StreamReceived(**usual | changed)


def percentiles(count: int, *, lost: int = 0, **known: float) -> Percentiles:
    return Percentiles(
        count=count,
        lost=lost,
        arrived_p50_ns=known.get("arrived_p50_ns", known.get("p50_ns")),
        p50_ns=known.get("p50_ns"),
        p90_ns=known.get("p90_ns"),
        p99_ns=known.get("p99_ns"),
        p999_ns=known.get("p999_ns"),
        p9999_ns=known.get("p9999_ns"),
        max_ns=int(known.get("max_ns", 0)),
    )


ON_TIME = percentiles(OFFERED, p50_ns=100, p99_ns=170, p999_ns=1_000, max_ns=1_000)


def audit(stream: StreamSent, *, failed: int = 0, late: Percentiles = ON_TIME) -> GeneratorReport:
    return GeneratorReport(
        streams=[stream],
        departure=late,
        lateness=[late],
        iterations=100_000,
        iterations_sent=OFFERED,
        failed=failed,
        calls=1,
    )


def use(softirq_ns: int = 0, thread_ns: int = 0, polls: int = 0, frames: int = 0) -> CpuUse:
    return CpuUse(
        softirq_ns=softirq_ns,
        thread_ns=thread_ns,
        over_ns=0,
        kernel_ns=thread_ns,
        polls=polls,
        frames=frames,
    )


def losses(**changed: int) -> dict[DropPoint, int]:
    found: dict[DropPoint, int] = {point: changed.get(point, 0) for point in DROP_POINTS}
    return found


def accounting(
    *,
    elsewhere: int = 0,
    idle: float = 1.0,
    others: float = 0.0,
    others_measuring: float = 0.0,
    steal: int = 0,
) -> CpuAccounting:
    cores: CpuUses = [[use()] * 16, [use()] * 16]
    cores[0][IDLE] = use(thread_ns=int(WINDOW_NS * idle))
    cores[0][10] = use(polls=1, frames=elsewhere)
    cores[1][10] = use(6_200_000, 0, 100, OFFERED)
    taken_ns = int(WINDOW_NS * others)
    cores[1][IDLE] = use(thread_ns=WINDOW_NS - 6_200_000 - taken_ns)
    cores[1][PROCESS] = use(thread_ns=taken_ns)
    cores[0][PROCESS] = use(thread_ns=int(WINDOW_NS * others_measuring))
    ticks = dict.fromkeys((0, 1), CoreTicks(0, 0, 0, 0, 0, 0, 0, 0))
    later = dict.fromkeys((0, 1), CoreTicks(0, 0, 0, 0, 0, 0, 0, steal))
    accounts = Accounts({"one": 10}, own=frozenset({"one"}))
    return CpuAccounting(cores, accounts, Cores((1,), (0,)), WINDOW_NS, (ticks, later))


def agreement(cpu: CpuAccounting, *, kernel_more_ns: int = 0) -> Agreement:
    """Return an agreement, but for tasks that only the kernel has seen."""
    uses = [list(core) for core in cpu.uses]
    if kernel_more_ns:
        uses[1][PROCESS] = CpuUse(
            softirq_ns=0, thread_ns=0, over_ns=0, kernel_ns=kernel_more_ns, polls=0, frames=0
        )
    return Agreement(uses, WINDOW_NS, [1_000, 20_000], [0, 0], [0, 0], None, range(2))


def raw(role: Literal["victim", "aggressor"] = "victim", **changed: Any) -> Raw:
    router = PointRouter("one", "one", role, Load(10_000, "pps"))
    delays = percentiles(
        OFFERED - LOST, p50_ns=900, p90_ns=900, p99_ns=900, p999_ns=9_000, p9999_ns=9_000,
        max_ns=9_000,
    )  # fmt: skip
    found = Raw(
        setting=Setting((Demand(router, 10_000.0, 0.25),), 100_000_000, WINDOW_NS),
        kinds={"one": ArmRouter("one", "container", "direct")},
        sent=audit(sent()),
        received=[received()],
        delays=[delays],
        due_delays=[delays],
        lost=[losses(nic_queue=LOST)],
        receiver_dropped=0,
        at_receiver=[None],
        cpu=accounting(),
        agreement=agreement(accounting()),
    )  # fmt: skip
    if "cpu" in changed:
        changed = {"agreement": agreement(changed["cpu"]), **changed}
    return replace(found, **changed)


def test_what_was_counted_becomes_rates_and_ratios() -> None:
    seen = observe(raw())
    one = seen.routers[0]
    assert (one.offered_frames, one.generated_frames) == (OFFERED, OFFERED)
    assert one.received_frames == OFFERED - LOST
    assert one.generated_pps == 10_000
    assert one.received_pps == (OFFERED - LOST) / 0.5
    assert one.loss_ratio == pytest.approx(LOST / OFFERED)
    assert one.offered_total == one.received_total + sum(one.lost.values())
    assert (one.load_x, one.kind, one.path) == (0.25, "container", "direct")
    assert one.cpu_ns == 6_200_000
    assert one.cpu_share == pytest.approx(0.0124)
    assert one.cpu_ns_per_frame == 6_200_000 / (OFFERED - LOST)
    assert one.cpu_reason is None
    assert one.cpu_parts == {"own": 6_200_000}
    assert (one.cpu_caused_ns, one.cpu_caused_share) == (one.cpu_ns, one.cpu_share)
    assert [core.events for core in seen.cpu_audit] == [1_000, 20_000]
    assert seen.cpu_audit[1].overhead == pytest.approx(20_000 * NS_PER_EVENT / WINDOW_NS)
    assert seen.conserved
    assert seen.invalid == ()


def test_delays_have_their_percentiles_mean_and_maximum() -> None:
    delay = observe(raw()).routers[0].delay
    assert delay is not None
    assert (delay.p99_ns, delay.p999_ns, delay.p9999_ns, delay.max_ns) == (900, 9000, 9000, 9000)
    assert delay.mean_ns == 1000


def test_delay_since_the_due_time_and_lateness_stand_beside_it() -> None:
    one = observe(raw()).routers[0]
    assert one.due_delay is not None
    assert one.lateness is not None
    assert (one.due_delay.mean_ns, one.lateness.p99_ns, one.lateness.missed) == (1100, 170, 0)


def over_time(received: Sequence[int]) -> TrialSeries:
    """Frames by bin of 10 ms, warm-up included; gaps of 100 us, and one of 1 ms."""
    router = RouterSeries(
        router="one",
        sent=tuple(received),
        received=tuple(received),
        delay_p99_ns=tuple(900.0 if frames else None for frames in received),
        gaps=((99_328, 100_351, 4_900), (100_352, 101_375, 58), (999_424, 1_015_807, 1)),
    )
    return TrialSeries(
        trial=0, bin_ns=10_000_000, warmup_ns=100_000_000, window_ns=WINDOW_NS, routers=(router,)
    )


def test_a_series_gives_the_shift_of_the_window_and_the_gaps() -> None:
    series = over_time([0] * 10 + [50] * 25 + [100] * 25 + [0] * 5)
    seen = observe(raw(series=series, receiver_pause_ns=20_000))
    one = seen.routers[0]
    assert one.window_shift is not None
    assert (one.window_shift.throughput, one.window_shift.delay_p99) == (-0.25, 0)
    assert one.gaps is not None
    assert (one.gaps.count, one.gaps.scheduled_ns, one.gaps.tolerance_ns) == (4_959, 1e5, 3e4)
    assert one.gaps.as_scheduled == pytest.approx(4_958 / 4_959)
    assert seen.series is not None
    assert seen.series.routers[0].received == series.routers[0].received
    kept = seen.series.routers[0].gaps
    assert [count for _, _, count in kept] == [4_958, 1], "merged to keep the folder small"
    assert RouterTrial.model_validate_json(one.model_dump_json()) == one


def test_without_a_series_nothing_is_told_of_steadiness() -> None:
    seen = observe(raw())
    assert (seen.series, seen.routers[0].window_shift, seen.routers[0].gaps) == (None, None, None)


def test_more_losses_than_a_percentile_leaves_out_make_it_infinite() -> None:
    gone = percentiles(
        OFFERED - LOST, lost=100, p50_ns=900, p90_ns=900, p99_ns=math.inf, p999_ns=math.inf,
        p9999_ns=math.inf, max_ns=9_000,
    )  # fmt: skip
    one = observe(raw(delays=[gone], due_delays=[gone])).routers[0]
    assert one.delay is not None
    assert (one.delay.p90_ns, one.delay.p99_ns, one.delay.lost) == (900, math.inf, 100)
    assert RouterTrial.model_validate_json(one.model_dump_json()) == one
    assert observe(raw(delays=[gone], due_delays=[gone])).invalid == ()


def test_a_silent_router_has_no_ratio_and_no_delay() -> None:
    nothing = StreamSent(**dict.fromkeys(sent().as_dict(), 0))
    gone = StreamReceived(**dict.fromkeys(received().as_dict(), 0))
    case = raw(sent=audit(nothing), received=[gone], delays=[percentiles(0)], lost=[losses()])
    one = observe(case).routers[0]
    assert one.loss_ratio is None
    assert one.delay is None
    assert one.cpu_ns_per_frame is None
    assert observe(case).generator.departure_max_ns is None


def test_duplicates_are_not_received_twice() -> None:
    twice = received(received=OFFERED + WARMUP - LOST + 3, duplicated=3)
    one = observe(raw(received=[twice])).routers[0]
    assert one.received_total == OFFERED + WARMUP - LOST
    assert one.duplicated == 3


def stream_that(late: Percentiles = ON_TIME, **changed: int) -> GeneratorReport:
    return audit(sent(**changed), late=late)


SLOW = percentiles(OFFERED, p50_ns=100_000, p99_ns=170_000, p999_ns=170_000)
LONG = percentiles(OFFERED - LOST, p50_ns=900_000, p90_ns=900_000, p99_ns=900_000,
                   p999_ns=900_000, p9999_ns=900_000)  # fmt: skip


def late(p50_ns: float = 100, p99_ns: float = 170) -> Percentiles:
    return percentiles(OFFERED, p50_ns=p50_ns, p99_ns=p99_ns, p999_ns=1_000)


INVALID: dict[str, tuple[Raw, InvalidKind, str]] = {
    "a slow generator": (
        raw(sent=stream_that(SLOW, sent_window=4_989, missed_window=11), due_delays=[LONG]),
        InvalidKind.GENERATOR_LIMIT, "the generator was the limit",
    ),
    "a generator that was held up for long": (
        raw(sent=stream_that(sent_window=4_740, missed_window=260)),
        InvalidKind.GENERATOR_LIMIT, "the generator was the limit",
    ),
    "a full receiver": (
        raw(receiver_dropped=13), InvalidKind.RECEIVER_LIMIT, "the receiver was the limit"
    ),
    "a receiver that was full for long": (
        raw(receiver_dropped=320, at_receiver=[320]),
        InvalidKind.RECEIVER_LIMIT,
        "its wires dropped 320 frames of one",
    ),
    "a late median": (
        raw(sent=audit(sent(), late=late(p50_ns=181))), InvalidKind.LATE, "late by 181 ns for one"
    ),
    "a late percentile": (
        raw(sent=audit(sent(), late=late(p99_ns=200))), InvalidKind.LATE, "99th percentile"
    ),
    "clocks that differ": (
        raw(received=[received(negative=1)]), InvalidKind.CLOCKS, "arrived before they were sent"
    ),
    "misplaced frames": (
        raw(cpu=accounting(elsewhere=50)),
        InvalidKind.MISPLACED,
        "50 of 5050 frames were received away",
    ),
    "unaccounted frames": (
        raw(lost=[losses(unaccounted=-7)]), InvalidKind.UNACCOUNTED, "7 frames are unaccounted for"
    ),
    "unbuilt frames": (
        raw(sent=audit(sent(), failed=2)), InvalidKind.NOT_BUILT, "2 frames could not be built"
    ),
    "CPU time that does not add up": (
        raw(cpu=accounting(idle=0.9)), InvalidKind.CPU_ACCOUNTING, "miss the window by 10.0 %"
    ),
    "CPU time that the kernel contradicts": (
        raw(agreement=agreement(accounting(), kernel_more_ns=6_000_000)),
        InvalidKind.CPU_DISAGREEMENT,
        "tasks ran for 0.0 ms, the CPU scheduler for 6.0 ms",
    ),
    "another process": (
        raw(cpu=accounting(others=0.06)),
        InvalidKind.DISTURBED,
        "other processes used 6 % of core 1 (at most 5 %)",
    ),
    "a hypervisor": (
        raw(cpu=accounting(steal=7)), InvalidKind.PAUSED, "the hypervisor took 12 % of core 1"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", INVALID)
def test_each_invalid_reason_is_told_alone(name: str) -> None:
    case, kind, words = INVALID[name]
    (reason,) = observe(case).invalid
    assert reason.kind == kind
    assert words in reason.text
    assert observe(case).conserved == (name != "unaccounted frames")


FINE: dict[str, Raw] = {
    "a generator that was held up": raw(sent=stream_that(sent_window=4_760, missed_window=240)),
    "a generator a little late": raw(sent=stream_that(sent_window=4_991, missed_window=9)),
    "an aggressor that could be no worse": raw(
        "aggressor", sent=stream_that(sent_window=2_000, missed_window=3_000)
    ),
    "a late aggressor": raw("aggressor", sent=audit(sent(), late=late(p50_ns=900))),
    "a receiver that dropped next to nothing": raw(receiver_dropped=3),
    "a receiver that dropped frames of one router": raw(
        receiver_dropped=LOST, at_receiver=[LOST], lost=[losses(egress=LOST)]
    ),
    "a frame or two elsewhere": raw(cpu=accounting(elsewhere=2)),
    "CPU time that is off by a thousandth": raw(cpu=accounting(idle=0.999)),
    "another process for a moment": raw(cpu=accounting(others=0.04)),
    "another process on a measuring core": raw(cpu=accounting(idle=0.7, others_measuring=0.3)),
    "one tick of the hypervisor": raw(cpu=accounting(steal=1)),
    "CPU time that the kernel has a little more of": raw(
        agreement=agreement(accounting(), kernel_more_ns=4_000_000)
    ),
    "losses at the router's own egress": raw(lost=[losses(egress=LOST)]),
}


@pytest.mark.parametrize("name", FINE)
def test_what_does_not_matter_is_no_invalid_reason(name: str) -> None:
    assert observe(FINE[name]).invalid == ()


def test_the_generators_audit_says_when_it_was_the_limit() -> None:
    seen = observe(raw(sent=stream_that(sent_window=4_000, missed_window=1_000))).generator
    assert seen.saturated
    assert seen.achieved_pps == 8_000
    assert seen.rate_error == pytest.approx(-0.2)
    assert seen.busy == OFFERED / 100_000
    assert not observe(raw()).generator.saturated


def test_a_trial_counts_at_the_load_that_was_sent() -> None:
    """Up to 5 % less for the victim: what is delivered is of what was sent, so nothing is wrong."""
    for missed, kinds in ((200, set[InvalidKind]()), (300, {InvalidKind.GENERATOR_LIMIT})):
        case = raw(
            sent=stream_that(SLOW, sent_window=5_000 - missed, missed_window=missed),
            due_delays=[LONG],
        )
        as_sent = observe(replace(case, setting=replace(case.setting, as_sent=True)))
        assert {reason.kind for reason in as_sent.invalid} == kinds
        assert {reason.kind for reason in observe(case).invalid} == {InvalidKind.GENERATOR_LIMIT}
        assert as_sent.routers[0].generated_frames == 5_000 - missed


def test_limits_follow_the_threshold() -> None:
    """At a threshold of 10 % a trial may miss ten times as much as at 1 %."""
    case = raw(
        sent=stream_that(SLOW, sent_window=4_950, missed_window=50),
        due_delays=[LONG],
        cpu=accounting(others=0.15),
    )
    coarse = replace(case, setting=replace(case.setting, budget=ErrorBudget(0.1)))
    assert {reason.kind for reason in observe(case).invalid} == {
        InvalidKind.GENERATOR_LIMIT, InvalidKind.DISTURBED,
    }  # fmt: skip
    assert observe(coarse).invalid == ()

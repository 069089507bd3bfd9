"""What becomes of a trial's web requests, and when it says nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from isolane._native import HttpReport
from isolane.results.invalid import InvalidKind
from isolane.spec import ArmRouter, Load, PointRouter
from isolane.spec.demands import Demand
from isolane.trials.backend import Setting
from isolane.trials.live.cpu_accounting import IDLE
from isolane.trials.live.test_live_observation import (
    WINDOW_NS,
    accounting,
    agreement,
    percentiles,
    use,
)
from isolane.trials.live.web_observation import WebRaw, observe_web

ASKED, ANSWERED, IN_WINDOW = 500, 480, 470
LATE = float("inf")
OPEN = Load(1000, "rps")
LATENCY = percentiles(
    ANSWERED, lost=20, p50_ns=2e5, p90_ns=3e5, p99_ns=LATE, p999_ns=LATE, p9999_ns=LATE, max_ns=9e5
)
ON_TIME = percentiles(ASKED, p50_ns=300, p99_ns=7_000, p999_ns=9_000, max_ns=9_500)


def report(**changed: Any) -> HttpReport:
    usual: dict[str, Any] = {
        "window_ns": WINDOW_NS, "offered": ASKED, "answered": ANSWERED,
        "failed": {"refused": 0, "timed_out": 5, "status": 15}, "statuses": {503: 15},
        "completed": IN_WINDOW, "completed_bytes": IN_WINDOW * 1024, "connections": ASKED,
        "retried": 0, "max_in_flight": 17, "latency": LATENCY,
        "latency_sum_ns": ANSWERED * 250_000, "connect": ON_TIME, "late": ON_TIME,
    }  # fmt: skip
    return HttpReport(**usual | changed)


def raw(
    role: str = "victim",
    found: HttpReport | None = None,
    load: Load = OPEN,
    **changed: Any,
) -> WebRaw:
    router = PointRouter("one", "one", role, load, mode="http")  # type: ignore[arg-type]
    offered = load.to_pps(None, 64)
    usual = WebRaw(
        setting=Setting((Demand(router, offered, None),), 100_000_000, WINDOW_NS),
        kinds={"one": ArmRouter("one", "container", "bridge")},
        reports=[report() if found is None else found],
        max_connections=8000,
        cpu=accounting(idle=0.5),
        agreement=agreement(accounting()),
    )
    return replace(usual, **changed)


def test_requests_stand_where_frames_do_and_add_up() -> None:
    seen = observe_web(raw())
    (one,) = seen.routers
    assert (one.offered_total, one.received_total, one.lost["unanswered"]) == (ASKED, ANSWERED, 20)
    assert sum(one.lost.values()) == 20
    assert seen.conserved
    assert (one.offered_pps, one.received_pps) == (1000, IN_WINDOW / 0.5)
    assert one.loss_ratio == pytest.approx(20 / ASKED)
    assert one.delay is not None
    assert (one.delay.mean_ns, one.delay.lost, one.delay.p99_ns) == (250_000, 20, LATE)
    assert one.web is not None
    assert one.web.failed == {"timed_out": 5, "status": 15}
    assert one.web.statuses == {503: 15}
    assert one.web.content_bps == 8 * IN_WINDOW * 1024 / 0.5
    assert (one.cpu_ns, one.cpu_ns_per_frame) == (6_200_000, 6_200_000 / ANSWERED)
    assert seen.generator.departure_p99_ns == 7_000
    assert seen.invalid == ()


@pytest.mark.parametrize(
    ("found", "kind", "told"),
    [
        (
            report(failed={"out_of_ports": 20}), InvalidKind.GENERATOR_LIMIT,
            "this host was the limit: 20 requests to one found no local port",
        ),
        (
            report(failed={"out_of_files": 20}), InvalidKind.GENERATOR_LIMIT,
            "20 requests to one found no descriptor",
        ),
        (report(max_in_flight=8000), InvalidKind.GENERATOR_LIMIT, "all 8000 connections to one"),
        (
            report(late=percentiles(ASKED, p50_ns=50_000, p99_ns=1e6, p999_ns=1e6, max_ns=1e6)),
            InvalidKind.LATE, "the client was late by 50 µs for one \\(median\\)",
        ),
    ],
)  # fmt: skip
def test_what_is_the_clients_doing_is_no_verdict_on_the_router(
    found: HttpReport, kind: InvalidKind, told: str
) -> None:
    (reason,) = observe_web(raw(found=found)).invalid
    assert reason.kind is kind
    assert told.replace("\\", "") in reason.text


def test_an_aggressors_response_times_may_be_late() -> None:
    late = percentiles(ASKED, p50_ns=50_000, p99_ns=1e6, p999_ns=1e6, max_ns=1e6)
    assert observe_web(raw("aggressor", report(late=late))).invalid == ()


def test_a_core_without_time_left_for_clients_is_the_limit() -> None:
    cpu = accounting(others_measuring=1.0)
    cpu.uses[0][IDLE] = use(thread_ns=0)
    (reason,) = observe_web(raw(cpu=cpu)).invalid
    assert reason.kind is InvalidKind.GENERATOR_LIMIT
    assert "their core 0 was busy for 100 % of the window" in reason.text
    cpu.uses[1][10] = use(WINDOW_NS, 0, 100, ANSWERED)
    cpu.uses[1][IDLE] = use(thread_ns=0)
    (reason,) = observe_web(raw(cpu=cpu, agreement=agreement(cpu))).invalid
    assert reason.kind is InvalidKind.LATE, "the routers were at theirs, too"
    assert "core 0 was busy for 100 %" in reason.text


def test_a_closed_loop_has_the_rate_at_which_it_was_answered() -> None:
    late = percentiles(ASKED, p50_ns=50_000, p99_ns=1e6, p999_ns=1e6, max_ns=1e6)
    seen = observe_web(raw("router", report(late=late), Load(64, "conn")))
    assert seen.routers[0].offered_pps == ASKED / 0.5
    assert seen.invalid == ()


def test_a_router_that_nothing_is_asked_of_has_no_figures() -> None:
    nothing = percentiles(0)
    found = report(
        offered=0, answered=0, failed={}, statuses={}, completed=0, completed_bytes=0,
        connections=0, max_in_flight=0, latency=nothing, latency_sum_ns=0, connect=nothing,
        late=nothing,
    )  # fmt: skip
    seen = observe_web(raw(found=found))
    (one,) = seen.routers
    assert (one.delay, one.lateness, one.loss_ratio, one.received_pps) == (None, None, None, 0)
    assert seen.conserved

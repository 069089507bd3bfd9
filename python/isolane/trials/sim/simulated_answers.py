"""What a simulated load balancer answered: a trial's figures of frames, as those of requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from isolane.results.results import DROP_POINTS, DropPoint, RouterTrial
from isolane.results.series import RouterSeries, TrialSeries
from isolane.results.web_results import WebTrial
from isolane.spec.demands import Demand

Json = Mapping[str, Any]


def answered(
    trial: RouterTrial, demand: Demand, flow: Json, series: TrialSeries, own: RouterSeries
) -> RouterTrial:
    """Return the figures of a load balancer: throughput is what was answered within the window.

    No request is lost on the way, since TCP sends again what is; what is not answered when the
    simulation ends, some 2 s after the window, has failed.
    """
    window_s = series.window_ns / 1e9
    first = series.warmup_ns // series.bin_ns
    last = first + series.window_ns // series.bin_ns
    completed = sum(own.received[first:last])
    failed = trial.offered_frames - trial.received_frames
    lost: dict[DropPoint, int] = dict.fromkeys(DROP_POINTS, 0)
    lost["unanswered"] = int(flow["left"])
    web = WebTrial(
        closed=demand.router.load.unit == "conn",
        object_bytes=demand.router.object_bytes,
        failed={"timed_out": failed} if failed else {},
        statuses={},
        content_bps=8 * completed * demand.router.object_bytes / window_s,
        connections=None,
        connect_p50_ns=None,
        connect_p99_ns=None,
        max_in_flight=None,
    )
    update = {
        "offered_pps": demand.offered_pps or trial.generated_pps,
        "received_pps": completed / window_s,
        "lost": lost,
        "due_delay": None,
        "web": web,
    }
    return trial.model_copy(update=update)

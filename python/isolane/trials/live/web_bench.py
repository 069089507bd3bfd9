"""A live bench for load balancers: clients, HAProxy in the routers, a web server behind them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

from isolane import _native
from isolane.errors import MeasurementError
from isolane.procfs import core_ticks
from isolane.results.results import NotMeasured
from isolane.spec import Arm, Experiment, PointRouter, format_ns
from isolane.spec.demands import Demand
from isolane.spec.units import MAX_CONNECTIONS
from isolane.testbed import Wire
from isolane.testbed.web_servers import HTTP_PORT, at, path_of
from isolane.trials.backend import Observation, Setting
from isolane.trials.live.bridge_limits import bridge_limits
from isolane.trials.live.cpu_agreement import IdleReading
from isolane.trials.live.measured_bench import CommonEquipment, MeasuredBench
from isolane.trials.live.traffic import GRACE_S
from isolane.trials.live.web_observation import WebRaw, observe_web
from isolane.web.requesting import Requesting, RequestPlan, allow_connections
from isolane.web.url import Url

LEAD_NS: Final = 20_000_000
"""Time from the call to the first request: each client is a thread that is yet to start."""
TIMEOUT_NS: Final = 2_000_000_000
"""A request fails so long after its intended time."""
_NONE: Final = _native.Percentiles(
    count=0, lost=0, arrived_p50_ns=None, p50_ns=None, p90_ns=None, p99_ns=None, p999_ns=None,
    p9999_ns=None, max_ns=0,
)  # fmt: skip
NOBODY_ASKED: Final = _native.HttpReport(
    window_ns=0, offered=0, answered=0, failed={}, statuses={}, completed=0, completed_bytes=0,
    connections=0, retried=0, max_in_flight=0, latency=_NONE, latency_sum_ns=0, connect=_NONE,
    late=_NONE,
)  # fmt: skip


def is_closed(demand: Demand) -> bool:
    """Tell whether a router always has so many requests under way, whatever their rate."""
    return demand.router.load.unit == "conn"


class WebBench(MeasuredBench):
    """A built test bed with load balancers, ready for trials."""

    def __init__(
        self,
        experiment: Experiment,
        arm: Arm,
        routers: Sequence[PointRouter],
        equipment: CommonEquipment,
    ) -> None:
        super().__init__(arm, routers, equipment)
        self._kept = [experiment.traffic_of(router.name).keep_alive for router in routers]
        self._ip = experiment.traffic.ip
        asked = [r.load for point in experiment.points() for r in point.routers]
        largest = max((round(load.value) for load in asked if load.unit == "conn"), default=1)
        count = len(routers)
        self._max_connections = allow_connections(count * largest, count * MAX_CONNECTIONS) // count

    def _trial(self, setting: Setting) -> Observation:
        tools = self._common
        ticks = core_ticks()
        idle = IdleReading.take(tools.accountant, ticks)
        tools.bed.receive_often()
        start_ns = _native.monotonic_ns() + LEAD_NS
        clients = self._clients(setting, start_ns)
        self._watch(setting, start_ns + setting.warmup_ns)
        self._send([client for client in clients if client is not None], setting)
        tools.bed.receive_rarely()
        tools.bed.check_alive()
        cpu, agreement = self._cpu(setting, idle)
        return observe_web(
            WebRaw(
                setting=setting,
                kinds=self._kinds,
                reports=[
                    NOBODY_ASKED if client is None else client.native_report() for client in clients
                ],
                max_connections=self._max_connections,
                cpu=cpu,
                agreement=agreement,
            )
        )

    def _clients(self, setting: Setting, start_ns: int) -> list[Requesting | None]:
        """Return a client for each router; None for one that nothing is asked of."""
        each = zip(setting.demands, self._common.bed.wires, self._kept, strict=True)
        return [
            Requesting(self._plan(setting, demand, wire, start_ns, keep_alive=kept))
            if demand.offered_pps or is_closed(demand)
            else None
            for demand, wire, kept in each
        ]

    def _plan(
        self, setting: Setting, demand: Demand, wire: Wire, start_ns: int, *, keep_alive: bool
    ) -> RequestPlan:
        server, router = at(wire.router_ip), demand.router
        closed = is_closed(demand)
        return RequestPlan(
            url=Url(server, wire.router_ip, HTTP_PORT, path_of(router.object_bytes)),
            server=server,
            rate_millirps=None if closed else round(1000 * demand.offered_pps),
            concurrency=round(router.load.value) if closed else 0,
            poisson=not closed and router.pattern.timing.kind == "poisson",
            seed=1 + zlib.crc32(f"{setting.label}/{router.name}".encode()),
            keep_alive=keep_alive,
            max_connections=self._max_connections,
            warm_up_ns=setting.warmup_ns,
            window_ns=setting.window_ns,
            timeout_ns=TIMEOUT_NS,
            netns=wire.gen_netns,
            start_ns=start_ns,
        )

    def _send(self, clients: Sequence[Requesting], setting: Setting) -> None:
        """Have all clients send, until the last answer or time-out."""
        whole_ns = LEAD_NS + setting.warmup_ns + setting.window_ns + TIMEOUT_NS
        limit_s = whole_ns / 1e9 + GRACE_S
        with ExitStack() as stack:
            for client in clients:
                stack.enter_context(client)
            if not all(client.wait(limit_s) for client in clients):
                raise MeasurementError(f"a client had not finished after {limit_s:.1f} s")

    def limits(self) -> tuple[NotMeasured, ...]:
        """Return what the figures leave out; see :class:`isolane.trials.backend.Bench`."""
        pause = format_ns(self._common.bed.receiver_moderation_ns)
        return (
            *bridge_limits(self._arm, self._ip),
            NotMeasured(
                what="Response times more exactly than the client's interface is polled",
                why=f"on {self._arm.name} that is every {pause}, and the client wakes up some tens "
                "of microseconds later; both are in each response time",
            ),
        )

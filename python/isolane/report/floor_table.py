"""The table of the null DUT: the floor of the delays."""

from __future__ import annotations

from isolane.analysis import wording
from isolane.report.tables import NOTHING, Table, Value
from isolane.results.results import Delay, Lateness, Summary
from isolane.spec.units import format_ns, format_pps

NOTE = (
    "Each point once without a router: the wire goes from the generator straight to the receiver. "
    "What is left are the generator's batches and its lateness, the wire, and the receiver's pause "
    "between polls. No other figure has this subtracted."
)


def null_dut(summary: Summary) -> Table:
    """Return what the wire alone, with generator and receiver, adds to the delays at each point."""
    rows = tuple(
        (
            Value("no router"),
            Value(floor.point_label),
            Value(floor.router),
            Value(format_pps(floor.offered_pps)),
            Value(_percent(floor.loss_ratio)),
            *(
                Value(NOTHING if times is None else format_ns(pick(times)))
                for times, pick in (
                    (floor.delay, _p50),
                    (floor.delay, _p99),
                    (floor.due_delay, _p50),
                    (floor.due_delay, _p99),
                    (floor.lateness, _p99),
                )
            ),
        )
        for floor in summary.null_dut
    )
    delays = ("Delay p50", "p99", "Since due p50", "p99", "Late p99")
    headings = ("Arm", "Point", "Router", "Offered", "Lost", *delays)
    return Table(headings, ("",) * len(headings), rows, words=3)


def _percent(share: float | None) -> str:
    return NOTHING if share is None else f"{wording.percent(share)} %"


def _p50(times: Delay | Lateness) -> float:
    return times.p50_ns


def _p99(times: Delay | Lateness) -> float:
    return times.p99_ns

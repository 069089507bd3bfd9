"""Plots of CPU time and of lost frames."""

from __future__ import annotations

from collections.abc import Sequence

from isolane.analysis import wording
from isolane.analysis.flow_words import REQUESTS, flow_in, flow_of
from isolane.report.chart import Axis, Figure, Gap, Row, Swatch, stacked_panel
from isolane.report.points import Across
from isolane.results.missing import MissingPoint, in_arm
from isolane.results.results import DROP_POINTS, Cell, CoreCell, DropPoint, Summary

STATES = ("user", "system", "softirq", "idle")
DROP_POINT_WORDS: dict[DropPoint, str] = {
    "generator": "generator",
    "nic_queue": "NIC queue",
    "router_queue": "router queue",
    "no_route": "not forwarded",
    "unanswered": "not answered",
    "egress": "egress",
    "in_router": "in the router",
    "unaccounted": "unaccounted",
}
_PARTS = {"dut": "device under test", "measure": "generator and receiver", "other": "other"}
_PERCENT = "format(datum.value * 100, '~g') + ' %'"


def cpu_figure(summary: Summary, positions: Across) -> Figure | None:
    """Stack what each core did; one panel per arm and core, the DUT's cores first."""
    keys = dict.fromkeys((c.arm, c.core, c.part) for c in summary.cores if c.part != "other")
    if not keys:
        return None
    rank = {"dut": 0, "measure": 1}
    panels, arms = [], len({arm for arm, _, _ in keys})
    for arm, number, part in sorted(keys, key=lambda key: (rank[key[2]], key[1])):
        cells = [c for c in summary.cores if (c.arm, c.core) == (arm, number)]
        rows = [row for cell in cells for row in _states(cell, positions)]
        marks = [_charged(c, positions) for c in cells] if part == "dut" else []
        busiest = max(cells, key=lambda cell: 1 - cell.idle)
        words = (
            f"Core {number} in arm {arm}: busiest at {busiest.point_label} with "
            f"{wording.percent(1 - busiest.idle)} % of its time used."
        )
        title = f"{arm} · core {number}, {_PARTS[part]}"
        y = Axis("share of the core's time", _PERCENT, domain=(0, 1))
        gaps = _gaps(summary, arm, positions)
        panels.append(
            stacked_panel(title, rows, STATES, positions.axis, y, words, marks=marks, gaps=gaps)
        )
    legend = [Swatch(state, "states", index) for index, state in enumerate(STATES)]
    swatches = (*(Swatch(s.label, s.palette, s.index, "bar") for s in legend), _TICK)
    caption = (
        "What each core did, means over the repeats. The tick marks how much of it was charged "
        "to routers. The generator keeps its core busy at any load, because it polls to send "
        "each frame on time."
    )
    return Figure(
        "cpu", "Where the cores' time went", caption, tuple(panels), swatches, "states", arms
    )


_TICK = Swatch("charged to routers", "states", 0, "tick")


def gap_tip(point: MissingPoint) -> dict[str, str]:
    """Return the tooltip of a point without a verdict."""
    return {"arm": point.arm, "point": point.point_label, "no verdict": point.why}


def _gaps(summary: Summary, arm: str, positions: Across) -> list[Gap]:
    return [
        Gap("", positions.of(point.arm, point.point), gap_tip(point))
        for point in in_arm(summary.missing or (), arm)
    ]


def _states(cell: CoreCell, positions: Across) -> list[Row]:
    shares = {"user": cell.user, "system": cell.system, "softirq": cell.softirq, "idle": cell.idle}
    return [
        Row(
            state,
            positions.of(cell.arm, cell.point),
            value,
            value,
            value,
            tip={
                "core": str(cell.core),
                "point": cell.point_label,
                "state": state,
                "share": f"{wording.percent(value)} %",
                "stolen by the hypervisor": f"{wording.percent(cell.steal)} %",
            },
        )
        for state, value in shares.items()
    ]


def _charged(cell: CoreCell, positions: Across) -> Row:
    value = cell.routers
    tip = {"point": cell.point_label, "charged to routers": f"{wording.percent(value)} %"}
    return Row(
        "charged to routers", positions.of(cell.arm, cell.point), value, value, value, tip=tip
    )


def loss_figure(summary: Summary, positions: Across) -> Figure | None:
    """Stack where frames were lost; one panel per arm and group of routers."""
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in summary.cells:
        groups.setdefault((cell.arm, cell.group), []).append(cell)
    order = list(dict.fromkeys(group for _, group in groups))
    keys = sorted(groups, key=lambda key: order.index(key[1]))  # arms side by side
    found = {key: _losses(groups[key], positions) for key in keys}
    totals = [_top(rows) for rows in found.values()]
    used = [where for where in DROP_POINTS if any(c.lost.get(where, 0) > 0 for c in summary.cells)]
    if not used:
        return None
    top = min(1.0, max(1.1 * max(totals), 1e-6))
    names = [DROP_POINT_WORDS[where] for where in DROP_POINTS]
    flow = flow_in(summary)
    y = Axis(f"lost, share of offered {flow.many}", _PERCENT, domain=(0, top))
    panels = tuple(
        stacked_panel(
            f"{arm} · {group}",
            rows,
            names,
            positions.axis,
            y,
            f"{flow.many.capitalize()} of {group} lost in arm {arm}: at most "
            f"{wording.percent(_top(rows))} %.",
            gaps=_gaps(summary, arm, positions),
        )
        for (arm, group), rows in found.items()
    )
    legend = tuple(
        Swatch(DROP_POINT_WORDS[where], "drops", index, "bar")
        for index, where in enumerate(DROP_POINTS)
        if where in used
    )
    caption = (
        "Requests that failed. Offered equals answered plus these, to the request."
        if flow is REQUESTS
        else "Frames lost in a trial, its warm-up included, by drop point. Sent equals received "
        "plus these, to the frame."
    )
    return Figure(
        "loss",
        f"Where {flow.many} were lost",
        caption,
        panels,
        legend,
        "drops",
        len({arm for arm, _ in keys}),
    )


def _top(rows: Sequence[Row]) -> float:
    sums: dict[float, float] = {}
    for row in rows:
        sums[row.x] = sums.get(row.x, 0.0) + row.y
    return max(sums.values(), default=0.0)


def _losses(cells: Sequence[Cell], positions: Across) -> list[Row]:
    rows = []
    for point in dict.fromkeys(cell.point for cell in cells):
        own = [cell for cell in cells if cell.point == point]
        offered = sum(cell.offered_total for cell in own)
        for where in DROP_POINTS:
            frames = sum(cell.lost.get(where, 0.0) for cell in own)
            value = frames / offered if offered > 0 else 0.0
            tip = {
                "point": own[0].point_label,
                "lost at": DROP_POINT_WORDS[where],
                "share of offered": f"{wording.percent(value)} %",
                f"{flow_of([own[0].mode]).many} per trial": f"{frames:,.0f}",
            }
            rows.append(
                Row(
                    DROP_POINT_WORDS[where],
                    positions.of(own[0].arm, point),
                    value,
                    value,
                    value,
                    tip=tip,
                )
            )
    return rows

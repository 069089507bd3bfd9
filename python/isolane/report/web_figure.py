"""The plot of what load balancers' answers carried."""

from __future__ import annotations

from isolane.report.chart import Axis, Figure, Row, line_panel
from isolane.report.plot_parts import MAX_SERIES, arms, line_swatches, row_of, said
from isolane.report.points import Across
from isolane.results.results import Summary
from isolane.spec.units import format_bps, format_rps

_BITS = "format(datum.value, '~s')"


def content_figure(summary: Summary, positions: Across) -> Figure | None:
    """Draw the content of answers, bit/s; None where nobody was asked for web objects.

    One panel for all arms where there is one router, else a panel for each.
    """
    told = [cell for cell in summary.cells if cell.content_bps is not None]
    if not told or positions.kind == "routers":
        return None
    names = list(dict.fromkeys(cell.router for cell in told))[:MAX_SERIES]
    alone = len(names) == 1
    rows: dict[str, list[Row]] = {"": []} if alone else {arm: [] for arm in arms(summary)}
    for cell in told:
        if cell.content_bps is None or cell.router not in names:
            continue
        tip = {"arm": cell.arm, "router": cell.router, "point": cell.point_label}
        tip["answers"] = format_rps(cell.throughput_pps.median)
        series, panel = (cell.arm, "") if alone else (cell.router, cell.arm)
        at = positions.of(cell.arm, cell.point)
        rows[panel].append(row_of(series, at, cell.content_bps, format_bps, **tip))
    shown = arms(summary) if alone else names
    top = max((row.high for found in rows.values() for row in found), default=1.0)
    y = Axis("content (bit/s)", _BITS, domain=(0, max(1.05 * top, 1.0)))
    panels = tuple(
        line_panel(
            arm, found, shown, positions.axis, y, f"Content {arm}: {said(found, format_bps)}."
        )
        for arm, found in rows.items()
    )
    caption = "Content of the answers of each router, without headers, in bit/s."
    legend = line_swatches(shown)
    return Figure("content", "Bandwidth", caption, panels, legend, columns=len(panels))

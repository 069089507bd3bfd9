"""The plots of a report: throughput, isolation, delay."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from isolane.analysis.flow_words import FRAMES, REQUESTS, Flow, flow_in
from isolane.analysis.wording import delay_words
from isolane.report.chart import Axis, Figure, Gap, Panel, Row, Swatch, decades, line_panel
from isolane.report.parts_figure import parts_figure
from isolane.report.plot_parts import (
    MAX_SERIES,
    PERCENT,
    TIME,
    arms,
    gap_key,
    gaps_of,
    line_swatches,
    row_of,
    said,
    write_share,
)
from isolane.report.points import Across, across
from isolane.report.resources import cpu_figure, loss_figure
from isolane.report.victim_figure import victim_figure
from isolane.report.web_figure import content_figure
from isolane.results.results import Cell, Interval, PublishedCell, Summary
from isolane.spec.units import format_ns

_KPPS = "format(datum.value, '~s')"
_BETWEEN = " from the generator to the receiver"


def figures(summary: Summary) -> tuple[Figure, ...]:
    """Return every plot for which there is data, the most important first."""
    if not summary.cells:
        return ()
    positions = across(summary)
    found = (
        victim_figure(summary, positions),
        _together(summary, positions),
        _throughput(summary, positions),
        content_figure(summary, positions),
        _delay(summary, positions),
        parts_figure(summary, positions),
        cpu_figure(summary, positions),
        loss_figure(summary, positions),
    )
    return tuple(figure for figure in found if figure is not None)


def _together(summary: Summary, positions: Across) -> Figure | None:
    if positions.kind != "routers":
        return None
    names, scaled, flow = arms(summary), summary.capacity is not None, flow_in(summary)
    write = write_share if scaled else flow.rate
    rows = []
    for found in summary.aggregates:
        value = found.throughput_x if scaled else found.throughput_pps
        if value is not None:
            tip = {"arm": found.arm, "point": found.point_label}
            tip[f"{flow.many} per second"] = flow.rate(found.throughput_pps.median)
            rows.append(
                row_of(found.arm, positions.of(found.arm, found.point), value, write, **tip)
            )
    rows += _published(summary.published, positions, lambda cell: cell.arm)
    gaps = gaps_of(summary, positions, lambda point: [point.arm])
    panel = line_panel(
        "",
        rows,
        names,
        positions.axis,
        _throughput_axis(rows, flow, scaled=scaled),
        f"Throughput of all routers together: {said(rows, write)}.",
        gaps=gaps,
    )
    caption = "Throughput of all routers together, as more of them share the same cores."
    title = "How many routers fit"
    legend = (*line_swatches(names), *_hollow(rows), *gap_key(gaps))
    return Figure("together", title, caption, (panel,), legend)


def _throughput_axis(rows: Sequence[Row], flow: Flow, *, scaled: bool) -> Axis:
    top = max((row.high for row in rows), default=1.0)
    if scaled:
        return Axis("throughput, share of capacity", PERCENT, domain=(0, max(1.05 * top, 0.05)))
    return Axis(f"throughput ({flow.many} per second)", _KPPS, domain=(0, max(1.05 * top, 1.0)))


def _hollow(rows: Sequence[Row]) -> tuple[Swatch, ...]:
    return (
        (Swatch("published", "series", 0, "published"),) if any(r.published for r in rows) else ()
    )


def _published(
    cells: Sequence[PublishedCell], positions: Across, series: Callable[[PublishedCell], str]
) -> Iterator[Row]:
    for cell in cells:
        if cell.metric != "throughput" or cell.published is None or cell.point is None:
            continue
        tip = {"arm": cell.arm, "point": cell.point_label, "router": cell.router}
        tip["published"] = write_share(cell.published)
        if cell.measured is not None:
            tip["measured here"] = write_share(cell.measured)
        y = cell.published
        yield Row(
            series(cell), positions.of(cell.arm, cell.point), y, y, y, published=True, tip=tip
        )


def _throughput(summary: Summary, positions: Across) -> Figure | None:
    if positions.kind == "routers":
        return None
    names = list(dict.fromkeys(cell.router for cell in summary.cells))[:MAX_SERIES]
    alone = len(names) == 1
    scaled, flow = summary.capacity is not None, flow_in(summary)
    write = write_share if scaled else flow.rate
    rows: dict[str, list[Row]] = {} if not alone else {"": []}
    for cell in summary.cells:
        value = cell.throughput_x if scaled else cell.throughput_pps
        if value is None or cell.router not in names:
            continue
        tip = {"arm": cell.arm, "router": cell.router, "point": cell.point_label}
        tip["offered"] = flow.rate(cell.offered_pps.median)
        tip["received"] = flow.rate(cell.throughput_pps.median)
        series = cell.arm if alone else cell.router
        row = row_of(series, positions.of(cell.arm, cell.point), value, write, **tip)
        rows.setdefault("" if alone else cell.arm, []).append(row)
    for arm in rows:
        theirs = [c for c in summary.published if alone or (c.arm == arm and c.router in names)]
        if scaled:
            rows[arm] += _published(
                theirs, positions, lambda cell: cell.arm if alone else cell.router
            )
    shown = arms(summary) if alone else names
    every = [row for found in rows.values() for row in found]
    y = _throughput_axis(every, flow, scaled=scaled)
    gaps = _throughput_gaps(summary, positions, names, alone=alone)
    rows = {arm: rows.get(arm, []) for arm in ([""] if alone else arms(summary))}
    panels = tuple(
        line_panel(
            arm,
            found,
            shown,
            positions.axis,
            y,
            f"Throughput {arm}: {said(found, write)}.",
            gaps=gaps.get(arm, ()),
        )
        for arm, found in rows.items()
    )
    caption = _throughput_caption(flow, scaled=scaled)
    over = "size of the object" if positions.kind == "object" else "offered load"
    title = f"Throughput against {over}"
    crosses = [gap for found in gaps.values() for gap in found]
    legend = (*line_swatches(shown), *_hollow(every), *gap_key(crosses))
    return Figure("throughput", title, caption, panels, legend, columns=len(panels))


def _throughput_caption(flow: Flow, *, scaled: bool) -> str:
    if flow is REQUESTS:
        return "Requests per second that each router answered."
    share = ", as a share of what one router alone forwards at most" if scaled else ""
    return f"Frames per second that came out of each router{share}."


def _throughput_gaps(
    summary: Summary, positions: Across, names: Sequence[str], *, alone: bool
) -> dict[str, list[Gap]]:
    """Return the gaps of each panel: one for each arm, or one for all where there is one router."""
    if alone:
        return {"": gaps_of(summary, positions, lambda point: [point.arm])}
    every = [router for point in summary.missing or () for router in point.routers]
    shown = [name for name in dict.fromkeys(router.router for router in every) if name in names]
    return {
        arm: gaps_of(summary, positions, lambda point, arm=arm: shown if point.arm == arm else [])  # type: ignore[misc]  # mypy cannot infer defaults of a lambda
        for arm in arms(summary)
    }


_DELAYS: tuple[tuple[str, Callable[[Cell], Interval | None]], ...] = (
    ("median", lambda cell: cell.delay_p50_ns),
    ("99th percentile", lambda cell: cell.delay_p99_ns),
    ("99.9th percentile", lambda cell: cell.delay_p999_ns),
    ("maximum", lambda cell: cell.delay_max_ns),
)


def _focus(summary: Summary) -> list[Cell]:
    return [c for c in summary.cells if c.role == "victim"] or list(summary.cells)


def _drawable(value: Interval | None) -> Interval | None:
    """Return what a logarithmic axis has a place for: what is positive and finite."""
    if value is None or value.low <= 0 or math.isinf(value.median):
        return None
    if math.isinf(value.high):
        return value.model_copy(update={"high": value.median})
    return value


def _slowest(cells: Sequence[Cell], pick: Callable[[Cell], Interval | None]) -> Iterator[Cell]:
    """Return, of several routers at one point, the one with the longest delay."""
    worst: dict[tuple[str, int], tuple[float, Cell]] = {}
    for cell in cells:
        value = pick(cell)
        key = cell.arm, cell.point
        if value is not None and (key not in worst or value.median > worst[key][0]):
            worst[key] = (value.median, cell)
    yield from (cell for _, cell in worst.values())


def _delay(summary: Summary, positions: Across) -> Figure | None:
    focus, names = _focus(summary), arms(summary)
    found: list[tuple[str, list[Row]]] = []
    for title, pick in _DELAYS:
        rows = [
            row_of(
                cell.arm,
                positions.of(cell.arm, cell.point),
                value,
                format_ns,
                arm=cell.arm,
                router=cell.router,
                point=cell.point_label,
            )
            for cell in _slowest(focus, pick)
            if (value := _drawable(pick(cell))) is not None
        ]
        if rows:
            found.append((title, rows))
    if not found:
        return None
    every = [row for _, rows in found for row in rows]
    domain = (0.8 * min(row.low for row in every), 1.25 * max(row.high for row in every))
    kind = delay_words({cell.mode for cell in focus})
    y = Axis(f"{kind} (log scale)", TIME, decades(*domain), log=True, domain=domain)
    gaps = gaps_of(summary, positions, lambda point: [point.arm])
    panels: tuple[Panel, ...] = tuple(
        line_panel(
            title,
            rows,
            names,
            positions.axis,
            y,
            f"Delay, {title}: {said(rows, format_ns)}.",
            gaps=gaps,
        )
        for title, rows in found
    )
    routers = {cell.router for cell in focus}
    whose = "the router that waits longest" if len(routers) > 1 else f"{routers.pop()}'s frames"
    if focus[0].role == "victim" and len({cell.router for cell in focus}) == 1:
        whose = "the victim's frames"
    flow = flow_in(summary)
    whose = whose.replace(FRAMES.many, flow.many)
    between = ", from when a request was due to its last byte" if flow is REQUESTS else _BETWEEN
    lost = "Failed requests" if flow is REQUESTS else "Lost frames"
    caption = (
        f"{kind.capitalize()}{between}, of {whose}. All panels share one logarithmic scale. {lost} "
        "are infinitely late: a percentile that they reach has no point."
    )
    legend = (*line_swatches(names), *gap_key(gaps))
    return Figure("delay", f"How long {flow.many} take", caption, panels, legend)

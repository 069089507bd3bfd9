"""The plots of a report: throughput, isolation, delay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from isolane.report.chart import Axis, Figure, Gap, Panel, Row, Swatch, decades, line_panel
from isolane.report.points import Across, across
from isolane.report.resources import cpu_figure, gap_tip, loss_figure
from isolane.run import wording
from isolane.run.missing import MissingPoint
from isolane.run.results import Cell, Interval, PublishedCell, Summary
from isolane.run.table_rows import arms_of
from isolane.spec.units import format_ns, format_pps

MAX_SERIES = 8
"""Lines that can be told apart in one plot: as many as there are colours."""

_PERCENT = "format(datum.value * 100, '~g') + ' %'"
_KPPS = "format(datum.value, '~s')"
_TIME = (
    "datum.value >= 1e9 ? format(datum.value / 1e9, '~g') + ' s' : "
    "datum.value >= 1e6 ? format(datum.value / 1e6, '~g') + ' ms' : "
    "datum.value >= 1e3 ? format(datum.value / 1e3, '~g') + ' µs' : "
    "format(datum.value, '~g') + ' ns'"
)


def figures(summary: Summary) -> tuple[Figure, ...]:
    """Return every plot for which there is data, the most important first."""
    if not summary.cells:
        return ()
    positions = across(summary)
    found = (
        _retained(summary, positions),
        _together(summary, positions),
        _throughput(summary, positions),
        _delay(summary, positions),
        cpu_figure(summary, positions),
        loss_figure(summary, positions),
    )
    return tuple(figure for figure in found if figure is not None)


def arms(summary: Summary) -> list[str]:
    """Return the names of all arms in the experiment's order, also of those without a result."""
    return arms_of(summary)


def _gaps(
    summary: Summary, positions: Across, series: Callable[[MissingPoint], Sequence[str]]
) -> list[Gap]:
    """Return the points without a verdict, once for each series that would have a value there."""
    return [
        Gap(name, positions.at[point.point], gap_tip(point))
        for point in summary.missing or ()
        for name in series(point)
    ]


def _gap_key(gaps: Sequence[Gap]) -> tuple[Swatch, ...]:
    return (Swatch("no verdict", "series", 0, "gap"),) if gaps else ()


def _of_role(point: MissingPoint, role: str) -> list[str]:
    return [router.router for router in point.routers if router.role == role]


def _lines(names: Sequence[str]) -> tuple[Swatch, ...]:
    return tuple(Swatch(name, "series", index) for index, name in enumerate(names))


def _row(series: str, x: float, value: Interval, write: Callable[[float], str], **tip: str) -> Row:
    words = dict(tip)
    words["median"] = write(value.median)
    if value.n > 1:
        words["interval"] = f"{write(value.low)} to {write(value.high)}"
    words["repeats"] = str(value.n)
    return Row(series, x, value.median, value.low, value.high, tip=words)


def _share(value: float) -> str:
    return f"{wording.percent(value)} %"


def _said(rows: Sequence[Row], write: Callable[[float], str]) -> str:
    """Describe lines in words: where each begins and where it ends."""
    parts = []
    for series in dict.fromkeys(row.series for row in rows if not row.published):
        own = sorted((r for r in rows if r.series == series and not r.published), key=lambda r: r.x)
        parts.append(f"{series} from {write(own[0].y)} to {write(own[-1].y)}")
    return "; ".join(parts) or "no valid trial"


def _retained(summary: Summary, positions: Across) -> Figure | None:
    victims = [cell for cell in summary.cells if cell.role == "victim" and cell.retained]
    if not victims:
        return None
    several = len({cell.router for cell in victims}) > 1
    rows = [
        _row(
            f"{cell.arm}, {cell.router}" if several else cell.arm,
            positions.at[cell.point],
            cell.retained,
            _share,
            arm=cell.arm,
            point=cell.point_label,
        )
        for cell in victims
        if cell.retained
    ]
    gaps = _gaps(
        summary,
        positions,
        lambda point: [
            f"{point.arm}, {name}" if several else point.arm for name in _of_role(point, "victim")
        ],
    )
    names = arms(summary)
    if several:
        names = list(dict.fromkeys([*(row.series for row in rows), *(gap.series for gap in gaps)]))
    top = max(1.05, *(row.high for row in rows))
    panel = line_panel(
        "",
        rows,
        names[:MAX_SERIES],
        positions.axis,
        Axis("victim's throughput retained", _PERCENT, domain=(0, top)),
        f"Share of its throughput that the victim retains: {_said(rows, _share)}.",
        level=1,
        gaps=gaps,
    )
    caption = (
        "The victim is always offered the same. Its throughput is divided by what it had in the "
        "same round while the aggressor was offered least; on a host that isolates perfectly all "
        "lines stay at 100 %."
    )
    title = "What the victim keeps"
    legend = (*_lines(names[:MAX_SERIES]), *_gap_key(gaps))
    return Figure("retained", title, caption, (panel,), legend)


def _together(summary: Summary, positions: Across) -> Figure | None:
    if positions.kind != "routers":
        return None
    names, scaled = arms(summary), summary.capacity is not None
    rows = []
    for found in summary.aggregates:
        value = found.throughput_x if scaled else found.throughput_pps
        if value is not None:
            write = _share if scaled else format_pps
            tip = {"arm": found.arm, "point": found.point_label}
            tip["frames per second"] = format_pps(found.throughput_pps.median)
            rows.append(_row(found.arm, positions.at[found.point], value, write, **tip))
    rows += _published(summary.published, positions, lambda cell: cell.arm)
    gaps = _gaps(summary, positions, lambda point: [point.arm])
    panel = line_panel(
        "",
        rows,
        names,
        positions.axis,
        _throughput_axis(rows, scaled=scaled),
        f"Throughput of all routers together: {_said(rows, _share if scaled else format_pps)}.",
        gaps=gaps,
    )
    caption = "Throughput of all routers together, as more of them share the same cores."
    title = "How many routers fit"
    legend = (*_lines(names), *_hollow(rows), *_gap_key(gaps))
    return Figure("together", title, caption, (panel,), legend)


def _throughput_axis(rows: Sequence[Row], *, scaled: bool) -> Axis:
    top = max((row.high for row in rows), default=1.0)
    if scaled:
        return Axis("throughput, share of capacity", _PERCENT, domain=(0, max(1.05 * top, 0.05)))
    return Axis("throughput (frames per second)", _KPPS, domain=(0, max(1.05 * top, 1.0)))


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
        tip["published"] = _share(cell.published)
        if cell.measured is not None:
            tip["measured here"] = _share(cell.measured)
        y = cell.published
        yield Row(series(cell), positions.at[cell.point], y, y, y, published=True, tip=tip)


def _throughput(summary: Summary, positions: Across) -> Figure | None:
    if positions.kind == "routers":
        return None
    names = list(dict.fromkeys(cell.router for cell in summary.cells))[:MAX_SERIES]
    alone = len(names) == 1
    scaled = summary.capacity is not None
    write = _share if scaled else format_pps
    rows: dict[str, list[Row]] = {} if not alone else {"": []}
    for cell in summary.cells:
        value = cell.throughput_x if scaled else cell.throughput_pps
        if value is None or cell.router not in names:
            continue
        tip = {"arm": cell.arm, "router": cell.router, "point": cell.point_label}
        tip["offered"] = format_pps(cell.offered_pps.median)
        tip["received"] = format_pps(cell.throughput_pps.median)
        series = cell.arm if alone else cell.router
        row = _row(series, positions.at[cell.point], value, write, **tip)
        rows.setdefault("" if alone else cell.arm, []).append(row)
    for arm in rows:
        theirs = [c for c in summary.published if alone or (c.arm == arm and c.router in names)]
        if scaled:
            rows[arm] += _published(
                theirs, positions, lambda cell: cell.arm if alone else cell.router
            )
    shown = arms(summary) if alone else names
    every = [row for found in rows.values() for row in found]
    y = _throughput_axis(every, scaled=scaled)
    gaps = _throughput_gaps(summary, positions, names, alone=alone)
    rows = {arm: rows.get(arm, []) for arm in ([""] if alone else arms(summary))}
    panels = tuple(
        line_panel(
            arm,
            found,
            shown,
            positions.axis,
            y,
            f"Throughput {arm}: {_said(found, write)}.",
            gaps=gaps.get(arm, ()),
        )
        for arm, found in rows.items()
    )
    caption = "Frames per second that came out of each router" + (
        ", as a share of what one router alone forwards at most." if scaled else "."
    )
    title = "Throughput against offered load"
    crosses = [gap for found in gaps.values() for gap in found]
    legend = (*_lines(shown), *_hollow(every), *_gap_key(crosses))
    return Figure("throughput", title, caption, panels, legend, columns=len(panels))


def _throughput_gaps(
    summary: Summary, positions: Across, names: Sequence[str], *, alone: bool
) -> dict[str, list[Gap]]:
    """Return the gaps of each panel: one for each arm, or one for all where there is one router."""
    if alone:
        return {"": _gaps(summary, positions, lambda point: [point.arm])}
    every = [router for point in summary.missing or () for router in point.routers]
    shown = [name for name in dict.fromkeys(router.router for router in every) if name in names]
    return {
        arm: _gaps(summary, positions, lambda point, arm=arm: shown if point.arm == arm else [])  # type: ignore[misc]  # mypy cannot infer defaults of a lambda
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
            _row(
                cell.arm,
                positions.at[cell.point],
                value,
                format_ns,
                arm=cell.arm,
                router=cell.router,
                point=cell.point_label,
            )
            for cell in _slowest(focus, pick)
            if (value := pick(cell)) is not None and value.low > 0  # a logarithm needs that
        ]
        if rows:
            found.append((title, rows))
    if not found:
        return None
    every = [row for _, rows in found for row in rows]
    domain = (0.8 * min(row.low for row in every), 1.25 * max(row.high for row in every))
    y = Axis("one-way delay (log scale)", _TIME, decades(*domain), log=True, domain=domain)
    gaps = _gaps(summary, positions, lambda point: [point.arm])
    panels: tuple[Panel, ...] = tuple(
        line_panel(
            title,
            rows,
            names,
            positions.axis,
            y,
            f"Delay, {title}: {_said(rows, format_ns)}.",
            gaps=gaps,
        )
        for title, rows in found
    )
    routers = {cell.router for cell in focus}
    whose = "the router that waits longest" if len(routers) > 1 else f"{routers.pop()}'s frames"
    if focus[0].role == "victim" and len({cell.router for cell in focus}) == 1:
        whose = "the victim's frames"
    caption = (
        f"One-way delay from the generator to the receiver, of {whose}. All panels share one "
        "logarithmic scale."
    )
    legend = (*_lines(names), *_gap_key(gaps))
    return Figure("delay", "How long frames take", caption, panels, legend)

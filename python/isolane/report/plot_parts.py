"""What the plots of a report have in common: rows, gaps, legends, words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from isolane.analysis import wording
from isolane.analysis.table_rows import arms_of
from isolane.report.chart import Gap, Row, Swatch
from isolane.report.points import Across
from isolane.report.resources import gap_tip
from isolane.results.missing import MissingPoint
from isolane.results.results import Interval, Summary

TIME = (
    "datum.value >= 1e9 ? format(datum.value / 1e9, '~g') + ' s' : "
    "datum.value >= 1e6 ? format(datum.value / 1e6, '~g') + ' ms' : "
    "datum.value >= 1e3 ? format(datum.value / 1e3, '~g') + ' µs' : "
    "format(datum.value, '~g') + ' ns'"
)
"""Writes a time on an axis."""


MAX_SERIES = 8
"""Lines that can be told apart in one plot: as many as there are colours."""

PERCENT = "format(datum.value * 100, '~g') + ' %'"


def arms(summary: Summary) -> list[str]:
    """Return the names of all arms in the experiment's order, also of those without a result."""
    return arms_of(summary)


def gaps_of(
    summary: Summary, positions: Across, series: Callable[[MissingPoint], Sequence[str]]
) -> list[Gap]:
    """Return the points without a verdict, once for each series that would have a value there."""
    return [
        Gap(name, positions.of(point.arm, point.point), gap_tip(point))
        for point in summary.missing or ()
        for name in series(point)
    ]


def gap_key(gaps: Sequence[Gap]) -> tuple[Swatch, ...]:
    """Return the legend's entry for gaps, where there are any."""
    return (Swatch("no verdict", "series", 0, "gap"),) if gaps else ()


def of_role(point: MissingPoint, role: str) -> list[str]:
    """Return the names of a missing point's routers of one role."""
    return [router.router for router in point.routers if router.role == role]


def line_swatches(names: Sequence[str]) -> tuple[Swatch, ...]:
    """Return the legend of lines."""
    return tuple(Swatch(name, "series", index) for index, name in enumerate(names))


def row_of(
    series: str, x: float, value: Interval, write: Callable[[float], str], **tip: str
) -> Row:
    """Return a drawn value with its interval and tooltip."""
    words = dict(tip)
    words["median"] = write(value.median)
    if value.n > 1:
        words["interval"] = f"{write(value.low)} to {write(value.high)}"
    words["repeats"] = str(value.n)
    return Row(series, x, value.median, value.low, value.high, tip=words)


def write_share(value: float) -> str:
    """Write a share of 1 with its unit."""
    return f"{wording.percent(value)} %"


def said(rows: Sequence[Row], write: Callable[[float], str]) -> str:
    """Describe lines in words: where each begins and where it ends."""
    parts = []
    for series in dict.fromkeys(row.series for row in rows if not row.published):
        own = sorted((r for r in rows if r.series == series and not r.published), key=lambda r: r.x)
        parts.append(f"{series} from {write(own[0].y)} to {write(own[-1].y)}")
    return "; ".join(parts) or "no valid trial"

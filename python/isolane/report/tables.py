"""The tables of a report, in words: the same for HTML and Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from isolane.analysis import wording
from isolane.analysis.cells import sent_less
from isolane.analysis.flow_words import FRAMES, Flow, flow_in, flow_of
from isolane.analysis.table_rows import NO_VERDICT, REFUSED, MissingRow, refusals, rows_of
from isolane.analysis.verdict import basis, evidence
from isolane.analysis.victim_findings import by_finding
from isolane.results.results import (
    Cell,
    Finding,
    Interval,
    PublishedCell,
    Summary,
)
from isolane.spec.units import format_bps, format_ns, format_pps
from isolane.stats.intervals import BOOTSTRAP_FROM, MIN_UNITS

NOTHING = "–"  # noqa: RUF001 - an en dash is what a table says nothing with

LEVELS = {
    "good": ("✓", "Isolated"),
    "bad": ("✕", "Not isolated"),
    "neutral": ("●", "Measured"),
    "none": ("○", "No verdict"),
}
"""Sign and words for a verdict without arms."""

SIGNS: dict[Finding, tuple[str, str]] = {
    "isolated": ("✓", "good"),
    "nearly isolated": ("●", "neutral"),
    "undecided": ("?", "neutral"),
    "not isolated": ("✕", "bad"),
    "attack incomplete": ("●", "neutral"),
    "never overloaded": ("●", "neutral"),
    "overloaded alone": ("●", "neutral"),
    "no verdict": ("○", "none"),
}
"""Sign and style of each finding: its colour alone would not reach everybody."""


@dataclass(frozen=True)
class Value:
    """One entry: the figure, and the interval below it."""

    text: str
    interval: str = ""

    def flat(self) -> str:
        """Write both in one line."""
        return f"{self.text} {self.interval}".rstrip()


@dataclass(frozen=True)
class Table:
    """Headings, with what they mean, and rows; the first `words` columns are text."""

    headings: tuple[str, ...]
    hints: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    words: int


@dataclass(frozen=True)
class _Column:
    heading: str
    hint: str
    pick: Callable[[Cell], Interval | None]
    write: Callable[[float], str]
    of_reference: bool = False
    """Whether the figure is divided by one of the reference point, which may be refused."""

    def of(self, cell: Cell) -> Value:
        """Return the entry of a cell."""
        if self.of_reference and cell.retained_reason is not None:
            return Value(REFUSED)
        write = flow_of([cell.mode]).rate if self.write is RATE else self.write
        return value_of(self.pick(cell), write)

    def hint_of(self, flow: Flow) -> str:
        """Return what its figures mean of frames, or of web requests."""
        return self.hint if flow is FRAMES else _OF_REQUESTS.get(self.heading, self.hint)

    def has(self, cell: Cell) -> bool:
        """Tell whether there is anything to show of a cell."""
        return self.of(cell).text != NOTHING


def _share(value: float) -> str:
    return f"{wording.percent(value)} %"


def _times(value: float) -> str:
    return f"{wording.digits(value)}x"


def _points(value: float) -> str:
    return f"{value:+.1f} pp" if abs(value) >= 0.05 else "0 pp"


def _nanoseconds(value: float) -> str:
    return f"{value:,.0f} ns"


def _sent(cell: Cell) -> Interval | None:
    value = cell.generated_pps
    if value is None or not sent_less(cell):
        return None
    return value.model_copy(update={"low": value.median, "high": value.median})


RATE: Final = format_pps
"""Writes a rate of frames; of web requests another function does."""
_OF_REQUESTS: Final = {
    "Offered": "requests that were due per second",
    "Received": "requests per second whose answers were complete in the window",
    "Delivered": "requests answered over requests offered, in the window",
    "Lost": "part of the requests that failed",
    "Delay p50": "response time, from when the request was due to the last byte of its answer, "
    "median; failed requests are infinitely late",
    "max": "longest response time of a request that was answered, over all repeats",
    "Late p99": "99th percentile of the client's lateness: first call minus due time",
    "own/frame": "CPU time in the router's own threads and polls, per answered request",
    "caused/frame": "all CPU time that the router caused, per answered request",
}
"""Heading -> what its figures mean where web requests stand for frames."""

_COLUMNS = (
    _Column("Offered", "offered load, frames per second", lambda c: c.offered_pps, RATE),
    _Column(
        "Received",
        "throughput: frames received per second (RFC 2544)",
        lambda c: c.throughput_pps,
        RATE,
    ),
    _Column(
        "Delivered",
        "frames received over frames sent, in the window",
        lambda c: c.delivered,
        _share,
    ),
    _Column(
        "Retained",
        "victim's throughput over that with the aggressor offering and doing least, paired by "
        "repeat; "
        "refused where the victim loses more than 0.1 % there already",
        lambda c: c.retained,
        _share,
        of_reference=True,
    ),
    _Column("Content", "of answers complete in the window", lambda c: c.content_bps, format_bps),
    _Column("Lost", "frame loss ratio", lambda c: c.loss_ratio, _share),
    _Column(
        "Sent",
        "what the generator really sent of the offered load, where that was less",
        _sent,
        RATE,
    ),
    _Column(
        "Delay p50",
        "one-way delay since departure (round-trip time of a router that answers), median of the "
        "frames; lost frames are infinitely late",
        lambda c: c.delay_p50_ns,
        format_ns,
    ),
    _Column("p99", "99th percentile of the same", lambda c: c.delay_p99_ns, format_ns),
    _Column(
        "max",
        "longest such delay of a frame that arrived, over all repeats",
        lambda c: c.delay_max_ns,
        format_ns,
    ),
    _Column(
        "Since due p99",
        "99th percentile of the delay since the frame was due; frames that the generator missed "
        "are infinitely late",
        lambda c: c.due_p99_ns,
        format_ns,
    ),
    _Column(
        "Late p99",
        "99th percentile of the generator's lateness: departure minus due time",
        lambda c: c.lateness_p99_ns,
        format_ns,
    ),
    _Column(
        "Inflation",
        "victim's p99 delay over that with the aggressor offering and doing least, by repeat",
        lambda c: c.delay_inflation,
        _times,
        of_reference=True,
    ),
    _Column(
        "Share error",
        "share of the forwarded frames minus the fair one (max-min, by the policy's weights), "
        "percentage points",
        lambda c: c.share_error,
        _points,
    ),
    _Column(
        "CPU",
        "share of the DUT's cores that the router's own threads and polls used, and its part of "
        "shared work",
        lambda c: c.cpu_caused_share or c.cpu_share,
        _share,
    ),
    _Column(
        "own/frame",
        "CPU time in the router's own threads and polls, per forwarded frame",
        lambda c: c.cpu_ns_per_frame,
        _nanoseconds,
    ),
    _Column(
        "caused/frame",
        "all CPU time that the router caused, per forwarded frame",
        lambda c: c.cpu_caused_ns_per_frame,
        _nanoseconds,
    ),
)


def value_of(interval: Interval | None, write: Callable[[float], str]) -> Value:
    """Return the entry of a figure."""
    if interval is None:
        return Value(NOTHING)
    if interval.n < 2 or interval.low == interval.high:
        return Value(write(interval.median))
    return Value(write(interval.median), f"[{_bounds(interval, write)}]")


def _bounds(interval: Interval, write: Callable[[float], str]) -> str:
    low, high = write(interval.low), write(interval.high)
    unit = high.rpartition(" ")[2] if " " in high else ""
    if unit and low.endswith(f" {unit}") and write(interval.median).endswith(f" {unit}"):
        return f"{low[: -len(unit) - 1]}, {high[: -len(unit) - 1]}"
    return f"{low}, {high}"


def results(summary: Summary) -> Table:
    """Every point that was asked for; a column that no cell has a figure for is left out."""
    found, flow = rows_of(summary), flow_in(summary)
    always = _COLUMNS[:2] if any(isinstance(row, MissingRow) for row in found) else ()
    columns = [
        column
        for column in _COLUMNS
        if column in always or any(column.has(cell) for cell in summary.cells)
    ]
    rows = tuple(
        _missing(row, len(columns), flow) if isinstance(row, MissingRow) else _row(row, columns)
        for row in found
    )
    return Table(
        ("Arm", "Point", "Router", *(c.heading.replace(FRAMES.one, flow.one) for c in columns)),
        ("variant", "setting of the loads", "", *(column.hint_of(flow) for column in columns)),
        rows,
        words=3,
    )


def _row(cell: Cell, columns: Sequence[_Column]) -> tuple[Value, ...]:
    return (
        Value(cell.arm),
        Value(cell.point_label),
        Value(cell.router),
        *(column.of(cell) for column in columns),
    )


def _missing(row: MissingRow, columns: int, flow: Flow) -> tuple[Value, ...]:
    """Say that there is no verdict, where the throughput would stand, and how many trials."""
    router, why = row.router, row.point.why.partition(", because ")[0]
    offered = NOTHING if router.offered_pps is None else flow.rate(router.offered_pps)
    words = (Value(row.point.arm), Value(row.point.point_label), Value(router.router))
    blank = [Value(NOTHING)] * (columns - 2)
    return (*words, Value(offered), Value(NO_VERDICT, f"({why})"), *blank)


def missing(summary: Summary) -> list[tuple[str, str]]:
    """Return the points without a verdict, and why there is none."""
    return [(f"{p.arm}, {p.point_label}", p.why) for p in summary.missing or ()]


def refused(summary: Summary) -> list[tuple[str, str]]:
    """Return the arms whose victims' figures are not divided by their reference, and why."""
    return [(f"Retained and inflation on {arms}", why) for arms, why in refusals(summary)]


def findings(summary: Summary) -> list[tuple[str, str]]:
    """Return for each arm what its badge rests on."""
    intervals = basis(summary.verdict)
    return [*evidence(summary.verdict), *([("Intervals", intervals)] if intervals else [])]


def badges(summary: Summary) -> list[tuple[str, str, str]]:
    """Return sign, style and words of the badge: for each finding the arms that it is about."""
    if not summary.verdict.arms:
        sign, words = LEVELS[summary.verdict.level]
        if summary.missing and summary.verdict.level != "none":
            words += ", with points missing"
        return [(sign, summary.verdict.level, words)]
    return [
        (*SIGNS[finding], f"{finding.capitalize()}: {wording.listing(arms)}")
        for finding, arms in by_finding(summary.verdict)
    ]


def published(summary: Summary) -> Table:
    """Put published figures beside the measured ones."""
    gaps = {(point.arm, point.point) for point in summary.missing or ()}
    rows = tuple(
        _published_row(cell, NO_VERDICT if (cell.arm, cell.point) in gaps else NOTHING)
        for cell in summary.published
    )
    return Table(
        ("Arm", "Point", "Router", "Metric", "Published", "Measured here", "Difference", "Note"),
        ("", "", "", "throughput as a share of one router's capacity", "", "", "", ""),
        rows,
        words=4,
    )


def _published_row(cell: PublishedCell, nothing: str) -> tuple[Value, ...]:
    delay = cell.metric == "delay"
    write: Callable[[float], str] = format_ns if delay else _share
    difference = NOTHING
    if cell.difference is not None:
        difference = format_ns(cell.difference) if delay else _points(100 * cell.difference)
    here = nothing if cell.measured is None else write(cell.measured)
    theirs = "no figure given" if cell.published is None else write(cell.published)
    figures = (Value(theirs), Value(here), Value(difference), Value(cell.note))
    words = (Value(cell.arm), Value(cell.point_label), Value(cell.router), Value(cell.metric))
    return (*words, *figures)


def brackets(summary: Summary) -> str:
    """Say what stands in brackets behind a figure."""
    found = [cell.throughput_pps for cell in summary.cells]
    counts = sorted({interval.units for interval in found})
    if not counts or counts[-1] < 2:
        return "There was one repeat: there are no intervals."
    if summary.method < 2:
        return (
            "Medians over the repeats; in brackets their intervals, as the older method made them."
        )
    several = max(interval.invocations for interval in found) > 1
    what = "invocations" if several else "repeats"
    text = f"Medians over the {what}, with intervals in brackets"
    if counts[0] >= BOOTSTRAP_FROM and several:
        return f"{text}: 95 %, by a bootstrap over invocations and the repeats in them."
    covers = sorted({i.coverage for i in found if i.coverage is not None})
    said = " to ".join(f"{100 * value:.4g} %" for value in dict.fromkeys((covers[0], covers[-1])))
    text += f": exact ones, which hold the median in {said} of all cases"
    if counts[0] < MIN_UNITS:
        text += f" (95 % needs {MIN_UNITS} {what})"
    return text + ("." if several else ", as far as this one invocation goes.")

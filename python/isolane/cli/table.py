"""Prints the summary of a run as a table."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from isolane.analysis.arm_test_words import note
from isolane.analysis.flow_words import Flow, flow_in
from isolane.analysis.quality_words import lost_words, quality_words
from isolane.analysis.table_rows import (
    NO_VERDICT,
    REFUSED,
    MissingRow,
    older_method,
    refusals,
    rows_of,
)
from isolane.analysis.verdict import basis, evidence, missing_points
from isolane.analysis.victim_findings import by_finding
from isolane.analysis.wording import listing
from isolane.cli.arm_tests_table import arm_tests_tables
from isolane.cli.category_lines import category_table, sampling_line
from isolane.cli.parts_table import parts_table
from isolane.results.results import Cell, Delay, Interval, Summary
from isolane.spec import format_ns, format_pps

NARROW = 110
"""Terminal width below which the table leaves out columns that only the report needs."""


def print_summary(summary: Summary, console: Console | None = None) -> None:
    """Print table and verdict to stdout."""
    console = console or Console()
    if not console.is_terminal:
        console.width = 160  # a file has no width: print whole cells
    if summary.simulated is not None:
        told = f"predicted by simulation, not measured: profile {summary.simulated}"
        console.print(told, style="bold", highlight=False, markup=False)
    for told in _capacity(summary):
        console.print(told, highlight=False, markup=False)
    console.print(_table(summary, wide=console.width >= NARROW))
    more = filter(None, (parts_table(summary), category_table(summary)))
    for table in (*more, *arm_tests_tables(summary)):
        console.print()
        console.print(table)
    for told in [*_notes(summary), *lost_words(summary)]:
        console.print(told, highlight=False, markup=False)
    style = {"good": "bold green", "bad": "bold red"}.get(summary.verdict.level, "bold")
    console.print()
    for arm, told in evidence(summary.verdict):
        console.print(f"{arm}: {told}", highlight=False, markup=False)
    if (intervals := basis(summary.verdict)) is not None:
        console.print(intervals, highlight=False, markup=False)
    for finding, arms in by_finding(summary.verdict):
        console.print(f"{finding}: {listing(arms)}", highlight=False, markup=False)
    console.print(summary.verdict.sentence, style=style, highlight=False, markup=False)
    for told in quality_words(summary):
        console.print(told, highlight=False, markup=False)


def _notes(summary: Summary) -> list[str]:
    """Return what a reader of the table has to know besides."""
    told = [*filter(None, [sampling_line(summary)]), *floor_lines(summary)]
    if summary.arm_tests is not None and (few := note(summary.arm_tests)) is not None:
        told.append(few)
    told += [t for t in missing_points(summary.missing or ()) if t not in summary.verdict.sentence]
    told += [f"retained is refused on {arms}: {why}" for arms, why in refusals(summary)]
    if (older := older_method(summary)) is not None:
        told.append(older)
    if summary.trials_failed or summary.trials_without_verdict:
        told.append(
            f"{summary.trials_failed} of {summary.trials} trials failed, "
            f"{summary.trials_without_verdict} gave no verdict; the reasons are in the report"
        )
    return told


def _capacity(summary: Summary) -> Iterator[str]:
    """Yield what 1x is, and the capacity of each arm by the names that RFC 2285 gives the rates."""
    if summary.capacity is None:
        return
    known, rate = summary.capacity, format_pps(summary.capacity.pps.median)
    about = f"taken from {known.source}, not measured in this run"
    if known.source is None:
        kind = "maximum forwarding rate" if summary.capacities else "forwarding rate, overloaded,"
        about = f"{kind} of {known.router} alone on arm {known.arm}"
    if known.at_least:
        rate, about = f"at least {rate}", f"{about}; the generator sends no more"
    yield f"1x = {rate}: {about}"
    for one in summary.capacities:
        prefix = "at least " if one.at_least else ""
        yield (
            f"  {one.arm}: MFR {prefix}{format_pps(one.mfr_pps.median)} "
            f"(offered {format_pps(one.mfr_load_pps)}), "
            f"FRMOL {format_pps(one.frmol_pps)} (offered {format_pps(one.max_load_pps)})"
        )


def floor_lines(summary: Summary) -> list[str]:
    """Say how much of each delay the wire, the generator and the receiver make, over all points."""
    delays = [floor.due_delay for floor in summary.null_dut if floor.due_delay]
    if not delays:
        return []
    p50, p99 = ([pick(delay) for delay in delays] for pick in (_p50, _p99))
    told = f"p50 {_range(p50)}, p99 {_range(p99)}"
    return [f"floor of the delays (null DUT: the wire alone, subtracted nowhere): {told}"]


def _p50(delay: Delay) -> float:
    return delay.p50_ns


def _p99(delay: Delay) -> float:
    return delay.p99_ns


def _range(times_ns: list[float]) -> str:
    low, high = format_ns(min(times_ns)), format_ns(max(times_ns))
    return low if low == high else f"{low} to {high}"


def _table(summary: Summary, *, wide: bool) -> Table:
    table = Table(header_style="bold", pad_edge=False, box=None)
    for name in ("arm", "load", "router"):
        table.add_column(name, no_wrap=not wide)
    names = ["offered", "throughput", "delivered", "retained", "p50", "p99"]
    flow = flow_in(summary)
    names += ["loss", "CPU", f"own ns/{flow.one}", "caused", "fair share +/-"] if wide else []
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    before = None
    for found in rows_of(summary):
        row = _missing(found, flow) if isinstance(found, MissingRow) else _row(found, flow)
        if before is not None and before != row[0]:
            table.add_section()
        before = row[0]
        table.add_row(*row[: 3 + len(names)])
    return table


def _row(cell: Cell, flow: Flow) -> list[str]:
    return [cell.arm, cell.point_label, cell.router, *_figures(cell, flow)]


def _missing(row: MissingRow, flow: Flow) -> list[str]:
    router, point = row.router, row.point
    return [point.arm, point.point_label, router.router, flow.rate(router.offered_pps), NO_VERDICT]


def _figures(cell: Cell, flow: Flow) -> list[str]:
    return [
        flow.rate(cell.offered_pps.median),
        flow.rate(cell.throughput_pps.median),
        _percent(cell.delivered),
        _percent(cell.retained) if cell.retained_reason is None else REFUSED,
        format_ns(cell.delay_p50_ns.median if cell.delay_p50_ns else None),
        format_ns(cell.delay_p99_ns.median if cell.delay_p99_ns else None),
        _percent(cell.loss_ratio),
        _percent(cell.cpu_caused_share or cell.cpu_share),
        _number(cell.cpu_ns_per_frame),
        _number(cell.cpu_caused_ns_per_frame),
        f"{cell.share_error.median:+.1f} pp" if cell.share_error else "",
    ]


def _number(value: Interval | None) -> str:
    return "" if value is None else f"{value.median:.0f}"


def _percent(value: Interval | None) -> str:
    return "" if value is None else f"{100 * value.median:.1f} %"

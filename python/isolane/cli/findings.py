"""Prints the findings of a verification as a table."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from isolane.spec import format_bps, format_pps
from isolane.verify import Crowd, Finding, Report

_STYLES = {"held": "green", "broken": "bold red", "undecided": "cyan", "not measured": "yellow"}
_UPPER_LIMITS = ("cpu_max", "rate_max")


WIDE = 130
"""Width of a terminal, letters, from which on the intervals have room."""


def print_report(report: Report, console: Console | None = None) -> None:
    """Print the table and the counts to stdout."""
    console = console or Console()
    if not console.is_terminal:
        console.width = 190  # a file has no width: print whole cells
    console.print(_table(report, wide=console.width >= WIDE))
    for line in _lines(report):
        console.print(line, highlight=False, markup=False)


def _lines(report: Report) -> Iterator[str]:
    """Yield what stands below the table."""
    counts = ", ".join(
        f"{report.count(verdict)} {verdict}"
        for verdict in ("held", "broken", "undecided", "not measured")
    )
    without = report.trials_without_verdict
    invalid = f" ({without} invalid)" if without else ""
    trials = f"{report.trials} trials{invalid} of {1000 * report.window_s:g} ms"
    took = f"{report.took_s:.0f} s of at most {report.time_limit_s:.0f} s"
    yield f"\npolicy {report.policy}, {report.mode}: {counts}; {trials} in {took}"
    yield (
        f"error: with a probability of {100 * report.error_rate:g} % at most, a promise of this "
        "table is wrongly called broken; the same for held"
    )
    yield from (_cost(crowd) for crowd in report.crowds)
    yield from report.notes


def _cost(crowd: Crowd) -> str:
    """Say what overload costs; it lowers no promise."""
    between = ""
    if crowd.interval is not None:
        low, high = (100 * end for end in crowd.interval)
        between = f" ({low:.1f} to {high:.1f} %)"
    return (
        f"overload costs {100 * crowd.cost:.1f} %{between}: {', '.join(crowd.routers)} together "
        f"forward {format_pps(crowd.together_pps)}, one of them alone {format_pps(crowd.alone_pps)}"
    )


def _table(report: Report, *, wide: bool) -> Table:
    table = Table(header_style="bold", pad_edge=False, box=None)
    for name in ("router", "promise", "situation"):
        table.add_column(name)
    interval = ("95 % interval",) if wide else ()
    for name in ("promised", "measured", "margin", *interval, "kept in", "error"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict")
    before = None
    for finding in report.findings:
        if before not in (None, finding.router):
            table.add_section()
        before = finding.router
        verdict = Text(finding.verdict, style=_STYLES[finding.verdict])
        if finding.why:
            verdict.append(f": {finding.why}", style="default")
        between, *sureness = _sureness(finding)
        cells = (*_figures(finding), *((between,) if wide else ()), *sureness)
        table.add_row(finding.router, finding.promise, finding.about, *cells, verdict)
    return table


def _figures(finding: Finding) -> tuple[str, str, str]:
    sign = "at most " if finding.promise in _UPPER_LIMITS else "at least "
    promised = "" if finding.promised is None else sign + _value(finding, finding.promised)
    measured = "" if finding.measured is None else _value(finding, finding.measured)
    if finding.margin is None:
        return promised, measured, ""
    if finding.unit == "share":
        return promised, measured, f"{100 * finding.margin:+.2f} pp"
    relative = finding.margin / finding.promised if finding.promised else 0.0
    return promised, measured, f"{100 * relative:+.2f} %"


def _sureness(finding: Finding) -> tuple[str, str, str]:
    """Write the interval, the pairs that kept the promise, and the bound of the error."""
    if not finding.pairs:
        return "", "", ""
    interval = "-"
    if finding.interval is not None:
        interval = " - ".join(_value(finding, end) for end in finding.interval)
    error = ""
    if finding.error_bound is not None:
        error = "< 0.1 %" if finding.error_bound < 0.001 else f"{100 * finding.error_bound:.1f} %"
    return interval, f"{finding.pairs_kept} of {finding.pairs}", error


def _value(finding: Finding, value: float) -> str:
    if finding.unit == "share":
        return f"{100 * value:.2f} %"
    return format_pps(value) if finding.unit == "pps" else format_bps(value)

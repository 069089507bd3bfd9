"""Prints the findings of a verification as a table."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from isolane.spec import format_bps, format_pps
from isolane.verify import Finding, Report

_STYLES = {"held": "green", "broken": "bold red", "not measured": "yellow"}
_UPPER_LIMITS = ("cpu_max", "rate_max")


def print_report(report: Report, console: Console | None = None) -> None:
    """Print the table and the counts to stdout."""
    console = console or Console()
    if not console.is_terminal:
        console.width = 150  # a file has no width: print whole cells
    console.print(_table(report))
    counts = ", ".join(
        f"{report.count(verdict)} {verdict}" for verdict in ("held", "broken", "not measured")
    )
    without = report.trials_without_verdict
    invalid = f" ({without} invalid)" if without else ""
    trials = f"{report.trials} trials{invalid} of {1000 * report.window_s:g} ms"
    lines = [f"\npolicy {report.policy}, {report.mode}: {counts}; {trials}", *report.notes]
    for line in lines:
        console.print(line, highlight=False, markup=False)


def _table(report: Report) -> Table:
    table = Table(header_style="bold", pad_edge=False, box=None)
    for name in ("router", "promise", "situation"):
        table.add_column(name)
    for name in ("promised", "measured", "margin"):
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
        table.add_row(finding.router, finding.promise, finding.about, *_figures(finding), verdict)
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


def _value(finding: Finding, value: float) -> str:
    if finding.unit == "share":
        return f"{100 * value:.2f} %"
    return format_pps(value) if finding.unit == "pps" else format_bps(value)

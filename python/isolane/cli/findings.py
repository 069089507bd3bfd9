"""Prints the findings of a verification as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from isolane.spec import format_bps, format_pps
from isolane.verify import Crowd, Finding, Report

_STYLES = {"held": "green", "broken": "bold red", "undecided": "cyan", "not measured": "yellow"}
_UPPER_LIMITS = ("cpu_max", "rate_max")


WIDE = 130
"""Width of a terminal, letters, from which on the intervals have room."""


FEW = 6
"""So many promises are shown whole."""
WORST_FIRST = ("broken", "undecided", "not measured", "held")


def print_report(report: Report, console: Console | None = None, *, details: bool = False) -> None:
    """Print the counts and the table to stdout.

    Parameters
    ----------
    details
        All promises, and how sure the table is; else of many only those that are not held.
    """
    console = console or Console()
    if not console.is_terminal:
        console.width = 190  # a file has no width: print whole cells
    console.print(_headline(report), style="bold", highlight=False, markup=False)
    shown = _shown(report, details=details)
    if shown:
        console.print(_table(shown, wide=console.width >= WIDE))
    for line in _lines(report, hidden=len(report.findings) - len(shown), details=details):
        console.print(line, highlight=False, markup=False)


def _shown(report: Report, *, details: bool) -> list[Finding]:
    if details:
        return list(report.findings)
    found = sorted(report.findings, key=lambda one: WORST_FIRST.index(one.verdict))
    if len(found) <= FEW:
        return found
    return [one for one in found if one.verdict != "held"]


def _headline(report: Report) -> str:
    counts = ", ".join(
        f"{report.count(verdict)} {verdict}"
        for verdict in ("held", "broken", "undecided", "not measured")
        if report.count(verdict)
    )
    return f"policy {report.policy}, {report.mode}: {counts or 'no promises'}"


def _lines(report: Report, *, hidden: int, details: bool) -> Iterator[str]:
    """Yield what stands below the table."""
    if hidden:
        yield f"{_closest(report)}; all {len(report.findings)} promises: --details"
    if details:
        without = report.trials_without_verdict
        invalid = f" ({without} invalid)" if without else ""
        trials = f"{report.trials} trials{invalid} of {1000 * report.window_s:g} ms"
        yield f"{trials} in {report.took_s:.0f} s of at most {report.time_limit_s:.0f} s"
        yield (
            f"error: with a probability of {100 * report.error_rate:g} % at most, a promise of "
            "this table is wrongly called broken; the same for held"
        )
    yield from (_cost(crowd) for crowd in report.crowds)
    yield from report.notes


def _closest(report: Report) -> str:
    """Name the promise that was held by the smallest margin, in tolerances."""
    held = [one for one in report.findings if one.verdict == "held"]
    known = [one for one in held if one.margin is not None and one.tolerance]
    if not known:
        return f"held: {len(held)}"
    worst = min(known, key=lambda one: (one.margin or 0.0) / (one.tolerance or 1.0))
    _, _, margin = _figures(worst)
    return f"held: {len(held)}, the closest {worst.router} {worst.promise} by {margin}"


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


def _table(findings: Sequence[Finding], *, wide: bool) -> Table:
    table = Table(header_style="bold", pad_edge=False, box=None)
    for name in ("router", "promise", "situation"):
        table.add_column(name)
    interval = ("95 % interval",) if wide else ()
    for name in ("promised", "measured", "margin", *interval, "kept in", "error"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict")
    before = None
    for finding in findings:
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

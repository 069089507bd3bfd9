"""The table of an acceptance: what is broken first, then what is undecided, then what held."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from isolane.stats.sequential import ERROR_RATE, median_interval
from rich.console import Console
from rich.table import Table
from rich.text import Text

from acceptance.results import Finding, Report
from acceptance.subject import Verdict

_STYLES: dict[Verdict, str] = {
    "broken": "bold red",
    "undecided": "cyan",
    "held": "green",
    "not measured": "yellow",
}
_FILE_WIDTH = 150
"""A file has no width of its own: whole cells."""


def show(report: Report) -> None:
    """Print the table and the lines below it on standard output."""
    console = Console()
    if not console.is_terminal:
        console.width = _FILE_WIDTH
    console.print(_table(report))
    for line in _lines(report):
        console.print(line, highlight=False, markup=False)


def _table(report: Report) -> Table:
    table = Table(header_style="bold", pad_edge=False, box=None)
    table.add_column("subject")
    table.add_column("promise")
    for name in ("bar", "measured", "95 % interval", "kept"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict")
    for answer, style in _STYLES.items():
        for finding in report.findings:
            if finding.answer == answer:
                verdict = Text(answer, style=style)
                if finding.why:
                    verdict.append(f": {finding.why}", style="default")
                table.add_row(finding.subject, finding.promise, *_figures(finding), verdict)
    return table


def _figures(finding: Finding) -> tuple[str, str, str, str]:
    bar, values = finding.bar, finding.values
    if bar is None:
        return "", "", "", ""
    unit = f" {finding.unit}" if finding.unit else ""
    away = bar.promised + bar.tolerance * (1 if bar.at_most else -1)
    wanted = f"{'<=' if bar.at_most else '>='} {away:.4g}{unit}"
    if not values:
        return wanted, "-", "-", "-"
    ends = median_interval(values)
    between = "-" if ends is None else f"{ends[0]:.4g} to {ends[1]:.4g}"
    kept = f"{sum(bar.keeps(values))} of {len(values)}"
    return wanted, f"{median(values):.4g}{unit}", between, kept


def _lines(report: Report) -> Iterator[str]:
    counts = ", ".join(f"{report.count(answer)} {answer}" for answer in _STYLES)
    yield f"\n{counts}, in {report.took_s:.0f} s of at most {report.limit_s:.0f} s"
    yield (
        f"error: with a probability of {100 * ERROR_RATE:g} % at most, a promise of this table is "
        "wrongly called broken; the same for held"
    )
    steal = [share for each in report.disturbances.values() for share in each.steal]
    if steal:
        longest = max(report.disturbances.values(), key=lambda each: each.longest_stall_ns)
        yield (
            f"disturbance: the hypervisor had {100 * median(steal):.1f} % of the cores' time "
            f"(median; worst attempt {100 * max(steal):.1f} %), the longest stall in a probe was "
            f"{longest.longest_stall_ns / 1e6:.1f} ms; by subject in --json"
        )

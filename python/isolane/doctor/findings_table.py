"""Prints the findings as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from isolane.doctor.answers import STATUSES, Finding, Status
from isolane.doctor.capabilities import GROUP_TITLES

_STYLES: Final[dict[Status, str]] = {
    "yes": "green",
    "limited": "yellow",
    "no": "red",
    "unknown": "magenta",
}


def render(findings: Sequence[Finding], console: Console) -> None:
    """Print the findings group by group, and their counts."""
    for group, title in GROUP_TITLES.items():
        members = [finding for finding in findings if finding.group == group]
        if members:
            console.print(_group(title, members))
    console.print(f"\n{counts(findings)}")


def _group(title: str, findings: Sequence[Finding]) -> RenderableType:
    table = Table(box=None, padding=(0, 1), show_header=False, pad_edge=False)
    table.add_column(width=len("unknown"))
    table.add_column(width=34)
    table.add_column(overflow="fold")
    for finding in findings:
        text = Text(finding.detail)
        if finding.status != "yes":
            text.append(f"\nrules out: {finding.rules_out}", style="dim")
            text.append(f"\nto get it: {finding.remedy}", style="dim")
        table.add_row(Text(finding.status, style=_STYLES[finding.status]), finding.title, text)
    return Group(Text(f"\n{title}", style="bold"), table)


def counts(findings: Sequence[Finding]) -> str:
    """Count the findings of each status, such as ``41 yes, 2 no``."""
    counted = {status: sum(f.status == status for f in findings) for status in STATUSES}
    return ", ".join(f"{number} {status}" for status, number in counted.items() if number)

"""The findings on one screen: which jobs this host can do, and what is missing, by name."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from isolane.doctor.answers import Finding, Status
from isolane.doctor.capabilities import REQUIREMENTS
from isolane.doctor.examination import lacking
from isolane.doctor.findings_table import counts

WIDTH: Final = 100
"""Columns, also where the terminal has more."""
MAX_LINES: Final = 2
"""For the names of one status; the rest is in the details."""
JOBS: Final = {
    "measure": "run, search and verify, live",
    "enforce": "policies for routers that run",
    "vm": "virtual machines as routers",
}
"""What each job of :data:`REQUIREMENTS` is for."""
NAMED: Final[tuple[Status, ...]] = ("no", "limited", "unknown")


def render_answer(findings: Sequence[Finding], console: Console) -> None:
    """Print what works first, then what is missing, in 12 lines at 100 columns."""
    if not console.is_terminal:
        console.width = WIDTH  # a file has no width
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
    for _ in range(3):
        table.add_column()
    for job, purpose in JOBS.items():
        table.add_row(job, purpose, _of_job(job, findings))
    console.print(table)
    for status in NAMED:
        names = [finding.title for finding in findings if finding.status == status]
        for line in _listed(status, names, min(console.width, WIDTH)):
            console.print(line, highlight=False, markup=False)
    console.print(
        f"{counts(findings)}: --details says what each is for, and how to get it",
        highlight=False,
        markup=False,
    )


def _of_job(job: str, findings: Sequence[Finding]) -> Text:
    lacks = lacking(job, findings)
    if lacks:
        return Text(f"not here: {lacks[0].title} ({lacks[0].status})", style="red")
    needed = REQUIREMENTS[job]
    limits = [
        one.title
        for one in findings
        if one.status == "limited" and one.id.partition(":")[0] in needed
    ]
    if limits:
        return Text(f"works, with limits: {', '.join(limits)}", style="yellow")
    return Text("works", style="green")


def _listed(status: Status, names: Sequence[str], width: int) -> list[str]:
    if not names:
        return []
    lines = textwrap.wrap(f"{status}: {', '.join(names)}", width, break_on_hyphens=False)
    if len(lines) <= MAX_LINES:
        return lines
    kept = lines[:MAX_LINES]
    kept[-1] = f"{textwrap.shorten(kept[-1], width - 4, placeholder='')}, ..."
    return kept

"""Prints the answer of a run: what was found, on a few lines; the rest is in the report."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from isolane.analysis.answer import answer_of
from isolane.analysis.answer_words import WORDS, WORST_AT, figures, headings, lost_line
from isolane.analysis.wording import plural
from isolane.results.results import Summary
from isolane.results.verdict_models import Answer, AnswerRow, Finding
from isolane.spec import format_pps

WIDTH = 100
"""Columns, also where the terminal has more."""
LINES = 12
"""Of an answer, so that it is read at a glance; arms in the middle are left to the details."""
MIN_ROWS, MIN_TOLD = 3, 2
CUT = ("arm", WORST_AT)
COLOURS: dict[Finding, str] = {
    "isolated": "green",
    "nearly isolated": "green",
    "not isolated": "red",
    "undecided": "yellow",
}


def print_answer(summary: Summary, console: Console | None = None, *, below: int = 2) -> None:
    """Print the answer to stdout, in 12 lines at 100 columns.

    Parameters
    ----------
    below
        How many of these are left to the caller: for the files that were written.
    """
    console, used = begin(console, _heading(summary))
    found, lost = answer_of(summary), lost_line(summary)
    why = wrapped(f"{lost}: --details says why", console.width) if lost is not None else []
    left = LINES - below - used - len(why)
    if found.rows:
        fit = max(MIN_ROWS, left - 1 - MIN_TOLD)
        shown = best_and_worst(found.rows, fit)
        console.print(_table(found, shown, wide=console.width >= WIDTH))
        left -= 1 + len(shown)
        if len(found.rows) > len(shown):
            rest = plural(len(found.rows) - len(shown), "more arm")
            console.print(f"{rest} between these: --details", highlight=False, markup=False)
            left -= 1
    tell(console, fitting(found.sentences, max(MIN_TOLD, left), console.width))
    for line in why:
        console.print(line, highlight=False, markup=False)


def best_and_worst(rows: Sequence[AnswerRow], fit: int) -> Sequence[AnswerRow]:
    """Return the first and the last of the rows where not all fit, so that a line is left."""
    if len(rows) <= fit:
        return rows
    last = (fit - 1) // 2
    return [*rows[: fit - 1 - last], *rows[len(rows) - last :]]


def begin(console: Console | None, heading: str) -> tuple[Console, int]:
    """Print the heading of an answer; return the console, 100 columns wide, and the lines used."""
    console = console or Console()
    console.width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    return console, tell(console, wrapped(heading, console.width))


def tell(console: Console, lines: Sequence[str]) -> int:
    """Print lines that matter; return how many."""
    for line in lines:
        console.print(line, style="bold", highlight=False, markup=False)
    return len(lines)


def _heading(summary: Summary) -> str:
    parts = [summary.title]
    if summary.simulated is not None:
        parts.append(f"predicted by simulation, profile {summary.simulated}")
    if summary.capacity is not None:
        source = summary.capacity.source
        taken = f", taken from {source}" if source is not None else ""
        bound = "at least " if summary.capacity.at_least else ""
        parts.append(f"1x = {bound}{format_pps(summary.capacity.pps.median)}{taken}")
    return "; ".join(parts)


def fitting(sentences: Sequence[str], lines: int, width: int) -> list[str]:
    """Return the first sentences, as many as fit into so many lines, but the first one whole."""
    told: list[str] = []
    for number in range(1, len(sentences) + 1):
        more = wrapped(" ".join(sentences[:number]), width)
        if told and len(more) > lines:
            break
        told = more
    return told


def wrapped(text: str, width: int) -> list[str]:
    """Break a paragraph into lines, but no figure from its unit."""
    text = text.replace(" %", "\N{NO-BREAK SPACE}%")
    lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def _table(found: Answer, rows: Sequence[AnswerRow], *, wide: bool) -> Table:
    table = Table(header_style="bold", pad_edge=False, box=None, padding=(0, 2, 0, 0))
    names = headings(found)
    shown = [number for number, name in enumerate(names) if wide or name != WORST_AT]
    lines = [figures(row, of_part=found.meanwhile is not None) for row in rows]
    for number in shown:
        name = names[number]
        # Where it is too narrow, names are cut short, and no figure is.
        whole = max(len(line[number]) for line in (names, *lines))
        table.add_column(
            name,
            justify="left" if name in WORDS else "right",
            overflow="ellipsis",
            no_wrap=True,
            min_width=None if name in CUT else whole,
        )
    for row, line in zip(rows, lines, strict=True):
        texts = [Text(text) for text in line]
        if row.finding is not None:
            texts[1].stylize(COLOURS.get(row.finding, ""))
        table.add_row(*(texts[number] for number in shown))
    return table

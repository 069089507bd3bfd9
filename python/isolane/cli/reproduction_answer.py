"""Prints what a reproduction found: a row for each figure, and what is not reproduced."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table

from isolane.analysis.wording import plural
from isolane.cli.answer_table import LINES, WIDTH, begin
from isolane.report.tables import NOTHING
from isolane.report.words import sentence
from isolane.reproduce.model import Claim, Reproduction
from isolane.reproduce.relative_errors import errors

MIN_CLAIMS = 2
"""Claims that are told however many figures there are."""


def print_reproduction_answer(found: Reproduction, console: Console | None = None) -> None:
    """Print to stdout how well the paper is reproduced, at 100 columns.

    In 12 lines, but for papers with many figures: each has its row.
    """
    console, used = begin(console, found.title)
    console.print(sentence(found), highlight=False, markup=False)
    figures = list(dict.fromkeys(row.figure for row in found.rows))
    if figures:
        console.print(_table(found, figures))
    missed = [("", claim) for claim in found.claims if not claim.reproduced]
    if found.live is not None:
        missed += [(" live", claim) for claim in found.live.claims if not claim.reproduced]
    left = max(MIN_CLAIMS, LINES - used - len(figures) - 3)
    shown = missed if len(missed) <= left else missed[: left - 1]
    for line in _lines(shown, len(missed)):
        console.print(line, highlight=False, markup=False)
    told = "each figure and claim: --details; the plots: --output FILE"
    console.print(told, highlight=False, markup=False)


def _lines(shown: list[tuple[str, Claim]], count: int) -> Iterator[str]:
    for where, claim in shown:
        yield textwrap.shorten(
            f"not reproduced{where}, {claim.figure}: {claim.text}", WIDTH, placeholder=" …"
        )
    if count > len(shown):
        yield f"not reproduced: {plural(count - len(shown), 'more claim')}"


def _table(found: Reproduction, figures: list[str]) -> Table:
    table = Table(header_style="bold", pad_edge=False, box=None, padding=(0, 2, 0, 0))
    table.add_column("figure", no_wrap=True)
    live = ("live",) if found.live is not None else ()
    for name in (
        "claims reproduced", *live, "published values", "mean error", "largest", "fitted"
    ):  # fmt: skip
        table.add_column(name, justify="right", no_wrap=True)
    for figure in figures:
        rows = [row for row in found.rows if row.figure == figure]
        error = errors(rows)
        fitted = sum(row.fitted for row in rows if row.relative_error is not None)
        table.add_row(
            figure,
            _held(found.claims, figure),
            *((_held(found.live.claims, figure),) if found.live is not None else ()),
            f"{error.count}" if error.count else NOTHING,
            f"{100 * error.mean:.1f} %" if error.count else NOTHING,
            f"{100 * error.largest:.1f} %" if error.count else NOTHING,
            f"{fitted}" if error.count else NOTHING,
        )
    return table


def _held(claims: Sequence[Claim], figure: str) -> str:
    own = [claim for claim in claims if claim.figure == figure]
    return f"{sum(claim.reproduced for claim in own)} of {len(own)}" if own else NOTHING

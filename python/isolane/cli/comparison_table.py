"""Prints what changed from one run to another: what is worse first, then what is better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from isolane.analysis.wording import plural
from isolane.cli.answer_table import LINES, WIDTH, begin, fitting, tell, wrapped
from isolane.compare import Comparison, Difference, Outcome
from isolane.compare import comparison_words as words

COLOURS: Final[dict[Outcome, str]] = {"better": "green", "worse": "red"}
MIN_ROWS: Final = 3
REMARKS: Final = 4
"""Lines of remarks, where not all are asked for."""
WIDE: Final = 150
"""Columns of all figures, where a file has no width."""
LEFT: Final = ("arm", "load", "router", "figure", "outcome")


def print_comparison(
    found: Comparison,
    console: Console | None = None,
    *,
    details: bool = False,
    below: int = 0,
) -> None:
    """Print the comparison to stdout.

    Parameters
    ----------
    details
        All figures, and how sure each is; else what is different, in 12 lines at 100 columns.
    below
        How many of these lines are left to the caller.
    """
    console, used = begin(console, f"{found.name}: {found.before}, then {found.after}")
    rows, more = found.differences, 0
    told = wrapped(words.counts(found), WIDTH)
    if details:
        told += [line for remark in words.remarks(found) for line in wrapped(remark, WIDTH)]
        console.width = console.width if console.is_terminal else WIDE
    else:
        told += fitting(words.remarks(found), REMARKS, WIDTH)
        rows = _ranked(found)
        fit = max(MIN_ROWS, LINES - below - used - 1 - len(told))
        if len(rows) > fit:
            more = len(rows) - fit + 1
            rows = rows[: fit - 1]
    if rows:
        console.print(_table(rows, details=details))
    if more:
        console.print(f"{plural(more, 'more figure')}: --details", highlight=False)
    tell(console, told)


def _ranked(found: Comparison) -> tuple[Difference, ...]:
    """Return what is different, the worst first, then the best."""
    different = [each for each in found.differences if each.outcome in ("worse", "better")]
    return tuple(sorted(different, key=_rank))


def _rank(each: Difference) -> tuple[bool, bool, float]:
    size = math.inf if each.change is None else abs(each.change)
    return each.outcome == "better", not each.beyond_tolerance, -size


def _table(rows: Sequence[Difference], *, details: bool) -> Table:
    table = Table(header_style="bold", pad_edge=False, box=None, padding=(0, 2, 0, 0))
    sure = ["p, corrected"] if details else []
    for name in ("arm", "load", "router", "figure", "before", "after", "change", *sure, "outcome"):
        table.add_column(
            name,
            justify="left" if name in LEFT else "right",
            no_wrap=True,
            overflow="ellipsis",
            max_width=18 if name in ("arm", "load", "router") and not details else None,
        )
    for each in rows:
        values = (words.value(each, each.before), words.value(each, each.after))
        how_sure = (words.probability(each),) if details else ()
        outcome = Text(each.outcome, style=COLOURS.get(each.outcome, ""))
        about = (each.arm, each.load, each.router, each.figure)
        table.add_row(*about, *values, words.change(each), *how_sure, outcome)
    return table

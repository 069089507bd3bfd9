"""Prints whether the arms of a run are different, and whether the load matters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table

from isolane.analysis import arm_test_words as words
from isolane.results.results import Summary

_LEFT = ("metric", "arm", "arm a", "arm b", "verdict")


def arm_tests_tables(summary: Summary) -> Iterator[Table]:
    """Yield a table of the arms and one of the loads, where there is something to compare."""
    tests = summary.arm_tests
    if tests is None:
        return
    if tests.differences:
        rows = [words.difference_row(summary, found) for found in tests.differences]
        yield _table(words.title(tests), words.DIFFERENCE_COLUMNS, rows)
    if tests.trends:
        trends = [words.trend_row(summary, found) for found in tests.trends]
        yield _table(words.trend_title(tests), words.TREND_COLUMNS, trends)


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(title=title, title_justify="left", header_style="bold", pad_edge=False, box=None)
    for name in columns:
        table.add_column(name, justify="left" if name in _LEFT else "right")
    before = None
    for row in rows:
        shown = ["" if row[0] == before else row[0], *row[1:]]
        before = row[0]
        table.add_row(*shown)
    return table

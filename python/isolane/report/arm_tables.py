"""The tables of a report that say whether arms are different, and whether loads matter."""

from __future__ import annotations

from collections.abc import Sequence

from isolane.analysis import arm_test_words as words
from isolane.report.tables import Table, Value
from isolane.results.results import Summary

_HINTS = {
    "rounds": "rounds (or invocations) that are compared: pairs by Wilcoxon's signed-rank test, "
    "a + b by Mann and Whitney's, where there are too few pairs",
    "b - a": "by how much b lies above a at the same load (Hodges and Lehmann), with the 95 % "
    "interval; infinite where frames are lost",
    "effect": "rank-biserial correlation: +1 where b is always above a, -1 where always below",
    "p, corrected": "probability of values so different if the arms, or loads, were equal, "
    "corrected for the number of comparisons of this metric (Holm)",
    "verdict": "different, or a trend, where p is 0.05 at most",
    "tau-b": "Kendall's rank correlation of load and metric; with several trials at each load it "
    "stays somewhat below 1",
}


def differences(summary: Summary) -> Table:
    """Compare each two arms; without rows where there is one arm, or an older version ran."""
    tests = summary.arm_tests
    found = tests.differences if tests else ()
    return _table(words.DIFFERENCE_COLUMNS, [words.difference_row(summary, it) for it in found], 3)


def trends(summary: Summary) -> Table:
    """Correlate load and metric in each arm; without rows where there is one load."""
    tests = summary.arm_tests
    found = tests.trends if tests else ()
    return _table(words.TREND_COLUMNS, [words.trend_row(summary, it) for it in found], 2)


def notes(summary: Summary) -> list[str]:
    """Say what was tested of which router, and what there were too few rounds for."""
    tests = summary.arm_tests
    if tests is None:
        return []
    told = [words.title(tests)] if tests.differences else []
    told += [words.trend_title(tests)] if tests.trends else []
    few = words.note(tests)
    return [*told, *([f"{few}."] if few else [])]


def meanings(shown: Sequence[Table]) -> list[tuple[str, str]]:
    """Return what the columns of tables mean, each once."""
    every = [pair for table in shown for pair in zip(table.headings, table.hints, strict=True)]
    return [(heading, hint) for heading, hint in dict.fromkeys(every) if hint]


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], text: int) -> Table:
    return Table(
        tuple(name if name == "b - a" else name[0].upper() + name[1:] for name in columns),
        tuple(_HINTS.get(name, "") for name in columns),
        tuple(tuple(map(Value, row)) for row in rows),
        words=text,
    )

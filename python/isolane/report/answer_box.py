"""The answer of a run, on top of its report."""

from __future__ import annotations

from dataclasses import dataclass

from isolane.analysis.answer import answer_of
from isolane.analysis.answer_words import WORDS, figures, headings, lost_line
from isolane.report.tables import SIGNS, Table, Value
from isolane.results.results import Summary
from isolane.results.verdict_models import Answer, AnswerRow


@dataclass(frozen=True)
class Entry:
    """One entry of the table; a finding has a sign and its style."""

    text: str
    sign: str = ""
    style: str = ""


@dataclass(frozen=True)
class AnswerBox:
    """What the page begins with."""

    sentence: str
    columns: tuple[tuple[str, str], ...]
    """Heading, and whether it holds a ``word`` or a ``number``."""
    rows: tuple[tuple[Entry, ...], ...]
    lost: str
    """How many trials count for nothing; empty where all count."""


def answer_box(summary: Summary) -> AnswerBox:
    """Return what the page begins with."""
    found = answer_of(summary)
    columns = tuple(
        (
            name if name.startswith("p99") or name == found.meanwhile else _capital(name),
            "word" if name in WORDS else "number",
        )
        for name in headings(found)
    )
    lost = lost_line(summary)
    return AnswerBox(
        " ".join(found.sentences),
        columns,
        tuple(_entries(row, found) for row in found.rows),
        f"{lost}." if lost else "",
    )


def answer_table(summary: Summary) -> Table:
    """Return the answer as a table for text."""
    box = answer_box(summary)
    names = tuple(name for name, _ in box.columns)
    rows = tuple(tuple(Value(entry.text) for entry in row) for row in box.rows)
    return Table(
        names, ("",) * len(names), rows, words=sum(k == "word" for _, k in box.columns[:2])
    )


def _entries(row: AnswerRow, answer: Answer) -> tuple[Entry, ...]:
    texts = figures(row, of_part=answer.meanwhile is not None)
    if row.finding is None:
        return tuple(map(Entry, texts))
    first, finding, *rest = texts
    return (Entry(first), Entry(_capital(finding), *SIGNS[row.finding]), *map(Entry, rest))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]

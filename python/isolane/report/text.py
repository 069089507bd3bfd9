"""Reports as Markdown and as comma-separated values."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime

from isolane.analysis.objective_words import objective_lines
from isolane.analysis.quality_words import lost_words, quality_words
from isolane.analysis.table_rows import MissingRow, older_method, rows_of
from isolane.report import arm_tables
from isolane.report.answer_box import answer_box, answer_table
from isolane.report.fact_lists import capacities, facts, host
from isolane.report.floor_table import NOTE, null_dut
from isolane.report.loaded_run import Run
from isolane.report.tables import (
    Table,
    badges,
    brackets,
    findings,
    missing,
    published,
    refused,
    results,
)
from isolane.results.results import DROP_POINTS, Cell, Interval, Summary


def markdown(run: Run) -> str:
    """Write the verdict, the tables and what was not measured as GitHub's Markdown."""
    summary = run.summary
    box = answer_box(summary)
    parts = [f"# {_plain(summary.title)}", f"**{_plain(box.sentence)}**"]
    parts += [_table(answer_table(summary))] if box.rows else []
    parts.append("\n".join(f"- {_plain(line)}" for line in objective_lines(summary)))
    parts += [_plain(box.lost), "## What this rests on", _plain(summary.verdict.sentence)]
    found = [f"- {_plain(words)}" for _, _, words in badges(summary) if summary.verdict.arms]
    parts.append("\n".join(found))
    parts.append(
        "\n".join(
            f"- {_plain(arm)}: {_plain(told.rstrip('.'))}." for arm, told in findings(summary)
        )
    )
    if (older := older_method(summary)) is not None:
        parts.append(f"**{_plain(older)}**")
    if not summary.complete:
        parts.append("The run was interrupted: this is what was measured up to then.")
    if summary.description:
        parts.append(_plain(summary.description.strip()))
    known = [*facts(summary), *capacities(summary)]
    parts.append("\n".join(f"- {_plain(name)}: {_plain(value)}" for name, value in known))
    parts.append("## Results")
    shown = results(summary)
    parts.append(_table(shown) if shown.rows else "No trial gave a verdict.")
    lines = [f"- No verdict: {_plain(what)}: {_plain(why)}." for what, why in missing(summary)]
    lines += [f"- {_plain(what)}: refused: {_plain(why)}." for what, why in refused(summary)]
    parts.append("\n".join(lines))
    if summary.cells:
        parts.append(brackets(summary))
    parts += [*_arm_tests(summary), *_quality(summary)]
    if summary.null_dut:
        parts += ["## The floor of the delays", _table(null_dut(summary)), NOTE]
    if summary.published:
        parts += ["## Beside what was published", _plain(summary.published_source or "")]
        parts.append(_table(published(summary)))
    if summary.not_measured:
        lines = [f"- {_plain(gap.what)}: {_plain(gap.why)}." for gap in summary.not_measured]
        parts += ["## What was not measured", "\n".join(lines)]
    lines = [f"- {_plain(name)}: {_plain(value)}" for name, value in host(run.host)]
    parts += ["## Host", "\n".join(lines), "## How to reproduce", f"    {run.command}"]
    when = datetime.fromtimestamp(summary.started_unix_s, UTC)
    version = f"Isolane {summary.isolane}, method {summary.method}"
    parts.append(f"{version}, {when:%Y-%m-%d %H:%M} UTC.")
    return "\n\n".join(part for part in parts if part) + "\n"


def _arm_tests(summary: Summary) -> list[str]:
    shown = [arm_tables.differences(summary), arm_tables.trends(summary)]
    found = [_table(table) for table in shown if table.rows]
    if not found:
        return []
    notes = "\n".join(f"- {_plain(words)}" for words in arm_tables.notes(summary))
    return ["## Are the arms different?", *found, notes]


def _quality(summary: Summary) -> list[str]:
    if summary.quality is None:
        return []
    lines = [*quality_words(summary), *lost_words(summary)]
    return ["## How good the trials were", "\n".join(f"- {_plain(line)}" for line in lines)]


def _plain(text: str) -> str:
    """Keep names from being taken for Markdown or HTML."""
    for char in "\\`*_[]<>|":
        text = text.replace(char, f"\\{char}")
    return text


def _table(table: Table) -> str:
    align = ["---" if i < table.words else "---:" for i in range(len(table.headings))]
    rows = [[_plain(value.flat()) for value in row] for row in table.rows]
    lines = [list(table.headings), align, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


_INTERVALS = tuple(
    name for name, field in Cell.model_fields.items() if "Interval" in str(field.annotation)
)
_PLAIN = tuple(name for name in Cell.model_fields if name not in {*_INTERVALS, "lost"})


def cells_csv(run: Run) -> str:
    """Write one line per cell, all figures unrounded; what was not measured is empty.

    A router at a point without a verdict has its line, too: its last column says why.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    ends = ("", *(f"_{name}" for name in list(Interval.model_fields)[1:]))
    headings = [f"{name}{end}" for name in _INTERVALS for end in ends]
    columns = [
        *_PLAIN,
        *headings,
        *(f"lost_{where}" for where in DROP_POINTS),
        "no_verdict",
    ]
    writer.writerow(columns)
    for row in rows_of(run.summary):
        if isinstance(row, MissingRow):
            known = _missing_values(row)
            writer.writerow([known.get(name) for name in columns])
        else:
            writer.writerow([*_cell_values(row), None])
    return stream.getvalue()


def _cell_values(cell: Cell) -> list[object]:
    values: list[object] = [getattr(cell, name) for name in _PLAIN]
    for name in _INTERVALS:
        value: Interval | None = getattr(cell, name)
        values += (
            [None] * len(Interval.model_fields)
            if value is None
            else list(value.model_dump().values())
        )
    return [*values, *(cell.lost.get(where, 0.0) for where in DROP_POINTS)]


def _missing_values(row: MissingRow) -> dict[str, object]:
    point = row.point
    return {
        "arm": point.arm,
        "point": point.point,
        "point_label": point.point_label,
        **row.router.model_dump(),
        "aggressor_x": point.aggressor_x,
        "aggressor_pps": point.aggressor_pps,
        "working": point.attack[0],
        "no_verdict": point.why,
    }

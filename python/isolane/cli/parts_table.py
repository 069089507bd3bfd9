"""Prints how long frames took on each part of their way."""

from __future__ import annotations

from rich.table import Table

from isolane.results.parts import PART_WORDS, WHOLE
from isolane.results.results import Cell, Summary
from isolane.spec import format_ns


def parts_table(summary: Summary) -> Table | None:
    """Return the mean times of all parts; None where no frame was stamped."""
    cells = [cell for cell in summary.cells if cell.parts]
    used = [name for name in PART_WORDS if any(_text(cell, name) for cell in cells)]
    if not used:
        return None
    table = Table(
        title="Mean time of a frame on each part of its way", title_justify="left",
        header_style="bold", pad_edge=False, box=None,
    )  # fmt: skip
    for name in ("arm", "load", "router"):
        table.add_column(name)
    for name in (*used, WHOLE):
        table.add_column(PART_WORDS.get(name, "first to last point"), justify="right")
    for cell in cells:
        times = [_text(cell, name) or "-" for name in (*used, WHOLE)]
        table.add_row(cell.arm, cell.point_label, cell.router, *times)
    return table


def _text(cell: Cell, name: str) -> str:
    found = next((part for part in cell.parts if part.part == name), None)
    return format_ns(found.mean_ns.median) if found else ""

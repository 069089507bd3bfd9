"""A table of the report as rows of an SVG image, for paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from textwrap import wrap

from isolane.report.assets import groups
from isolane.report.tables import Table, Value
from isolane.report.theme import LIGHT

SIZE, SMALL = 12.5, 11.0
LINE = 16.0
GAP = 16.0
"""Between two columns."""
GROUP_HEIGHT = 32.0
LETTERS = 30
"""Longest line of a name: names are the user's and have no limit."""

_LETTER = 0.56
"""Width of an average letter of the paper's font in its size, digits and brackets included."""


@dataclass(frozen=True)
class _Entry:
    """What stands in a cell: lines with their sizes and colours."""

    lines: tuple[tuple[str, float, str], ...]

    @property
    def width(self) -> float:
        return max((len(text) * size * _LETTER for text, size, _ in self.lines), default=0.0)

    @property
    def height(self) -> float:
        return len(self.lines) * LINE + 9


def draw_table(table: Table, min_width: float) -> tuple[str, float]:
    """Draw a table without its first column, whose values become headings of groups.

    Parameters
    ----------
    min_width
        Width of the sheet; a table that is wider is made smaller as a whole.

    Returns
    -------
    tuple
        SVG, its origin at the top left, and its height.
    """
    arms = [
        (arm, [[_entry(value) for value in row[1:]] for row in rows])
        for arm, rows in groups(table.rows)
    ]
    head = [_Entry(((heading, SIZE, LIGHT.muted),)) for heading in table.headings[1:]]
    everything = [head, *(row for _, rows in arms for row in rows)]
    widths = [max(row[i].width for row in everything) for i in range(len(head))]
    natural = sum(widths) + GAP * (len(widths) - 1)
    total = max(min_width, natural)
    pen = _Pen(
        _columns(widths, table.words - 1, (total - natural) / max(1, len(widths) - 1)), total
    )
    pen.row(head, bold=True)
    for arm, rows in arms:
        pen.group(arm)
        for row in rows:
            pen.row(row)
    scale = min_width / total
    return f'<g transform="scale({scale:.4f})">{"".join(pen.parts)}</g>', pen.y * scale


def _entry(value: Value) -> _Entry:
    lines = [(text, SIZE, LIGHT.ink) for text in wrap(value.text, LETTERS) or [""]]
    if value.interval:
        lines.append((value.interval, SMALL, LIGHT.muted))
    return _Entry(tuple(lines))


def _columns(widths: Sequence[float], words: int, spare: float) -> list[tuple[float, str]]:
    """Return where each column's text is anchored: words at their left, figures at their right."""
    anchors, x = [], 0.0
    for number, width in enumerate(widths):
        anchors.append((x, "start") if number < words else (x + width, "end"))
        x += width + GAP + spare
    return anchors


class _Pen:
    """Writes rows one below the other."""

    def __init__(self, columns: Sequence[tuple[float, str]], width: float) -> None:
        self._columns = columns
        self._width = width
        self.parts: list[str] = []
        self.y = 0.0

    def row(self, entries: Sequence[_Entry], *, bold: bool = False) -> None:
        """Write a row and the line below it."""
        weight = ' font-weight="700"' if bold else ""
        for (x, anchor), entry in zip(self._columns, entries, strict=True):
            for number, (text, size, colour) in enumerate(entry.lines):
                y = self.y + (number + 0.8) * LINE
                self.parts.append(
                    f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" fill="{colour}" '
                    f'text-anchor="{anchor}"{weight}>{escape(text)}</text>'
                )
        self.y += max(entry.height for entry in entries)
        self.parts.append(
            f'<path d="M0,{self.y - 4:.1f} H{self._width:.1f}" stroke="{LIGHT.line}" fill="none"/>'
        )

    def group(self, name: str) -> None:
        """Write the heading of the rows that follow."""
        self.parts.append(
            f'<text x="0" y="{self.y + 20:.1f}" font-size="14" font-weight="700" '
            f'fill="{LIGHT.ink}">{escape(name)}</text>'
        )
        self.y += GROUP_HEIGHT

"""The report on one sheet: title, verdict, plots, tables and drawings as SVG, PNG or PDF."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape

import vl_convert

from isolane.analysis.table_rows import older_method
from isolane.report import fact_lists, tables
from isolane.report.answer_box import answer_box
from isolane.report.chart import Figure, Panel, Swatch
from isolane.report.drawing import draw
from isolane.report.figures import figures
from isolane.report.loaded_run import Run
from isolane.report.papertable import draw_table
from isolane.report.swatch import WIDTH as SWATCH_WIDTH
from isolane.report.swatch import picture
from isolane.report.theme import LIGHT, PAPER_FONT, PaletteName, vega_config
from isolane.results.results import Summary

WIDTH, MARGIN, GAP = 1200.0, 48.0, 28.0
INNER = WIDTH - 2 * MARGIN
PNG_SCALE = 1.5
"""Pixels per unit: 1800 wide, enough for a slide, and small enough for a mail."""

_LETTER = 0.53
"""Width of an average letter of the paper's font, in its size."""


@dataclass(frozen=True)
class Block:
    """A part of the sheet as SVG, with its origin at its top left."""

    svg: str
    height: float


def sheet(run: Run) -> str:
    """Compose the sheet as one SVG image that refers to nothing outside itself."""
    summary = run.summary
    blocks = [*_head(summary)]
    first, *rest = [_figure(figure) for figure in figures(summary)] or [[]]
    blocks += [*first, *_tables(summary), *(block for figure in rest for block in figure)]
    blocks += _drawings(summary)
    blocks += _gaps(summary)
    y, parts = MARGIN, []
    for block in blocks:
        parts.append(f'<g transform="translate({MARGIN:g},{y:.1f})">{block.svg}</g>')
        y += block.height
    height = y + MARGIN / 2
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH:g}" height="{height:.0f}" '
        f'viewBox="0 0 {WIDTH:g} {height:.0f}" font-family="{PAPER_FONT}" role="img" '
        f'aria-label="{escape(answer_box(summary).sentence)}">'
        f"<title>{escape(summary.title)}</title>"
        f'<rect width="100%" height="100%" fill="{LIGHT.card}"/>{"".join(parts)}</svg>\n'
    )


def convert(svg: str, kind: str) -> bytes:
    """Turn the sheet into ``png`` or ``pdf`` (one long page)."""
    if kind == "png":
        return bytes(vl_convert.svg_to_png(svg, scale=PNG_SCALE))
    return bytes(vl_convert.svg_to_pdf(svg))


def _lines(text: str, size: float) -> list[str]:
    """Break a paragraph so that its lines fit the sheet."""
    max_letters = int(INNER / (size * _LETTER))
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > max_letters:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return [*lines, line] if line else lines


def _text(text: str, size: float, colour: str, *, bold: bool = False, after: float = 10) -> Block:
    weight = ' font-weight="700"' if bold else ""
    lines = _lines(text, size * (1.06 if bold else 1))
    parts = [
        f'<text y="{(i + 0.85) * size * 1.35:.1f}" font-size="{size:g}" fill="{colour}"{weight}>'
        f"{escape(line)}</text>"
        for i, line in enumerate(lines)
    ]
    return Block("".join(parts), len(lines) * size * 1.35 + after)


def _head(summary: Summary) -> list[Block]:
    when = datetime.fromtimestamp(summary.started_unix_s, UTC)
    tint = {"good": LIGHT.good, "bad": LIGHT.bad}.get(summary.verdict.level, LIGHT.ink)
    known = " · ".join(f"{name}: {value}" for name, value in fact_lists.facts(summary))
    interrupted = "" if summary.complete else "The run was interrupted. "
    older = older_method(summary)
    origin = f"Isolane {summary.isolane} · {summary.name} · {when:%Y-%m-%d %H:%M} UTC"
    return [
        _text(origin, 13, LIGHT.muted, after=4),
        _text(summary.title, 32, LIGHT.ink, bold=True, after=14),
        _text(interrupted + answer_box(summary).sentence, 20, tint, after=12),
        *([_text(older, 14, LIGHT.ink, bold=True, after=12)] if older else []),
        _text(known, 14, LIGHT.muted, after=GAP),
    ]


def _figure(figure: Figure) -> list[Block]:
    columns = min(figure.columns, len(figure.panels), 3)
    width = (INNER - (columns - 1) * GAP) / columns
    rows = [figure.panels[i : i + columns] for i in range(0, len(figure.panels), columns)]
    return [
        _text(figure.title, 20, LIGHT.ink, bold=True, after=6),
        _legend(figure.legend),
        *(_row(figure, number, row, width) for number, row in enumerate(rows)),
        _text(figure.caption, 13, LIGHT.muted, after=GAP * 1.4),
    ]


def _legend(legend: Sequence[Swatch]) -> Block:
    x, y, parts = 0.0, 0.0, []
    for swatch in legend:
        width = SWATCH_WIDTH + 8 + len(swatch.label) * 13 * 0.56 + 22
        if x and x + width > INNER:
            x, y = 0.0, y + 22
        parts.append(
            f'<g transform="translate({x:.1f},{y:.1f})">{picture(swatch, LIGHT)}'
            f'<text x="{SWATCH_WIDTH + 8}" y="11.5" font-size="13" fill="{LIGHT.ink}">'
            f"{escape(swatch.label)}</text></g>"
        )
        x += width
    return Block("".join(parts), y + 30)


def _row(figure: Figure, number: int, panels: Sequence[Panel], width: float) -> Block:
    parts, tallest = [], 0.0
    title = 22.0 if any(panel.title for panel in panels) else 0.0
    for column, panel in enumerate(panels):
        svg, height = _plot(panel, figure.palette, width, f"{figure.id}-{number}-{column}-")
        tallest = max(tallest, height)
        heading = (
            f'<text y="14" font-size="14" font-weight="700" fill="{LIGHT.muted}">'
            f"{escape(panel.title)}</text>"
        )
        parts.append(
            f'<g transform="translate({column * (width + GAP):.1f},0)">{heading}'
            f'<g transform="translate(0,{title:g})">{svg}</g></g>'
        )
    return Block("".join(parts), tallest + title + 14)


def _plot(panel: Panel, palette: PaletteName, width: float, prefix: str) -> tuple[str, float]:
    """Render a panel; its ids get a prefix, because all plots end up in one document."""
    config = vega_config(LIGHT, PAPER_FONT)
    config["range"] = {**config["range"], "category": list(LIGHT.palette(palette))}
    spec = {
        **panel.spec,
        "width": round(width),
        "autosize": {"type": "fit-x", "contains": "padding"},
    }
    svg = str(vl_convert.vegalite_to_svg(spec, config=config))
    svg = re.sub(r'\bid="', f'id="{prefix}', svg)
    svg = re.sub(r"url\(#", f"url(#{prefix}", svg)
    found = re.search(r'<svg[^>]*\bheight="([0-9.]+)"', svg)
    assert found is not None, "Vega writes the size of every image"
    return svg, float(found[1])


def _tables(summary: Summary) -> list[Block]:
    """Write what was measured as a table and, if there is any, what was published."""
    found = [_text("Results", 20, LIGHT.ink, bold=True, after=8)]
    if not summary.cells:
        return [*found, _text("No trial gave a verdict.", 14, LIGHT.ink, after=GAP)]
    found.append(Block(*draw_table(tables.results(summary), INNER)))
    for what, why in tables.refused(summary):
        found.append(_text(f"{what} are refused: {why}.", 13, LIGHT.muted, after=4))
    found.append(_text(tables.brackets(summary), 13, LIGHT.muted, after=GAP * 1.4))
    if summary.published:
        found.append(_text("Beside what was published", 20, LIGHT.ink, bold=True, after=8))
        found.append(_text(summary.published_source or "", 13, LIGHT.muted, after=8))
        svg, height = draw_table(tables.published(summary), INNER)
        found.append(Block(svg, height + GAP * 1.4))
    return found


def _drawings(summary: Summary) -> list[Block]:
    if not summary.drawings:
        return []
    blocks = [_text("Set-up", 20, LIGHT.ink, bold=True, after=6)]
    for found in summary.drawings:
        drawn = draw(found, LIGHT)
        scale = min(1.0, INNER / drawn.width)
        body = f'<g transform="scale({scale:.4f})">{drawn.body}</g>'
        blocks += [
            _text(found.arm, 14, LIGHT.muted, bold=True, after=6),
            Block(body, drawn.height * scale + GAP),
        ]
    return blocks


def _gaps(summary: Summary) -> list[Block]:
    if not summary.not_measured:
        return []
    lines = [
        _text(f"{gap.what}: {gap.why}", 13, LIGHT.muted, after=4) for gap in summary.not_measured
    ]
    return [_text("What was not measured", 20, LIGHT.ink, bold=True, after=6), *lines]

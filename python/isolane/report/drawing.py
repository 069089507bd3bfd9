"""The set-up as a drawing: boxes in boxes, wires with arrows, a colour for each core."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from textwrap import wrap

from isolane.analysis import wording
from isolane.report.placing import Box, Placed, cores_of, heading_of, lay_out
from isolane.report.theme import Colours
from isolane.report.wiring import simplify
from isolane.results.results import Drawing, Edge, Node

MIN_LEGEND, LEGEND_LETTER = 300.0, 7.4
"""Minimum width of a line of the legend, and of one of its letters, pixels."""


@dataclass(frozen=True)
class Drawn:
    """A finished drawing: what is inside its ``<svg>``, its size, and what it shows in words."""

    body: str
    width: float
    height: float
    words: str


def draw(drawing: Drawing, colours: Colours, *, down: bool = False) -> Drawn:
    """Draw one arm's test bed, generator left, receiver right, the DUT with its routers between.

    Parameters
    ----------
    drawing
        Nodes and wires. Text in it is escaped.
    colours
        Of the page, or references to its CSS variables.
    down
        Turned for a narrow screen: generator on top, receiver at the bottom.
    """
    whole, drawing = drawing, simplify(drawing)
    placed = lay_out(drawing, down=down)
    boxes = placed.boxes
    cores = sorted({core for node in drawing.nodes for core in node.cores})
    tints = {core: colours.series[i % len(colours.series)] for i, core in enumerate(cores)}
    containers = {node.inside for node in drawing.nodes}
    arrow = f"arrow-{hash_of(drawing.arm)}{'-down' if down else ''}"
    parts = [_marker(arrow, colours)]
    parts += [
        _container(boxes[n.id], colours) for n in drawing.nodes if n.id in containers & boxes.keys()
    ]
    parts += [
        _wire(edge, placed, colours, arrow, down=down)
        for edge in drawing.edges
        if edge in placed.lanes
    ]
    parts += [
        _heading(n, boxes[n.id], colours)
        for n in drawing.nodes
        if n.id in containers & boxes.keys()
    ]
    parts += [_box(n, boxes[n.id], colours, tints) for n in drawing.nodes if n.id not in containers]
    width = max((box.x + box.width for box in boxes.values()), default=0.0) + 1
    height = max((box.y + box.height for box in boxes.values()), default=0) + 1
    legend, extra = _legend(drawing, tints, colours, (width, height))
    return Drawn("".join(parts) + legend, max(width, MIN_LEGEND), height + extra, _words(whole))


def hash_of(text: str) -> int:
    """Return a number for an XML id that is the same in every process, unlike ``hash``."""
    return zlib.crc32(text.encode())


def _text(x: float, y: float, text: str, colour: str, *, size: int = 13, extra: str = "") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}"{extra}>'
        f"{escape(text)}</text>"
    )


def _marker(name: str, colours: Colours) -> str:
    return (
        f'<defs><marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        f'markerHeight="8" orient="auto"><path d="M0,0.5 L8,4 L0,7.5 z" '
        f'fill="{colours.muted}"/></marker></defs>'
    )


def _container(box: Box, colours: Colours) -> str:
    return (
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="10" fill="{colours.soft}" stroke="{colours.line}"/>'
    )


def _heading(node: Node, box: Box, colours: Colours) -> str:
    return _text(box.x + 14, box.y + 21, heading_of(node), colours.muted, extra=_halo(colours.soft))


def _box(node: Node, box: Box, colours: Colours, tints: Mapping[int, str]) -> str:
    tint = tints[node.cores[0]] if node.cores else colours.muted
    dashed = ' stroke-dasharray="4 3"' if node.part == "device" else ""
    middle = box.y + box.height / 2
    label = _text(
        box.x + 16,
        middle - 3 if node.cores else middle + 4,
        node.label,
        colours.ink,
        extra=' font-weight="600"',
    )
    cores = _text(box.x + 16, middle + 14, cores_of(node.cores), colours.muted, size=12)
    return (
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="6" fill="{colours.card}" stroke="{colours.muted}"{dashed}/>'
        f'<rect x="{box.x + 5:.1f}" y="{box.y + 8:.1f}" width="4" '
        f'height="{box.height - 16:.1f}" rx="2" fill="{tint}"/>'
        + label
        + (cores if node.cores else "")
    )


def _wire(edge: Edge, placed: Placed, colours: Colours, arrow: str, *, down: bool) -> str:
    source, target = placed.boxes[edge.source], placed.boxes[edge.target]
    start = at = source.ends(down=down)[1]
    steps = [f"M{at[0]:.1f},{at[1]:.1f}"]
    for lane in placed.lanes[edge]:
        enter, leave = lane.ends(down=down)
        steps += [_bend(at, enter, down=down), f"L{leave[0]:.1f},{leave[1]:.1f}"]
        at = leave
    x, y = target.ends(down=down)[0]
    end = (x, y - 2) if down else (x - 2, y)
    steps.append(_bend(at, end, down=down))
    path = (
        f'<path d="{" ".join(steps)}" fill="none" stroke="{colours.muted}" stroke-width="1.5" '
        f'marker-end="url(#{arrow})"/>'
    )
    if not edge.label:
        return path
    halo = f' text-anchor="middle"{_halo(colours.card)}'
    first = [*placed.lanes[edge], target][0].ends(down=down)[0]
    middle = (start[0] + first[0]) / 2, (start[1] + first[1]) / 2 + (4 if down else -5)
    return path + _text(*middle, edge.label, colours.muted, size=11, extra=halo)


def _halo(colour: str) -> str:
    """Return a background that keeps a text readable where a wire runs behind it."""
    return f' paint-order="stroke" stroke="{colour}" stroke-width="4" stroke-linejoin="round"'


def _bend(start: tuple[float, float], end: tuple[float, float], *, down: bool) -> str:
    (x1, y1), (x2, y2) = start, end
    if down:
        bend = (y2 - y1) / 2
        return f"C{x1:.1f},{y1 + bend:.1f} {x2:.1f},{y2 - bend:.1f} {x2:.1f},{y2:.1f}"
    bend = (x2 - x1) / 2
    return f"C{x1 + bend:.1f},{y1:.1f} {x2 - bend:.1f},{y2:.1f} {x2:.1f},{y2:.1f}"


def _legend(
    drawing: Drawing, tints: Mapping[int, str], colours: Colours, size: tuple[float, float]
) -> tuple[str, float]:
    """Write for each core its colour and whose work it does, below a drawing of this size."""
    parts, y = [], size[1] + 14
    letters = round(max(size[0], MIN_LEGEND) / LEGEND_LETTER)
    for core, tint in tints.items():
        names = [node.label for node in drawing.nodes if core in node.cores]
        parts.append(f'<rect x="1" y="{y:.1f}" width="12" height="12" rx="2" fill="{tint}"/>')
        for line in wrap(f"core {core}: {', '.join(names)}", letters):
            parts.append(_text(20, y + 10.5, line, colours.ink, size=12))
            y += 17
        y += 3
    return "".join(parts), y - size[1]


def _words(drawing: Drawing) -> str:
    names = {node.id: node.label for node in drawing.nodes}
    wires = [
        f"{names.get(edge.source, edge.source)} to {names.get(edge.target, edge.target)}"
        for edge in drawing.edges
    ]
    return f"Set-up of arm {drawing.arm}. Wires: {wording.listing(wires)}."

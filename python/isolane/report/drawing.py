"""The set-up as a drawing: boxes in boxes, wires with arrows, a colour for each core."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from isolane.report.placing import Box, Placed, cores_of, heading_of, place
from isolane.report.theme import Colours
from isolane.report.wiring import simplify
from isolane.run import wording
from isolane.run.results import Drawing, Edge, Node


@dataclass(frozen=True)
class Drawn:
    """A finished drawing: what is inside its ``<svg>``, its size, and what it shows in words."""

    body: str
    width: float
    height: float
    words: str


def draw(drawing: Drawing, colours: Colours) -> Drawn:
    """Draw one arm's test bed, generator left, receiver right, the DUT with its routers between.

    Parameters
    ----------
    drawing
        Nodes and wires. Text in it is escaped.
    colours
        Of the page, or references to its CSS variables.
    """
    whole, drawing = drawing, simplify(drawing)
    placed = place(drawing)
    boxes = placed.boxes
    cores = sorted({core for node in drawing.nodes for core in node.cores})
    tints = {core: colours.series[i % len(colours.series)] for i, core in enumerate(cores)}
    containers = {node.inside for node in drawing.nodes}
    arrow = f"arrow-{hash_of(drawing.arm)}"
    parts = [_marker(arrow, colours)]
    parts += [
        _container(n, boxes[n.id], colours)
        for n in drawing.nodes
        if n.id in containers & boxes.keys()
    ]
    parts += [_wire(edge, placed, colours, arrow) for edge in drawing.edges if edge in placed.lanes]
    parts += [_box(n, boxes[n.id], colours, tints) for n in drawing.nodes if n.id not in containers]
    width = max((box.x + box.width for box in boxes.values()), default=0) + 1
    height = max((box.y + box.height for box in boxes.values()), default=0) + 1
    legend, extra = _legend(drawing, tints, colours, height)
    return Drawn("".join(parts) + legend, width, height + extra, _words(whole))


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


def _container(node: Node, box: Box, colours: Colours) -> str:
    return (
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="10" fill="{colours.soft}" stroke="{colours.line}"/>'
        + _text(box.x + 14, box.y + 21, heading_of(node), colours.muted)
    )


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


def _wire(edge: Edge, placed: Placed, colours: Colours, arrow: str) -> str:
    source, target = placed.boxes[edge.source], placed.boxes[edge.target]
    x1, y1 = x, y = source.x + source.width, source.y + source.height / 2
    steps = [f"M{x:.1f},{y:.1f}"]
    for lane in placed.lanes[edge]:
        steps.append(_bend(x, y, lane.x, lane.y + lane.height / 2))
        x, y = lane.x + lane.width, lane.y + lane.height / 2
        steps.append(f"L{x:.1f},{y:.1f}")
    steps.append(_bend(x, y, target.x - 2, target.y + target.height / 2))
    path = (
        f'<path d="{" ".join(steps)}" fill="none" stroke="{colours.muted}" stroke-width="1.5" '
        f'marker-end="url(#{arrow})"/>'
    )
    if not edge.label:
        return path
    halo = (
        f' text-anchor="middle" paint-order="stroke" stroke="{colours.card}" stroke-width="4" '
        'stroke-linejoin="round"'
    )
    first = [*placed.lanes[edge], target][0]
    middle, height = (x1 + first.x) / 2, (y1 + first.y + first.height / 2) / 2 - 5
    return path + _text(middle, height, edge.label, colours.muted, size=11, extra=halo)


def _bend(x1: float, y1: float, x2: float, y2: float) -> str:
    bend = (x2 - x1) / 2
    return f"C{x1 + bend:.1f},{y1:.1f} {x2 - bend:.1f},{y2:.1f} {x2:.1f},{y2:.1f}"


def _legend(
    drawing: Drawing, tints: Mapping[int, str], colours: Colours, top: float
) -> tuple[str, float]:
    """One line for each core: its colour and whose work it does."""
    lines = []
    for row, (core, tint) in enumerate(tints.items()):
        y = top + 14 + row * 20
        names = [node.label for node in drawing.nodes if core in node.cores]
        lines.append(
            f'<rect x="1" y="{y:.1f}" width="12" height="12" rx="2" fill="{tint}"/>'
            + _text(20, y + 10.5, f"core {core}: {', '.join(names)}", colours.ink, size=12)
        )
    return "".join(lines), 14 + 20.0 * len(lines)


def _words(drawing: Drawing) -> str:
    names = {node.id: node.label for node in drawing.nodes}
    wires = [
        f"{names.get(edge.source, edge.source)} to {names.get(edge.target, edge.target)}"
        for edge in drawing.edges
    ]
    return f"Set-up of arm {drawing.arm}. Wires: {wording.listing(wires)}."

"""The set-up as a drawing: boxes in boxes, wires with arrows, a colour for each core."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from isolane.report.theme import Colours
from isolane.report.wiring import simplify
from isolane.run import wording
from isolane.run.results import Drawing, Edge, Node

BOX_HEIGHT = 50.0
ROW_GAP = 14.0
PADDING = 20.0
HEADER = 30.0
LEAST_WIDTH, LEAST_GAP = 96.0, 84.0
LETTER = 7.2
"""Width of an average letter at 13 pixels: what room a label is given."""


@dataclass(frozen=True)
class Box:
    """Where a node stands, pixels."""

    x: float
    y: float
    width: float
    height: float

    def widened(self, least: float) -> Box:
        """Return the box at least so wide, its middle where it was."""
        more = max(0.0, least - self.width)
        return Box(self.x - more / 2, self.y, self.width + more, self.height)


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
    boxes = _layout(drawing)
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
    parts += [_wire(edge, boxes, colours, arrow) for edge in drawing.edges if _known(edge, boxes)]
    parts += [_box(n, boxes[n.id], colours, tints) for n in drawing.nodes if n.id not in containers]
    width = max((box.x + box.width for box in boxes.values()), default=0) + 1
    height = max((box.y + box.height for box in boxes.values()), default=0) + 1
    legend, extra = _legend(drawing, tints, colours, height)
    return Drawn("".join(parts) + legend, width, height + extra, _words(whole))


def hash_of(text: str) -> int:
    """Return a number for an XML id that is the same in every process, unlike ``hash``."""
    return zlib.crc32(text.encode())


def _known(edge: Edge, boxes: Mapping[str, Box]) -> bool:
    return edge.source in boxes and edge.target in boxes


def _columns(drawing: Drawing, leaves: Sequence[Node]) -> dict[str, int]:
    """Longest path from a source; a box with others inside stands for all of them."""
    members = {node.id: [node.id] for node in leaves}
    for node in drawing.nodes:
        members.setdefault(node.id, [leaf.id for leaf in leaves if leaf.inside == node.id])
    pairs = [
        (source, target)
        for edge in drawing.edges
        for source in members.get(edge.source, [])
        for target in members.get(edge.target, [])
    ]
    column = {node.id: 0 for node in leaves}
    for _ in leaves:  # a path has at most as many steps; a circle ends here too
        for source, target in pairs:
            column[target] = min(max(column[target], column[source] + 1), len(leaves))
    last = max(column.values(), default=0)
    for node in leaves:
        if node.part == "receiver":
            column[node.id] = last
        elif node.part == "generator":
            column[node.id] = 0
    used = sorted(set(column.values()))
    return {name: used.index(number) for name, number in column.items()}


def _layout(drawing: Drawing) -> dict[str, Box]:
    containers = {node.inside for node in drawing.nodes if node.inside}
    leaves = [node for node in drawing.nodes if node.id not in containers]
    column = _columns(drawing, leaves)
    heading = max((len(_heading(n)) for n in drawing.nodes if n.id in containers), default=0)
    stacks = [[n for n in leaves if column[n.id] == i] for i in range(len(set(column.values())))]
    tallest = max((len(stack) for stack in stacks), default=0)
    middle = HEADER + PADDING + (tallest * (BOX_HEIGHT + ROW_GAP) - ROW_GAP) / 2
    boxes: dict[str, Box] = {}
    x = 1.0
    for index, stack in enumerate(stacks):
        width = max([LEAST_WIDTH, *(_width(node) for node in stack)])
        if any(n.inside for n in stack) and len({column[n.id] for n in leaves if n.inside}) == 1:
            width = max(width, heading * LETTER - 12)  # a DUT of one column holds its own heading
        top = middle - (len(stack) * (BOX_HEIGHT + ROW_GAP) - ROW_GAP) / 2
        for row, node in enumerate(stack):
            boxes[node.id] = Box(x, top + row * (BOX_HEIGHT + ROW_GAP), width, BOX_HEIGHT)
        labels = [e.label for e in drawing.edges if column.get(e.source) == index]
        longest = max((len(label) for label in labels), default=0)
        x += width + max(LEAST_GAP, longest * LETTER * 0.85 + 2 * PADDING + 14)
    for node in reversed([n for n in drawing.nodes if n.id in containers]):  # the inner ones first
        inside = [boxes[n.id] for n in drawing.nodes if n.inside == node.id and n.id in boxes]
        if inside:
            boxes[node.id] = _around(inside, len(_heading(node)) * LETTER + 28)
    return boxes


def _width(node: Node) -> float:
    return max(len(node.label), len(_cores(node.cores))) * LETTER + 26


def _around(boxes: Sequence[Box], least: float) -> Box:
    left, top = min(b.x for b in boxes) - PADDING, min(b.y for b in boxes) - HEADER - PADDING / 2
    right = max(b.x + b.width for b in boxes) + PADDING
    bottom = max(b.y + b.height for b in boxes) + PADDING
    return Box(left, top, right - left, bottom - top).widened(least)


def _heading(node: Node) -> str:
    return f"{node.label} · {_cores(node.cores)}" if node.cores else node.label


def _cores(cores: Sequence[int]) -> str:
    if not cores:
        return ""
    return f"core{'s' if len(cores) > 1 else ''} {', '.join(str(core) for core in cores)}"


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
        + _text(box.x + 14, box.y + 21, _heading(node), colours.muted)
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
    cores = _text(box.x + 16, middle + 14, _cores(node.cores), colours.muted, size=12)
    return (
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="6" fill="{colours.card}" stroke="{colours.muted}"{dashed}/>'
        f'<rect x="{box.x + 5:.1f}" y="{box.y + 8:.1f}" width="4" '
        f'height="{box.height - 16:.1f}" rx="2" fill="{tint}"/>'
        + label
        + (cores if node.cores else "")
    )


def _wire(edge: Edge, boxes: Mapping[str, Box], colours: Colours, arrow: str) -> str:
    source, target = boxes[edge.source], boxes[edge.target]
    x1, y1 = source.x + source.width, source.y + source.height / 2
    x2, y2 = target.x - 2, target.y + target.height / 2
    bend = (x2 - x1) / 2
    path = (
        f'<path d="M{x1:.1f},{y1:.1f} C{x1 + bend:.1f},{y1:.1f} {x2 - bend:.1f},{y2:.1f} '
        f'{x2:.1f},{y2:.1f}" fill="none" stroke="{colours.muted}" stroke-width="1.5" '
        f'marker-end="url(#{arrow})"/>'
    )
    if not edge.label:
        return path
    halo = (
        f' text-anchor="middle" paint-order="stroke" stroke="{colours.card}" stroke-width="4" '
        'stroke-linejoin="round"'
    )
    middle, height = (x1 + x2) / 2, (y1 + y2) / 2 - 5
    return path + _text(middle, height, edge.label, colours.muted, size=11, extra=halo)


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

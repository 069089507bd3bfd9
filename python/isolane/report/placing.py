"""The positions of a drawing's boxes, and the course of the wires between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from isolane.results.results import Drawing, Edge, Node

BOX_HEIGHT = 50.0
ROW_GAP = 14.0
LANE_HEIGHT = 12.0
"""Space for a wire that passes a column without ending there."""
PADDING = 20.0
HEADER = 30.0
MIN_WIDTH, MIN_GAP = 96.0, 84.0
DOWN_GAP = 70.0
"""Between two rows where frames run downwards: space for a label."""
LETTER = 7.2
"""Width of an average letter at 13 pixels: how much space a label is given."""
BOLD_LETTER = 8.2


@dataclass(frozen=True)
class Box:
    """Where a node stands, pixels."""

    x: float
    y: float
    width: float
    height: float

    def widened(self, min_width: float) -> Box:
        """Return the box widened to at least `min_width`, with its middle unchanged."""
        more = max(0.0, min_width - self.width)
        return Box(self.x - more / 2, self.y, self.width + more, self.height)

    def moved(self, right: float) -> Box:
        """Return the box moved to the right."""
        return Box(self.x + right, self.y, self.width, self.height)

    def ends(self, *, down: bool) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return the points at which a wire enters and leaves."""
        if down:
            x = self.x + self.width / 2
            return (x, self.y), (x, self.y + self.height)
        y = self.y + self.height / 2
        return (self.x, y), (self.x + self.width, y)


@dataclass(frozen=True)
class Placed:
    """A drawing with the position of each box.

    Parameters
    ----------
    boxes
        Id of a node -> its box.
    lanes
        Wire -> boxes that it passes through on its way, one in each column between its ends.
    """

    boxes: dict[str, Box]
    lanes: dict[Edge, list[Box]]


def lay_out(drawing: Drawing, *, down: bool = False) -> Placed:
    """Put the generator left, receiver right, and the DUT's boxes in columns between them.

    Parameters
    ----------
    down
        Turned for a narrow screen: generator on top, receiver at the bottom.
    """
    containers = {node.inside for node in drawing.nodes if node.inside}
    leaves = [node for node in drawing.nodes if node.id not in containers]
    column = _columns(drawing, leaves)
    lanes = _lanes(drawing.edges, column)
    stacks = _stacks(leaves, column, drawing.edges, lanes)
    nodes = {node.id: node for node in leaves}
    found = _in_rows(stacks, nodes) if down else _in_columns(drawing, stacks, nodes, column)
    boxes = {name: found[name] for name in nodes}
    _surround(drawing, containers, boxes)
    shift = 1.0 - min((box.x for box in boxes.values()), default=1.0)
    return Placed(
        {name: box.moved(shift) for name, box in boxes.items()},
        {edge: [found[name].moved(shift) for name in names] for edge, names in lanes.items()},
    )


def _in_columns(
    drawing: Drawing,
    stacks: Sequence[Sequence[str]],
    nodes: Mapping[str, Node],
    column: Mapping[str, int],
) -> dict[str, Box]:
    containers = [node for node in drawing.nodes if node.id not in nodes]
    heading = max((len(heading_of(node)) for node in containers), default=0)
    narrow = len({column[name] for name, node in nodes.items() if node.inside}) == 1
    middle = HEADER + PADDING + max((_height(stack, nodes) for stack in stacks), default=0.0) / 2
    found: dict[str, Box] = {}
    x = 1.0
    for index, stack in enumerate(stacks):
        here = [nodes[name] for name in stack if name in nodes]
        width = max([MIN_WIDTH, *(_width(node) for node in here)])
        if narrow and any(node.inside for node in here):
            width = max(width, heading * LETTER - 12)  # a DUT of one column holds its own heading
        y = middle - _height(stack, nodes) / 2
        for name in stack:
            height = BOX_HEIGHT if name in nodes else LANE_HEIGHT
            found[name] = Box(x, y, width, height)
            y += height + ROW_GAP
        labels = [edge.label for edge in drawing.edges if column.get(edge.source) == index]
        longest = max((len(label) for label in labels), default=0)
        x += width + max(MIN_GAP, longest * LETTER * 0.85 + 2 * PADDING + 14)
    return found


def _in_rows(stacks: Sequence[Sequence[str]], nodes: Mapping[str, Node]) -> dict[str, Box]:
    found: dict[str, Box] = {}
    y = 1.0
    for stack in stacks:
        widths = [_width(nodes[name]) if name in nodes else LANE_HEIGHT for name in stack]
        x = -(sum(widths) + ROW_GAP * (len(widths) - 1)) / 2
        for name, width in zip(stack, widths, strict=True):
            found[name] = Box(x, y, width, BOX_HEIGHT)
            x += width + ROW_GAP
        heading = HEADER if any(n in nodes and nodes[n].part == "generator" for n in stack) else 0
        y += BOX_HEIGHT + DOWN_GAP + heading
    return found


def _columns(drawing: Drawing, leaves: Sequence[Node]) -> dict[str, int]:
    """Longest path from a source, with the generator and the receiver in columns of their own.

    A box with others inside stands for all of them. Routers stand in one column, whatever their
    paths have in front of them.
    """
    members = {node.id: [node.id] for node in leaves}
    for node in drawing.nodes:
        members.setdefault(node.id, [leaf.id for leaf in leaves if leaf.inside == node.id])
    pairs = [
        (source, target)
        for edge in drawing.edges
        for source in members.get(edge.source, [])
        for target in members.get(edge.target, [])
    ]
    routers = [node.id for node in leaves if node.part == "router"]
    column = {node.id: int(node.part != "generator") for node in leaves}
    for _ in leaves:  # a path has at most as many steps; a circle ends here too
        for source, target in pairs:
            column[target] = min(max(column[target], column[source] + 1), len(leaves))
        aligned = max((column[router] for router in routers), default=0)
        column.update(dict.fromkeys(routers, aligned))
    ends = {node.id for node in leaves if node.part in ("generator", "receiver")}
    last = max((number for name, number in column.items() if name not in ends), default=0) + 1
    for node in leaves:
        if node.id in ends:
            column[node.id] = 0 if node.part == "generator" else last
    used = sorted(set(column.values()))
    return {name: used.index(number) for name, number in column.items()}


def _lanes(edges: Sequence[Edge], column: Mapping[str, int]) -> dict[Edge, list[str]]:
    """Return a box in each column that a wire passes, so that it crosses no box there."""
    return {
        edge: [
            f"{edge.source} {edge.target} {number}"
            for number in range(column[edge.source] + 1, column[edge.target])
        ]
        for edge in edges
        if edge.source in column and edge.target in column
    }


def _stacks(
    leaves: Sequence[Node],
    column: Mapping[str, int],
    edges: Sequence[Edge],
    lanes: Mapping[Edge, Sequence[str]],
) -> list[list[str]]:
    """Put the boxes and lanes of each column into an order in which few wires cross."""
    stacks: list[list[str]] = [[] for _ in range(len(set(column.values())))]
    for node in leaves:
        stacks[column[node.id]].append(node.id)
    before: dict[str, list[str]] = {}
    for edge in edges:
        if edge not in lanes:
            continue
        boxes = [edge.source, *lanes[edge], edge.target]
        for source, target in pairwise(boxes):
            before.setdefault(target, []).append(source)
        for number, name in enumerate(lanes[edge], start=column[edge.source] + 1):
            stacks[number].append(name)
    height: dict[str, float] = {}
    for stack in stacks:
        stack.sort(key=lambda name: _mean([height.get(one, 0.0) for one in before.get(name, [])]))
        for row, name in enumerate(stack):
            height[name] = (row + 0.5) / len(stack)
    return stacks


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.5


def _height(stack: Sequence[str], nodes: Mapping[str, Node]) -> float:
    rows = [BOX_HEIGHT if name in nodes else LANE_HEIGHT for name in stack]
    return sum(rows) + ROW_GAP * (len(rows) - 1)


def _surround(drawing: Drawing, containers: set[str], boxes: dict[str, Box]) -> None:
    """Add the boxes that others stand in, the inner ones first."""
    for node in reversed([n for n in drawing.nodes if n.id in containers]):
        inside = [boxes[n.id] for n in drawing.nodes if n.inside == node.id and n.id in boxes]
        if inside:
            boxes[node.id] = _around(inside, len(heading_of(node)) * LETTER + 28)


def _around(boxes: Sequence[Box], min_width: float) -> Box:
    left, top = min(b.x for b in boxes) - PADDING, min(b.y for b in boxes) - HEADER - PADDING / 2
    right = max(b.x + b.width for b in boxes) + PADDING
    bottom = max(b.y + b.height for b in boxes) + PADDING
    return Box(left, top, right - left, bottom - top).widened(min_width)


def _width(node: Node) -> float:
    return max(len(node.label) * BOLD_LETTER, len(cores_of(node.cores)) * LETTER) + 28


def heading_of(node: Node) -> str:
    """Return the heading of a box that contains others."""
    return f"{node.label} · {cores_of(node.cores)}" if node.cores else node.label


def cores_of(cores: Sequence[int]) -> str:
    """Name cores in words; an empty text for no cores."""
    if not cores:
        return ""
    return f"core{'s' if len(cores) > 1 else ''} {', '.join(str(core) for core in cores)}"

"""A simplified test bed for the drawing: what is wired to what, and which core does what."""

from __future__ import annotations

from collections.abc import Mapping

from isolane.results.results import Drawing, Edge, Node

_TELLING = ("wire", "macvlan", "bridge", "redirect", "veth")
"""Labels in order of preference, for wires that are merged into one."""


def simplify(drawing: Drawing) -> Drawing:
    """Leave out the ends of wires.

    Devices inside the generator, the receiver and the routers become part of their box. Of the
    devices in between, those stay that join several wires or that a core is named for.
    """
    nodes = {node.id: node for node in drawing.nodes}
    home = {node.id: _home(node, nodes) for node in drawing.nodes}
    edges = _moved(drawing.edges, home)
    kept = [node for node in drawing.nodes if home[node.id] == node.id]
    for node in kept:
        if node.part == "device" and not node.cores:
            edges = _without(node.id, edges)
    used = {end for edge in edges for end in (edge.source, edge.target)}
    inside = {node.inside for node in kept}
    shown = [node for node in kept if node.part != "device" or node.id in used | inside]
    return Drawing(arm=drawing.arm, nodes=tuple(shown), edges=tuple(edges))


def _home(node: Node, nodes: Mapping[str, Node]) -> str:
    """Return the box that a node is drawn as: its own, or the outermost one that contains it."""
    found, outer = node.id, nodes.get(node.inside or "")
    for _ in nodes:  # this ends even for a box that is, by mistake, inside itself
        if outer is None:
            break
        if outer.part != "dut":
            found = outer.id
        outer = nodes.get(outer.inside or "")
    return found


def _moved(edges: tuple[Edge, ...], home: Mapping[str, str]) -> list[Edge]:
    moved: dict[tuple[str, str], Edge] = {}
    for edge in edges:
        ends = home.get(edge.source), home.get(edge.target)
        if ends[0] and ends[1] and ends[0] != ends[1]:
            new = Edge(source=ends[0], target=ends[1], label=edge.label)
            moved.setdefault((ends[0], ends[1]), new)
    return list(moved.values())


def _without(node: str, edges: list[Edge]) -> list[Edge]:
    """Take out a node with one wire in and one out; any other stays."""
    before = [edge for edge in edges if edge.target == node]
    after = [edge for edge in edges if edge.source == node]
    if len(before) != 1 or len(after) != 1 or before[0].source == after[0].target:
        return edges
    labels = [before[0].label, after[0].label]
    label = next((word for word in _TELLING if word in labels), labels[0])
    joined = Edge(source=before[0].source, target=after[0].target, label=label)
    return [joined if edge is before[0] else edge for edge in edges if edge is not after[0]]

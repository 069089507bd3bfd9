"""The set-up of an arm as boxes and wires, a part of the result format."""

from __future__ import annotations

from typing import Literal

from isolane.stored_model import StoredModel


class Node(StoredModel):
    """A box of the set-up drawing."""

    id: str
    label: str
    part: Literal["generator", "receiver", "dut", "router", "device"]
    inside: str | None
    """Id of the box that this one stands in."""
    cores: tuple[int, ...]


class Edge(StoredModel):
    """A wire of the set-up drawing, in the direction of the frames."""

    source: str
    target: str
    label: str


class Drawing(StoredModel):
    """The set-up of one arm: wires, and which core does what."""

    arm: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

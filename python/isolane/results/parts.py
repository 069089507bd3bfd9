"""How long frames take on each part of their way: the result format, and what is made of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from isolane.results.interval import Interval
from isolane.stored_model import StoredModel

WHOLE: Final = "whole"
"""Not a part: from the first capture point to the last, which is the response time of a router that
answers."""
LAST: Final = "receiver"
"""The part after the last capture point."""
PART_WORDS: Final = {
    "nic-in": "generator to NIC",
    "port-in": "NIC to bridge port",
    "router-in": "to the router",
    "router-out": "in the router",
    "port-out": "router to host",
    "nic-out": "to the NIC, out",
    LAST: "NIC to receiver",
}
"""Each part by the point that it ends at, in the order of a frame's way."""


class PartTime(StoredModel):
    """Times of one part of the way, of one router's frames of the window, ns."""

    part: str
    """The capture point that it ends at, ``receiver`` for the last, or ``whole``."""
    frames: int
    """Frames that were stamped at both of its ends."""
    mean_ns: float
    p50_ns: float | None = None
    """None for the last part, of which only the mean is known: what is left of the whole delay."""
    p99_ns: float | None = None
    max_ns: float | None = None


class PartCell(StoredModel):
    """The same over the repeats."""

    part: str
    frames: float
    """Mean per trial."""
    mean_ns: Interval
    p50_ns: Interval | None = None
    p99_ns: Interval | None = None
    max_ns: float | None = None


def with_last(parts: Sequence[PartTime], arrived: int, mean_ns: float) -> tuple[PartTime, ...]:
    """Return the parts and what is left of the mean delay of the frames that arrived."""
    known = sum(part.mean_ns for part in parts if part.part != WHOLE)
    return (*parts, PartTime(part=LAST, frames=arrived, mean_ns=mean_ns - known))

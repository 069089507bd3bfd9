"""The result format of all routers of a point together."""

from __future__ import annotations

from isolane.results.interval import Interval
from isolane.stored_model import StoredModel


class Aggregate(StoredModel):
    """All routers of one point in one arm together, over the repeats."""

    arm: str
    point: int
    point_label: str
    routers: int
    working: int = 0
    """Aggressors that worked besides."""
    offered_pps: Interval
    throughput_pps: Interval
    throughput_x: Interval | None

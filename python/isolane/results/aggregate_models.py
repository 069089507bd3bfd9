"""The result format of all routers of a point together."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from isolane.results.interval import Interval


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")


class Aggregate(_Model):
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

"""What the generator can send on this host, and the points that this moves: part of a summary."""

from __future__ import annotations

from isolane.stored_model import StoredModel


class GeneratorMaximum(StoredModel):
    """The highest sum of all routers' loads that the generator can send."""

    by_arm: dict[str, float]
    """By arm, frames/s; no more than the experiment asks for."""


class MovedPoint(StoredModel):
    """A point that lies below what the experiment asks for."""

    arm: str
    point: int
    point_label: str
    intended_pps: float
    """Sum of the loads that are asked for, frames/s (RFC 2285, 3.5.1)."""
    offered_pps: float
    """Sum of those that are offered."""
    aggressor_x: float | None
    """What the aggressors are offered together, in capacities; None where 1x is not known."""

"""The result format of delays: of a router's frames, of the generator, and of the wire alone."""

from __future__ import annotations

from isolane.stored_model import StoredModel

HELD_UP_NS = 100_000
"""A generator whose frames are in the median less late than this is not at its limit."""


class Delay(StoredModel):
    """One-way delay of the frames of one router in the window, ns (generator to receiver).

    Percentiles count lost frames as infinitely late; JSON writes them as ``"Infinity"``.
    """

    count: int
    """Frames that arrived."""
    mean_ns: float
    """Of those that arrived."""
    p50_ns: float
    p90_ns: float
    p99_ns: float
    p999_ns: float
    p9999_ns: float
    max_ns: float
    """The longest of those that arrived."""
    lost: int | None = None
    """Frames that never arrived; None from older versions, whose percentiles leave them out."""
    arrived_p50_ns: float | None = None
    """Median of those that arrived, which is what publications give; None from older versions."""

    @property
    def median_arrived_ns(self) -> float:
        """Median of the frames that arrived."""
        return self.p50_ns if self.arrived_p50_ns is None else self.arrived_p50_ns


class Lateness(StoredModel):
    """Actual minus scheduled departure of one router's frames in the window, ns.

    Missed frames, which the generator never sent, are infinitely late.
    """

    count: int
    """Frames that left."""
    missed: int
    p50_ns: float
    p99_ns: float
    p999_ns: float
    max_ns: float
    """Of those that left."""


class NullDut(StoredModel):
    """One router's load with no router there: the wire goes straight to the receiver.

    Its delay is the floor of every delay at this point: batches of the generator, the wire, and the
    pause of the receiver. It is shown beside them and subtracted nowhere.
    """

    point: int
    point_label: str
    router: str
    offered_pps: float
    loss_ratio: float | None
    delay: Delay | None
    due_delay: Delay | None
    lateness: Lateness | None
    reason: str | None
    """What was wrong with the trial; None when nothing was."""


class GeneratorAudit(StoredModel):
    """The generator's report on itself in the window (requested against achieved)."""

    requested_pps: float
    achieved_pps: float
    rate_error: float
    """achieved/requested - 1; 0 when nothing was requested."""
    departure_p50_ns: float | None
    departure_p99_ns: float | None
    departure_max_ns: float | None
    busy: float
    """Share of iterations that sent a frame, 0 to 1: 1 means that the core was the limit."""
    saturated: bool

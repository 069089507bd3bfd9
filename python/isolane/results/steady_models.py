"""The result format of what time series tell: is the window steady, and are frames in time?"""

from __future__ import annotations

from typing import Literal

from isolane.stored_model import StoredModel

Metric = Literal["throughput", "delay_p99"]


class WindowShift(StoredModel):
    """How far a router's whole window is from its last third: what a transient adds to the figures.

    Ratios minus 1, from the trial's time series; see docs/method.md, "Steady state".
    """

    throughput: float
    """Mean of the frames that arrived by bin."""
    delay_p99: float | None
    """Median of the bins' p99 delays; None where nothing arrived."""
    resolution: float = 0.0
    """A frame more or less at both ends of the last third shifts the throughput by so much."""


class Gaps(StoredModel):
    """Times between the arrivals of one router's frames in the window, ns, within 1.6 %."""

    count: int
    scheduled_ns: float
    """Time between two departures by the schedule."""
    tolerance_ns: float
    """A gap is as scheduled if it differs by no more: the receiver's pause and a tenth."""
    as_scheduled: float
    """Share of the gaps that are, 0 to 1."""
    p50_ns: float
    p99_ns: float
    max_ns: float


class Unsteady(StoredModel):
    """A router whose windows begin with a transient, in all repeats of a point alike."""

    arm: str
    point: int
    point_label: str
    router: str
    metric: Metric
    shift: float
    """Mean of :class:`WindowShift` over the trials."""
    p: float
    """Two-sided, of a t test that the mean shift is 0."""
    trials: int

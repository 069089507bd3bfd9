"""How good the trials of a run were: the part of its summary that judges the measuring itself."""

from __future__ import annotations

from isolane.stored_model import StoredModel, former


class CoreProbe(StoredModel):
    """How fast a DUT core was just before a trial, and how much of it was taken away."""

    core: int
    unit_ns: float
    """Median CPU time of one unit of a fixed computation, ns: a slower core needs more."""
    stalled: float
    """Part of the probe's time that was lost in stalls, 0 to 1."""
    longest_stall_ns: int
    transfer_ns: float | None = None
    """Time of a cache line's round trip between the generator's core and this one, ns; None where
    others had the cores, and from older versions."""


class LostTrials(StoredModel):
    """What became of the trials of one arm."""

    _former = former("could_change", "at_worst", "at_best")

    arm: str
    planned: int
    invalid: int
    """Invalid attempts."""
    failed: int
    lost: int
    """Planned trials that were made, and have no valid attempt."""
    reasons: dict[str, int]
    """Invalid attempts by kind of reason; an attempt may have several."""


class Drift(StoredModel):
    """How the speed of the DUT's cores drifted over a run, by the probes before its trials."""

    _former = former("normalised")

    size: float
    """Time of a unit of work at the 90th percentile of the trials over that at the 10th, less 1."""
    stalled: float
    """Mean part of the probes' time that was lost in stalls."""
    longest_stall_ns: int
    transfer_ns: tuple[float, float] | None = None
    """Time of a cache line's round trip between the generator's core and the DUT's, at the 10th and
    the 90th percentile of the trials, ns."""


class NotMeasured(StoredModel):
    """Something that a reader may expect, and why it was not measured."""

    what: str
    why: str


class Quality(StoredModel):
    """How good the trials of a run were."""

    _former = former("noise")

    threshold: float
    """The smallest difference that the run was to tell (``trial.threshold``)."""
    lost: tuple[LostTrials, ...]
    """By arm."""
    drift: Drift | None = None
    """None without probes."""

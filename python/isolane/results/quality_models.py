"""How good the trials of a run were: the part of its summary that judges the measuring itself."""

from __future__ import annotations

from typing import Literal

from isolane.stored_model import StoredModel

NoiseFigure = Literal["delivered", "throughput", "delay_p99"]


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


class NoiseFloor(StoredModel):
    """What two equal arms differ by at most in 95 % of comparisons, by the arms' twins."""

    arm: str
    point_label: str
    """Where the twins were measured."""
    figure: NoiseFigure
    """``delivered``: received of generated frames of the victims, in parts of 1; ``throughput`` and
    ``delay_p99``: in parts of the arm's median."""
    floor: float
    repeats: int
    """Rounds behind each of the medians compared."""
    pairs: int
    """Pairs of arm and twin that it rests on."""
    pooled: bool
    """Whether these are pairs of all arms together, because this arm alone has too few."""


class LostTrials(StoredModel):
    """What became of the trials of one arm, and what those that were lost could have changed."""

    arm: str
    planned: int
    invalid: int
    """Invalid attempts."""
    failed: int
    lost: int
    """Planned trials that were made, and have no valid attempt."""
    reasons: dict[str, int]
    """Invalid attempts by kind of reason; an attempt may have several."""
    could_change: bool
    """Whether the finding about this arm would be another one at worst or at best."""
    at_worst: str | None = None
    """What would be found if the victim had received nothing in every lost trial; None for an
    arm without a victim, a verdict or a lost trial."""
    at_best: str | None = None
    """The same if it had received everything."""


class Normalised(StoredModel):
    """A median throughput as measured, and at the run's median speed of the DUT's cores."""

    arm: str
    point: int
    point_label: str
    router: str
    raw_pps: float
    normalised_pps: float


class Drift(StoredModel):
    """How the speed of the DUT's cores drifted over a run, by the probes before its trials."""

    size: float
    """Time of a unit of work at the 90th percentile of the trials over that at the 10th, less 1."""
    stalled: float
    """Mean part of the probes' time that was lost in stalls."""
    longest_stall_ns: int
    transfer_ns: tuple[float, float] | None = None
    """Time of a cache line's round trip between the generator's core and the DUT's, at the 10th and
    the 90th percentile of the trials, ns."""
    normalised: tuple[Normalised, ...] = ()
    """Of routers that the DUT limited; empty where the drift is too small to matter."""


class NotMeasured(StoredModel):
    """Something that a reader may expect, and why it was not measured."""

    what: str
    why: str


class Quality(StoredModel):
    """How good the trials of a run were."""

    threshold: float
    """The smallest difference that the run was to tell (``trial.threshold``)."""
    lost: tuple[LostTrials, ...]
    """By arm."""
    noise: tuple[NoiseFloor, ...] = ()
    """By arm and figure; empty without twins, or with too few."""
    drift: Drift | None = None
    """None without probes."""

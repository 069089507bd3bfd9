"""How an experiment is measured: times, repeats, and what is looked at besides."""

from __future__ import annotations

from typing import Final

from pydantic import Field, StrictBool

from isolane.spec import fields as f
from isolane.spec.base import SpecModel

DEFAULT_THRESHOLD: Final = 0.01
"""A victim that loses less than this part of its throughput counts as isolated."""


class TrialPlan(SpecModel):
    """How long and how often each setting is measured."""

    duration_ns: f.TrialDuration = Field(default=500_000_000, alias="duration")
    """Length of the measuring window of one trial, 50ms to 1h."""
    warmup_ns: f.Warmup = Field(default=100_000_000, alias="warmup")
    """Time with load before the window, not counted, 0ms to 10min."""
    repeats: f.Repeats = 5
    """Trials of each point in each arm."""
    seed: f.Seed = 1
    """Seed of everything that is drawn at random."""
    retries: f.Retries = 2
    """How often an invalid trial is repeated in its place at most, in every arm alike; 0 to 10."""
    threshold: f.Threshold = DEFAULT_THRESHOLD
    """Smallest difference in throughput that the run is to tell, 0.1% to 50%; a trial in which
    anything but the routers took more than a fifth of it is invalid."""
    capture_points: StrictBool = False
    """Stamp the frames of all routers but aggressors at capture points, and tell how long they take
    from one to the next. Live runs only."""
    capture: StrictBool = False
    """The same, and keep the beginning of each in a file for Wireshark. Live runs only."""
    cpu_profile: f.SampleRate = 0
    """Samples of each DUT core a second, 1 to 10000, to tell what CPU time is spent on; 0: none.
    Live runs only."""
    null_dut: StrictBool = True
    """Measure each point once without a router: the floor of every delay. Live runs only."""

    @property
    def stamps(self) -> bool:
        """Whether frames are stamped at capture points."""
        return self.capture_points or self.capture

"""Divides the time of a verification among its stages, and tells how much is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from isolane.verify.scenarios import Comparison, Scenario

BUILD_S = 3.0
"""Time to build a test bed and take it down."""
BEYOND_TRIAL_S = 0.15
"""Time that a trial takes beyond warm-up and window: to begin, to drain, to read counters."""
USUAL_S = 120.0
"""Time limit if the policy does not need more."""
SPARE = 1.25
"""The time limit allows for this many times what a policy needs at least."""


@dataclass(frozen=True)
class Progress:
    """How far a verification is."""

    fraction: float
    """0 to 1; never decreases."""
    left_s: float
    """Time that it will still take, as far as one can tell."""
    label: str
    """What is measured now."""


def trial_s(scenario: Scenario, window_ns: int) -> float:
    """Return how long a trial takes, s."""
    return (scenario.warmup_ns + window_ns) / 1e9 + BEYOND_TRIAL_S


def pair_s(comparison: Comparison, window_ns: int) -> float:
    """Return how long a pair takes, s."""
    halves = (comparison.loaded, comparison.reference)
    return sum(trial_s(half, window_ns) for half in halves if half is not None)


def usual_limit_s(planned_s: Sequence[float]) -> float:
    """Return the time limit where the user gives none, s."""
    return max(USUAL_S, float(round(SPARE * sum(planned_s))))


class Pace:
    """The time that a verification has, and what of it each stage may use.

    Parameters
    ----------
    planned_s
        Time that each stage needs at least, if all goes well, s.
    limit_s
        Time limit of the whole, s.
    clock
        Seconds since whenever.
    """

    def __init__(
        self,
        planned_s: Sequence[float],
        limit_s: float,
        watch: Callable[[Progress], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._planned_s = list(planned_s)
        self._clock = clock
        self._watch = watch
        self._began = clock()
        self._end = self._began + limit_s
        self._stage_end = self._end
        self._stage_s, self._stage_began = 0.0, self._began
        self._fraction = 0.0

    def begin_stage(self) -> None:
        """Begin the next stage: it may use its part of the time that is left."""
        now, planned = self._clock(), sum(self._planned_s)
        self._stage_s = self._planned_s.pop(0)
        self._stage_began = now
        part = self._stage_s / planned if planned else 1.0
        self._stage_end = now + max(0.0, self._end - now) * part

    def is_over(self) -> bool:
        """Tell whether the stage has used its time."""
        return self._clock() >= self._stage_end

    def took_s(self) -> float:
        """Return the time since the verification began, s."""
        return self._clock() - self._began

    def tell(self, label: str, stage_left_s: float | None = None) -> None:
        """Tell what is measured now.

        Parameters
        ----------
        stage_left_s
            Time that the stage still needs at least, s; None: as was planned.
        """
        now = self._clock()
        if stage_left_s is None:
            stage_left_s = max(0.0, self._stage_s - (now - self._stage_began))
        stage = min(stage_left_s, max(0.0, self._stage_end - now))
        left = min(stage + sum(self._planned_s), max(0.0, self._end - now))
        took = now - self._began
        whole = took + left
        self._fraction = max(self._fraction, took / whole if whole > 0 else 0.0)
        self._watch(Progress(self._fraction, left, label))

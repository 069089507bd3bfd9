"""Attempts at trials: invalid ones are repeated in their place, in every arm alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from isolane.run.results import Trial
from isolane.run.schedule import Key

OF_A_ROUND = 0.5
"""In each round an arm may repeat trials at so many of its points (rounded up) at most, so that a
host that is never quiet cannot make a run much longer."""


@dataclass
class Attempts:
    """Counts the attempts at each trial of a run.

    Parameters
    ----------
    retries
        How often one trial is repeated at most.
    points
        Points of an arm.
    """

    retries: int
    points: int
    _valid: set[Key] = field(default_factory=set)
    _invalid: Counter[Key] = field(default_factory=Counter)
    _extra: Counter[tuple[str, str, int]] = field(default_factory=Counter)

    def add(self, trials: Iterable[Trial]) -> None:
        """Count trials that were made; failed ones count as not made."""
        for trial in trials:
            key = key_of(trial)
            if trial.status == "ok":
                self._valid.add(key)
            if trial.status == "no-verdict":
                self._invalid[key] += 1
            if trial.status != "failed" and trial.attempt:
                self._extra[trial.purpose, trial.arm, trial.repeat] += 1

    def made(self, key: Key) -> int:
        """Return how many attempts at a trial were invalid."""
        return self._invalid[key]

    def open(self, key: Key) -> bool:
        """Tell whether a trial is still to be tried: for the first time, or once more."""
        if key in self._valid:
            return False
        made = self._invalid[key]
        purpose, arm, _, repeat = key
        max_extra = -(-self.points * OF_A_ROUND // 1)
        return made == 0 or (made <= self.retries and self._extra[purpose, arm, repeat] < max_extra)


def key_of(trial: Trial) -> Key:
    """Return what identifies a trial, whichever attempt at it this is."""
    return trial.purpose, trial.arm, trial.point, trial.repeat

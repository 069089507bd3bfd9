"""Attempts at trials: invalid ones are repeated in their place, in every arm alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from isolane.results.results import Purpose, Trial

Key = tuple[Purpose, str, int, int]
"""What identifies a trial in a run: purpose, arm, point, round."""
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
        made = self._invalid[key]
        return key not in self._valid and (made == 0 or self._allows(key, made))

    def may_repeat(self, key: Key) -> bool:
        """Tell whether a trial would be tried once more if the next attempt is invalid."""
        made = self._invalid[key]
        return self._allows(key, made + 1, just_made=int(made > 0))

    def _allows(self, key: Key, made: int, just_made: int = 0) -> bool:
        purpose, arm, _, repeat = key
        max_extra = -(-self.points * OF_A_ROUND // 1)
        extra = self._extra[purpose, arm, repeat] + just_made
        return made <= self.retries and extra < max_extra


def key_of(trial: Trial) -> Key:
    """Return what identifies a trial, whichever attempt at it this is."""
    return trial.purpose, trial.arm, trial.point, trial.repeat

"""How many rounds fit into a run's time. Only the time decides, never what was found meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from isolane.spec import Experiment
from isolane.spec.consequences import MAX_TRIALS

MAX_ROUNDS = 1000
"""As for ``trial.repeats``."""


@dataclass
class RoundsInTime:
    """Fits the number of rounds to a time limit.

    A run stops after a number of rounds that follows from the time alone, so its intervals are
    those of a run with as many repeats. Stopping once a finding is clear would make them too
    narrow.

    Parameters
    ----------
    limit_s
        Time of the whole run, s, from now.
    clock
        Time in s.
    """

    limit_s: float
    clock: Callable[[], float] = time.monotonic
    _began_s: float = field(init=False)
    _first_round_s: float | None = None
    _made: int = 0

    def __post_init__(self) -> None:
        self._began_s = self.clock()

    def begin_rounds(self, experiment: Experiment, *, is_left: bool) -> Experiment:
        """Say that all that comes before the rounds is done; return the experiment to begin with.

        Parameters
        ----------
        is_left
            Whether there is anything left to do. Else it has one round more: whoever gives a
            finished run more time wants more rounds, and how long one takes is to be seen.
        """
        if self._first_round_s is None:
            self._first_round_s = self.clock()
        have = experiment.trial.repeats
        if is_left or have >= _limit(experiment):
            return experiment
        return _with(experiment, have + 1)

    def fitting(self, experiment: Experiment, rounds: int) -> Experiment | None:
        """Return the experiment with as many repeats as will have fitted in; None: as it is.

        Parameters
        ----------
        rounds
            That are done, one at least since `begin_rounds`; earlier ones of a resumed run
            included. There will be so many at least.
        """
        assert self._first_round_s is not None, "begin_rounds() comes before"
        self._made += 1
        now_s = self.clock()
        each_s = (now_s - self._first_round_s) / self._made
        left_s = max(0.0, self.limit_s - (now_s - self._began_s))
        more = int(left_s / each_s) if each_s > 0 else MAX_ROUNDS
        repeats = max(rounds, min(_limit(experiment), rounds + more))
        return None if repeats == experiment.trial.repeats else _with(experiment, repeats)


def _with(experiment: Experiment, repeats: int) -> Experiment:
    trial = experiment.trial.model_copy(update={"repeats": repeats})
    return experiment.model_copy(update={"trial": trial})


def _limit(experiment: Experiment) -> int:
    """Return how many rounds a run may have."""
    of_a_round = len(experiment.points()) * len(experiment.resolved_arms())
    return min(MAX_ROUNDS, MAX_TRIALS // of_a_round)

"""The error budget of a trial: how large each of its own faults may be before it is invalid.

All limits come from one number, the threshold: the smallest difference between throughputs that a
verdict turns on. Each kind of fault may use up a fifth of it. Four kinds act on the frames that are
delivered (a generator that sends too little, a receiver that drops, frames that another core takes
on, CPU time that others take), so all four together stay below the threshold even if they add up.
"""

from __future__ import annotations

from dataclasses import dataclass

from isolane.spec import DEFAULT_THRESHOLD

PARTS = 5
"""Each fault may be this part of the threshold."""


@dataclass(frozen=True)
class ErrorBudget:
    """Limits of a trial's faults.

    Parameters
    ----------
    threshold
        The smallest relative difference that the verdict turns on, such as 0.01.
    """

    threshold: float = DEFAULT_THRESHOLD

    @property
    def limit(self) -> float:
        """Largest share, of frames or of a core's time, that one kind of fault may concern."""
        return self.threshold / PARTS

    def __str__(self) -> str:
        """Return the limit as a percentage, with where it comes from."""
        return f"{100 * self.limit:g} %, a fifth of the threshold of {100 * self.threshold:g} %"

"""The error budget of a trial: how large each of its own faults may be before it is invalid.

All limits come from one number, the threshold: the smallest difference between throughputs that a
verdict turns on. Each fault of a trial may use up a fifth of it. Four kinds act on the frames that
are delivered (a generator that sends too little, a receiver that drops, frames that another core
takes on, a hypervisor that takes the core away, so that nobody empties a ring), so together they
stay below the threshold even if they add up.

CPU time that other processes take is no fault of the measuring but part of the machine's noise. It
comes and goes from trial to trial, so the intervals over the repeats contain it; on a shared
machine there is always some. A trial in which they had more than five times the threshold is told
as disturbed. The same limit holds for frames that the generator misses while others have its core.
"""

from __future__ import annotations

from dataclasses import dataclass

from isolane.spec import DEFAULT_THRESHOLD

PARTS = 5
"""Each fault may be this part of the threshold."""
NOISE = 5
"""Others may take this many times the threshold of a core's time."""


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

    @property
    def noise(self) -> float:
        """Largest share of a DUT core's time that others may take."""
        return self.threshold * NOISE

    def __str__(self) -> str:
        """Return the limit as a percentage, with where it comes from."""
        return f"{100 * self.limit:g} %, a fifth of the threshold of {100 * self.threshold:g} %"

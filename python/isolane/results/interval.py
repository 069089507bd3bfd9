"""A figure of a run, with its interval."""

from __future__ import annotations

from isolane.stored_model import StoredModel


class Interval(StoredModel):
    """A median over repeats with its confidence interval."""

    median: float
    low: float
    high: float
    n: int
    """Values behind it: trials, or capacity trials."""
    coverage: float | None = None
    """Probability that the interval holds the median; None of one value, and before method 2."""
    invocations: int = 1
    """Invocations that the values are from; with one, the interval holds for that one only."""

    @property
    def units(self) -> int:
        """How many independent values it is made of: repeats, or invocations of which all share."""
        return self.invocations if self.invocations > 1 else self.n

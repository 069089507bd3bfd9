"""A figure of a run, with its interval."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Interval(BaseModel):
    """A median over repeats with its confidence interval."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")

    median: float
    low: float
    high: float
    n: int
    """Values behind it: trials, or capacity trials."""
    coverage: float | None = None
    """Probability that the interval holds the median; None of one value, and before method 2."""
    invocations: int = 1
    """Invocations that the values are from; with one, the interval holds for that one only."""

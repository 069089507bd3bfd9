"""Whether the arms of a run are different, and whether load matters: a part of its summary."""

from __future__ import annotations

from typing import Final, Literal

from isolane.stored_model import StoredModel, former

FigureName = Literal["throughput", "loss", "p50", "p99", "CPU per frame"]
"""What has one value per trial and router."""
Test = Literal["Wilcoxon", "Mann-Whitney"]
Outcome = Literal["different", "no difference shown", "too few rounds"]
TrendOutcome = Literal["rises", "falls", "no trend shown", "too few rounds"]
Varied = Literal["number of routers", "aggressor's load", "offered load"]
"""What the points of a run differ in."""
LIMIT: Final = 0.05
"""Probability with which a family of comparisons of equal arms may have one called different."""


class ArmDifference(StoredModel):
    """One figure of two arms at the same loads."""

    _former = former("noise")

    figure: FigureName
    router: str
    """Whose figure it is; of several routers the mean."""
    first: str
    second: str
    loads: int
    """Loads that both arms have in common."""
    test: Test
    pairs: int
    """Rounds (invocations, where there are several) that both have: a pair each."""
    values: tuple[int, int]
    """Rounds or invocations of the first arm and of the second."""
    change: float | None
    """By how much the second lies above the first at the same load, a part of the first (Hodges and
    Lehmann, of logarithms); None where it is infinite, or a value is 0."""
    shift: float
    """The same, ns, of the first arm's median over all its trials; may be infinite."""
    low: float | None
    high: float | None
    """The 95 % interval of `change`, by itself; None where so few values bound nothing."""
    effect: float
    """Rank-biserial correlation, -1 to 1: matched-pairs or, of Mann-Whitney, of the samples."""
    p: float
    adjusted_p: float
    """Corrected for the number of comparisons of this figure (Holm)."""
    smallest_p: float
    """The smallest `adjusted_p` that so many rounds can have."""
    outcome: Outcome


class LoadTrend(StoredModel):
    """Whether one figure of an arm rises or falls with the load."""

    figure: FigureName
    router: str
    arm: str
    load: Varied
    loads: int
    values: int
    tau: float
    """Kendall's tau-b, -1 to 1; of a figure that follows the load in full somewhat below 1, as
    trials at one load have no order among each other."""
    p: float
    adjusted_p: float
    """Corrected for the number of arms (Holm)."""
    outcome: TrendOutcome


class Spread(StoredModel):
    """How one figure spreads over the trials of an arm at one load: what a box plot draws.

    In the figure's unit, ns; infinite where more frames were lost than a percentile leaves out.
    """

    figure: FigureName
    router: str
    arm: str
    point: int
    point_label: str
    trials: int
    minimum: float
    p25: float
    median: float
    p75: float
    maximum: float


class ArmTests(StoredModel):
    """All of it."""

    differences: tuple[ArmDifference, ...]
    """By figure and pair of arms; empty with one arm."""
    trends: tuple[LoadTrend, ...]
    """By figure and arm; empty with one load."""
    spreads: tuple[Spread, ...]
    """By figure, arm and point."""
    rounds_needed: int | None
    """Rounds (invocations) of each arm that can show a difference; None without comparisons."""
    unit: Literal["round", "invocation"]
    """What counts as one independent value."""

"""What a comparison of two runs says, as its JSON has it."""

from __future__ import annotations

from typing import Final, Literal

from isolane.results.arm_test_models import FigureName
from isolane.spec.fields import Mode
from isolane.stored_model import StoredModel

Outcome = Literal["better", "worse", "no difference shown", "not compared"]
LIMIT: Final = 0.05
"""Of what is called a difference, so large a share is none, in the mean over many comparisons."""


class Difference(StoredModel):
    """One figure of one router at one load in one arm, in both runs."""

    arm: str
    load: str
    router: str
    figure: FigureName
    before: float
    """Median over the first run's trials: frames/s or answers/s, a part of 1 (loss), ns (delays,
    CPU)."""
    after: float
    values: tuple[int, int]
    """Independent values behind both: trials, or invocations where there are several."""
    change: float | None
    """Part of the first run's value; of loss the difference itself, a part of 1. None where one of
    the values is 0, or both are infinite."""
    low: float | None
    high: float | None
    """The 95 % interval of `change`; None where so few values bound nothing."""
    p: float | None
    """Of Mann and Whitney's test; None where the figure is not compared."""
    adjusted_p: float | None
    """The same, corrected for the number of figures (Benjamini and Hochberg)."""
    outcome: Outcome
    beyond_tolerance: bool
    """Whether it is worse by more than the tolerance, as far as its interval tells."""
    reason: str | None = None
    """Why it is not compared."""
    mode: Mode = "forward"
    """With http, throughput is in answers/s, and delays are response times."""


class Comparison(StoredModel):
    """All of it."""

    before: str
    """Folder of the first run."""
    after: str
    name: str
    """Name of the experiment."""
    tolerance: float
    """Part of 1."""
    differences: tuple[Difference, ...]
    """By arm, load, router and figure, in the order of the first run."""
    only_before: tuple[str, ...]
    """Arms with loads that only the first run has."""
    only_after: tuple[str, ...]
    changed: tuple[str, ...]
    """What else is different: host, version, experiment, method; a sentence each."""

    @property
    def worse(self) -> tuple[Difference, ...]:
        """Figures that are shown to be worse by more than the tolerance."""
        return tuple(each for each in self.differences if each.beyond_tolerance)

    def count(self, outcome: Outcome) -> int:
        """Return how many figures came out so."""
        return sum(each.outcome == outcome for each in self.differences)

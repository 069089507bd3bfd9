"""Decides whether figures keep a promise, for a whole table of promises. Pure.

Two questions decide: on which side of the tolerance is the median, and is this sure enough? A
promise that misses by twice its tolerance must not be called held, and one that misses by less than
half of it must not be called broken; between them either answer is right. Without such a zone no
number of figures would decide a promise that misses by just its tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from isolane.stats.sequential import ERROR_RATE, chance_of, holm

Answer = Literal["held", "broken", "undecided"]

CLEARLY_BROKEN = 2.0
"""Multiple of the tolerance: who misses by so much must not be called held."""
CLEARLY_KEPT = 0.5
"""Multiple of the tolerance: who misses by less must not be called broken."""


@dataclass(frozen=True)
class Bar:
    """What is promised of a figure."""

    promised: float
    tolerance: float = 0.0
    """By how much it may be missed and still count as kept, in the unit of the figure."""
    at_most: bool = False
    """Whether the figure must not exceed what is promised; else it must not be less."""

    def margins(self, values: Sequence[float]) -> list[float]:
        """Return by how much each value keeps the promise, without the tolerance."""
        sign = -1 if self.at_most else 1
        return [sign * (value - self.promised) for value in values]

    def keeps(self, values: Sequence[float]) -> list[bool]:
        """Tell of each value whether it keeps the promise, within the tolerance."""
        return [margin >= -self.tolerance - 1e-12 for margin in self.margins(values)]

    def is_not_broken(self, values: Sequence[float]) -> list[bool]:
        """Tell of each value whether it is better than a promise that is clearly broken."""
        worst = -CLEARLY_BROKEN * self.tolerance
        return [margin > worst + 1e-12 for margin in self.margins(values)]

    def is_not_kept(self, values: Sequence[float]) -> list[bool]:
        """Tell of each value whether it is worse than a promise that is clearly kept."""
        best = -CLEARLY_KEPT * self.tolerance
        return [margin < best - 1e-12 for margin in self.margins(values)]


@dataclass(frozen=True)
class Evidence:
    """What the values of a promise say, each p-value valid whenever one stops."""

    p_held: float = 1.0
    """How likely such values are, at most, if the promise is clearly broken."""
    p_broken: float = 1.0
    """How likely such values are, at most, if the promise is clearly kept."""
    kept: int = 0
    """Values that keep the promise, within the tolerance."""
    number: int = 0

    @classmethod
    def of(cls, bar: Bar, values: Sequence[float], *, can_hold: bool = True) -> Evidence:
        """Return the evidence of all values so far.

        Parameters
        ----------
        values
            In the order in which they were measured.
        can_hold
            False where the promise was not put to the test, so that it can only be broken.
        """
        held = chance_of(bar.is_not_broken(values)) if can_hold else 1.0
        broken = chance_of(bar.is_not_kept(values))
        return cls(held, broken, sum(bar.keeps(values)), len(values))

    @property
    def for_held(self) -> bool:
        """Whether the median keeps the promise, within the tolerance."""
        return 2 * self.kept >= self.number


def decide(
    evidence: Sequence[Evidence], size: int, error_rate: float = ERROR_RATE
) -> list[tuple[Answer, float]]:
    """Decide all promises of a table together.

    Parameters
    ----------
    size
        How many promises it may have in the end.

    Returns
    -------
    list of (answer, float)
        The answer, and a bound on the probability that the table contains it, or one that is better
        founded, wrongly; for an undecided promise, that of the answer that the values speak for.
    """
    held = holm([each.p_held for each in evidence], size)
    broken = holm([each.p_broken for each in evidence], size)
    decided: list[tuple[Answer, float]] = []
    for each, wrongly_held, wrongly_broken in zip(evidence, held, broken, strict=True):
        bound = wrongly_held if each.for_held else wrongly_broken
        answer: Answer = "held" if each.for_held else "broken"
        decided.append((answer if bound <= error_rate else "undecided", bound))
    return decided

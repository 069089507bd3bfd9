"""Decides promises by the evidence of their pairs, for the whole table. Pure.

Two questions decide: on which side of the tolerance is the median, and is this sure enough? A
promise that misses by twice its tolerance must not be called held, and one that misses by less than
half of it must not be called broken; between them either answer is right. Without such a zone no
number of pairs would decide a promise that misses by just its tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from isolane.run.wording import plural
from isolane.stats.sequential import ERROR_RATE, chance_of, holm, median_interval
from isolane.verify.environment import Measured
from isolane.verify.report_data import Finding, Promise, Unit, Verdict

CLEARLY_BROKEN = 2.0
"""Multiple of the tolerance: who misses by so much must not be called held."""
CLEARLY_KEPT = 0.5
"""Multiple of the tolerance: who misses by less must not be called broken."""


@dataclass(frozen=True)
class Pair:
    """A valid trial, with the one that it is compared with."""

    loaded: Measured
    reference: Measured | None = None


@dataclass
class Results:
    """All pairs, by the key of their comparison."""

    pairs: dict[str, list[Pair]] = field(default_factory=dict)
    invalid: dict[str, list[str]] = field(default_factory=dict)
    """One text for each trial without a verdict: why it has none."""

    def of(self, key: str) -> list[Pair]:
        """Return the pairs of a comparison, in the order in which they were measured."""
        return self.pairs.get(key, [])

    def add(self, key: str, pair: Pair) -> None:
        """Keep a pair."""
        self.pairs.setdefault(key, []).append(pair)

    def add_invalid(self, key: str, measured: Measured) -> None:
        """Keep the reason of an invalid trial."""
        self.invalid.setdefault(key, []).append(measured.invalid[0].text)

    def figures(self, key: str, figure: Callable[[Pair], float | None]) -> list[float]:
        """Return a figure of each pair of a comparison, without the pairs that lack it."""
        values = (figure(pair) for pair in self.of(key))
        return [value for value in values if value is not None]

    def why_nothing(self, key: str) -> str | None:
        """Say why a comparison has no pair; None if nobody has tried."""
        why = self.invalid.get(key)
        if not why:
            return None
        return f"no verdict: {len(why)} of {plural(len(why), 'trial')} invalid, because {why[0]}"


@dataclass(frozen=True)
class Claim:
    """A promise to a router, and the situation in which it is tested."""

    router: str
    promise: Promise
    about: str
    unit: Unit

    def not_measured(self, why: str, promised: float | None = None) -> Finding:
        """Return a finding that says why the promise was not measured."""
        return Finding(**vars(self), verdict="not measured", promised=promised, why=why)


@dataclass(frozen=True)
class Candidate:
    """A promise with all that was measured about it so far."""

    claim: Claim
    key: str
    """Key of the comparison that tests it."""
    promised: float | None = None
    values: tuple[float, ...] = ()
    """One figure of each pair, in the order in which they were measured."""
    tolerance: float = 0.0
    at_most: bool = False
    """Whether the figure must not exceed what is promised; else it must not be less."""
    why: str | None = None
    """Why the pairs tell nothing."""
    excuse: str | None = None
    """Why the promise was not put to the test: then it cannot be called held. It can be broken."""
    note: str | None = None
    """What else the user should know about it."""

    def margins(self) -> list[float]:
        """Return by how much each pair keeps the promise, without the tolerance."""
        assert self.promised is not None
        sign = -1 if self.at_most else 1
        return [sign * (value - self.promised) for value in self.values]

    def keeps(self) -> list[bool]:
        """Tell of each pair whether it keeps the promise, within the tolerance."""
        return [margin >= -self.tolerance - 1e-12 for margin in self.margins()]

    def is_not_broken(self) -> list[bool]:
        """Tell of each pair whether it is better than a promise that is clearly broken."""
        return [margin > -CLEARLY_BROKEN * self.tolerance + 1e-12 for margin in self.margins()]

    def is_not_kept(self) -> list[bool]:
        """Tell of each pair whether it is worse than a promise that is clearly kept."""
        return [margin < -CLEARLY_KEPT * self.tolerance - 1e-12 for margin in self.margins()]


@dataclass(frozen=True)
class Evidence:
    """What the pairs of a promise say, each p-value valid whenever one stops."""

    p_held: float = 1.0
    """How likely such pairs are, at most, if the promise is clearly broken."""
    p_broken: float = 1.0
    """How likely such pairs are, at most, if the promise is clearly kept."""
    kept: int = 0
    """Pairs that keep the promise, within the tolerance."""
    number: int = 0

    @classmethod
    def of(cls, candidate: Candidate) -> Evidence:
        """Return the evidence of all pairs so far."""
        if candidate.why is not None or not candidate.values:
            return cls()
        keeps = candidate.keeps()
        held = chance_of(candidate.is_not_broken()) if candidate.excuse is None else 1.0
        return cls(held, chance_of(candidate.is_not_kept()), sum(keeps), len(keeps))

    @property
    def for_held(self) -> bool:
        """Whether the median keeps the promise, within the tolerance."""
        return 2 * self.kept >= self.number


class Table:
    """The promises of one verification, decided together.

    Parameters
    ----------
    size
        How many promises it may have in the end.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._closed: list[Candidate] = []

    def close(self, candidates: Iterable[Candidate]) -> None:
        """Keep candidates whose measurement has ended."""
        self._closed += candidates

    def verdicts(self, candidates: Sequence[Candidate]) -> list[Verdict]:
        """Decide candidates, beside those that have been closed."""
        return [finding.verdict for finding in self.findings(candidates)[len(self._closed) :]]

    def findings(self, candidates: Sequence[Candidate] = ()) -> list[Finding]:
        """Decide all promises; the closed ones come first."""
        every = [*self._closed, *candidates]
        told = [Evidence.of(candidate) for candidate in every]
        held = holm([each.p_held for each in told], self.size)
        broken = holm([each.p_broken for each in told], self.size)
        return [
            _finding(candidate, each, *bounds)
            for candidate, each, *bounds in zip(every, told, held, broken, strict=True)
        ]


def _finding(candidate: Candidate, found: Evidence, held: float, broken: float) -> Finding:
    """Return the finding; held, broken: bounds of the probability that this answer is wrong."""
    claim = vars(candidate.claim)
    if candidate.why is not None:
        return candidate.claim.not_measured(candidate.why, candidate.promised)
    if not candidate.values:
        late = "the time ended before it was measured"
        return Finding(**claim, verdict="undecided", promised=candidate.promised, why=late)
    bound = held if found.for_held else broken
    verdict: Verdict = "undecided"
    if bound <= ERROR_RATE:
        verdict = "held" if found.for_held else "broken"
    if verdict != "broken" and candidate.excuse is not None and found.for_held:
        return candidate.claim.not_measured(candidate.excuse, candidate.promised)
    why = candidate.note
    if verdict == "undecided":
        told = f"kept in {found.kept} of {found.number} when the time ended"
        why = f"{told}; {candidate.note}" if candidate.note else told
    interval = median_interval(candidate.values)
    measured: dict[str, Any] = {
        "promised": candidate.promised,
        "measured": median(candidate.values),
        "low": min(candidate.values),
        "high": max(candidate.values),
        "interval": interval,
        "margin": median(candidate.margins()),
        "tolerance": candidate.tolerance,
        "pairs": found.number,
        "pairs_kept": found.kept,
        "error_bound": bound,
        "values": candidate.values,
    }
    return Finding(**claim, verdict=verdict, why=why, **measured)

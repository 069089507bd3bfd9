"""Decides the promises of a policy by the evidence of their pairs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from isolane.analysis.wording import plural
from isolane.stats.promises import Bar, Evidence, decide
from isolane.stats.sequential import median_interval
from isolane.verify.environment import Measured
from isolane.verify.report_data import Finding, Promise, Unit, Verdict


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

    @property
    def bar(self) -> Bar:
        """What is promised of the figures."""
        assert self.promised is not None
        return Bar(self.promised, self.tolerance, self.at_most)

    @property
    def evidence(self) -> Evidence:
        """What all pairs so far say."""
        if self.why is not None or not self.values:
            return Evidence()
        return Evidence.of(self.bar, self.values, can_hold=self.excuse is None)


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
        told = [candidate.evidence for candidate in every]
        return [
            _finding(candidate, each, answer, bound)
            for candidate, each, (answer, bound) in zip(
                every, told, decide(told, self.size), strict=True
            )
        ]


def _finding(candidate: Candidate, found: Evidence, answer: Verdict, bound: float) -> Finding:
    """Return the finding; bound: of the probability that this answer is wrong."""
    claim = vars(candidate.claim)
    if candidate.why is not None:
        return candidate.claim.not_measured(candidate.why, candidate.promised)
    if not candidate.values:
        late = "the time ended before it was measured"
        return Finding(**claim, verdict="undecided", promised=candidate.promised, why=late)
    if answer != "broken" and candidate.excuse is not None and found.for_held:
        return candidate.claim.not_measured(candidate.excuse, candidate.promised)
    why = candidate.note
    if answer == "undecided":
        told = f"kept in {found.kept} of {found.number} when the time ended"
        why = f"{told}; {candidate.note}" if candidate.note else told
    interval = median_interval(candidate.values)
    measured: dict[str, Any] = {
        "promised": candidate.promised,
        "measured": median(candidate.values),
        "low": min(candidate.values),
        "high": max(candidate.values),
        "interval": interval,
        "margin": median(candidate.bar.margins(candidate.values)),
        "tolerance": candidate.tolerance,
        "pairs": found.number,
        "pairs_kept": found.kept,
        "error_bound": bound,
        "values": candidate.values,
    }
    return Finding(**claim, verdict=answer, why=why, **measured)

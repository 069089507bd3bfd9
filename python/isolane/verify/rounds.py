"""Measures comparisons in shuffled rounds of pairs, until each promise is decided."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from isolane.stats.sequential import pairs_needed
from isolane.verify.environment import Measured, Trials
from isolane.verify.evidence import Candidate, Pair, Results, Table
from isolane.verify.pace import Pace, pair_s
from isolane.verify.scenarios import Comparison, Scenario

TRIES = 3
"""Attempts at each half of a pair: a busy host is not always busy."""
GIVE_UP = 2
"""A comparison without a valid pair in so many attempts is given up."""
SPEED_EVERY = 3
"""Rounds after which the machine's speed is measured again, where only that needs it."""
MIN_PAIRS = 3
"""Pairs before a promise may count as not put to the test."""


@dataclass
class Rounds:
    """All that is measured on one set of routers."""

    trials: Trials
    table: Table
    pace: Pace
    window_ns: int
    order: random.Random
    results: Results = field(default_factory=Results)
    made: int = 0
    """Trials, the invalid ones included."""
    invalid: int = 0
    _rounds: int = 0
    _dropped: dict[str, int] = field(default_factory=dict)
    """Attempts without a valid pair, by comparison."""

    def measure(
        self,
        comparisons: Sequence[Comparison],
        judged: Callable[[], Sequence[Candidate]],
        speed: Callable[[], float] = lambda: 1.0,
    ) -> None:
        """Measure until each promise is decided or the time is over, and close the candidates.

        Parameters
        ----------
        judged
            Returns the promises with all that was measured about them so far.
        speed
            Returns how fast the machine is now, compared with the search.
        """
        while open_ := self._open(comparisons, judged()):
            self.order.shuffle(open_)
            self._rounds += 1
            for number, comparison in enumerate(open_):
                if self.pace.is_over():
                    self.table.close(judged())
                    return
                self.pace.tell(comparison.key, self._left_s(open_, number))
                self._pair(comparison, speed())
        self.table.close(judged())

    def valid(self, key: str, scenario: Scenario) -> Measured | None:
        """Carry out a trial; repeat it a few times while it is invalid, once if only paused."""
        for attempt in range(TRIES):
            measured = self.trials.trial(scenario, f"{scenario.key}:{self.made}")
            self.made += 1
            if measured.is_valid(last=attempt > 0):
                return measured
            self.invalid += 1
            self.results.add_invalid(key, measured)
        return None

    def _pair(self, comparison: Comparison, speed: float) -> None:
        halves = [half for half in (comparison.loaded, comparison.reference) if half is not None]
        self.order.shuffle(halves)
        factor = speed if comparison.follows_speed else 1.0
        seen: dict[str, Measured] = {}
        for half in halves:
            measured = self.valid(comparison.key, half.scaled(factor))
            if measured is None:
                self._dropped[comparison.key] = self._dropped.get(comparison.key, 0) + 1
                return
            seen[half.key] = measured
        reference = comparison.reference
        self.results.add(
            comparison.key,
            Pair(seen[comparison.loaded.key], None if reference is None else seen[reference.key]),
        )

    def _open(
        self, comparisons: Sequence[Comparison], candidates: Sequence[Candidate]
    ) -> list[Comparison]:
        """Return the comparisons that must go on.

        The first one shows the machine's speed: it goes on, less often, while others need that.
        """
        verdicts = self.table.verdicts(candidates)
        keys = {
            candidate.key
            for candidate, verdict in zip(candidates, verdicts, strict=True)
            if verdict == "undecided"
            or (verdict == "not measured" and len(self.results.of(candidate.key)) < MIN_PAIRS)
        }
        open_ = [c for c in comparisons if c.key in keys and not self._is_hopeless(c.key)]
        first = comparisons[0] if comparisons else None
        speed_due = self._rounds % SPEED_EVERY == 0 and any(c.follows_speed for c in open_)
        if first and first not in open_ and speed_due:
            open_.append(first)
        return open_

    def _is_hopeless(self, key: str) -> bool:
        return not self.results.of(key) and self._dropped.get(key, 0) >= GIVE_UP

    def _left_s(self, open_: Sequence[Comparison], number: int) -> float:
        """Return the time that open comparisons need if all further pairs agree, s."""
        needed = pairs_needed(self.table.size)
        left = 0.0
        for position, comparison in enumerate(open_):
            still = max(1, needed - len(self.results.of(comparison.key)))
            still -= position < number and still == 1
            left += still * pair_s(comparison, self.window_ns)
        return left

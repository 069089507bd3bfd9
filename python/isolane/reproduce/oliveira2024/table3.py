"""The paper's table 3: which pairs of configurations differ, by Wilcoxon's signed-rank test."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from isolane.reproduce.model import Claim, Row
from isolane.reproduce.oliveira2024.echo_trials import Found
from isolane.reproduce.oliveira2024.load_cells import LOADS, Cell, counts_of
from isolane.reproduce.oliveira2024.published_times import Verdict, verdicts
from isolane.stats.signed_ranks import signed_ranks

LEVEL: Final = 0.05


class Compared(NamedTuple):
    """A verdict of table 3 beside the simulation's."""

    verdict: Verdict
    p: float
    pairs: int
    difference: float
    """Pseudomedian of the second less the first, ms or percentage points."""

    @property
    def differs(self) -> bool:
        """Whether the simulated distributions differ, at the 95 % level."""
        return self.p < LEVEL


def rows(found: Found) -> tuple[Row, ...]:
    """Return a row for each verdict: the simulated p; an error of a p would mean nothing."""
    return tuple(
        Row(
            paper="oliveira2024",
            figure="table 3",
            configuration=f"{_pair(it)}, load on the {it.location}",
            offered={},
            offered_unit="",
            quantity=f"p of {_metric(it)}",
            unit="",
            published=None,
            simulated=p,
            note=f"{_word(p < LEVEL)}, {pairs} pairs; published: {_word(it.differs)}, p {it.p:g}",
        )
        for it, p, pairs, _ in compared(found)
    )


def claims(found: Found) -> tuple[Claim, ...]:
    """Return a claim for each verdict."""
    return tuple(
        Claim(
            figure="table 3",
            text=f"With load on the {it.verdict.location}, {_metric(it.verdict)} of "
            f"{_pair(it.verdict)}: {_word(it.verdict.differs)}.",
            reproduced=it.differs == it.verdict.differs,
            evidence=f"{_word(it.differs)}: p is {it.p:.3g} over {it.pairs} pairs of trials; the "
            f"second less the first is {_amount(it)}",
        )
        for it in compared(found)
    )


def compared(found: Found) -> Iterator[Compared]:
    """Test each pair of table 3 whose trials were all simulated."""
    for verdict in verdicts():
        try:
            differences = _differences(found, verdict)
        except KeyError:  # interrupted before a trial of these
            continue
        ranks = signed_ranks(differences)
        yield Compared(verdict, ranks.p, len(differences), ranks.estimate)


def _differences(found: Found, verdict: Verdict) -> list[float]:
    """Return b less a, shape (pairs,): trials of the same load, number of VMs and seed.

    A number of VMs that one of the two does not have is left out.
    """
    shared = [n for n in counts_of(verdict.a) if n in counts_of(verdict.b)]
    differences = []
    for load in LOADS:
        for vms in shared:
            a = Cell(verdict.a, load, verdict.location, vms)
            b = replace(a, configuration=verdict.b)
            pairs = zip(found.values(a, verdict.metric), found.values(b, verdict.metric),
                        strict=False)  # fmt: skip
            differences += [_less(theirs, ours) for ours, theirs in pairs]
    return differences


def _less(b: float, a: float) -> float:
    """Return b - a; two trials that lost most echoes do not differ."""
    return 0.0 if math.isinf(a) and math.isinf(b) else b - a


def _metric(verdict: Verdict) -> str:
    return "CPU use" if verdict.metric == "cpu" else "round-trip time"


def _pair(verdict: Verdict) -> str:
    return f"{verdict.a} and {verdict.b}"


def _amount(it: Compared) -> str:
    if it.verdict.metric == "cpu":
        return f"{it.difference:+.3f} percentage points"
    return f"{1e3 * it.difference:+.1f} us"


def _word(differs: bool) -> str:  # noqa: FBT001 - a word for each
    return "different" if differs else "same"

"""What the rounds so far have shown, in one line, for those who watch a run."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from isolane.analysis.cells import usable
from isolane.analysis.delivery import aggressors_of, delivered, runs_of, working
from isolane.analysis.wording import listing, percent
from isolane.results.results import Trial

MAX_NAMED: Final = 5
"""Arms in the line; the best and the worst are among them."""


def is_told(rounds: int) -> bool:
    """Tell whether there is a line after so many rounds: after 1, 2, 4, 8 and so on."""
    return rounds & (rounds - 1) == 0


def first_findings(
    trials: Sequence[Trial], arms: Sequence[str], rounds: int, of: int
) -> str | None:
    """Return the share of its frames that the victim keeps at its worst point, by arm.

    Medians without an interval: it decides nothing.

    Parameters
    ----------
    trials
        All trials so far.
    arms
        Of equally good ones the first comes first.
    rounds, of
        How many rounds are done, and how many there will be.

    Returns
    -------
    str or None
        None where no victim was under attack.
    """
    worst: dict[str, float] = {}
    for (arm, _), own in usable(trials, arms).items():
        sent = any(router.generated_frames for t in own for router in aggressors_of(t))
        if not sent and not working(own[0]):
            continue
        victims = dict.fromkeys(r.router for t in own for r in t.routers if r.role == "victim")
        for name in victims:
            if values := delivered(runs_of(own, name)):
                worst[arm] = min(worst.get(arm, 1.0), median(values.values()))
    if not worst:
        return None
    ranked = sorted(worst.items(), key=lambda found: -found[1])
    named = ranked if len(ranked) <= MAX_NAMED else [*ranked[: MAX_NAMED - 1], ranked[-1]]
    parts = [f"{percent(share)} % on {arm}" for arm, share in named]
    return f"round {rounds} of {of}: the victim keeps {listing(parts)}"

"""What a run found: a verdict about each arm, and the answer that is drawn from all of them."""

from __future__ import annotations

from typing import Literal

from isolane.results.interval import Interval
from isolane.spec.fields import Mode
from isolane.stored_model import StoredModel

Finding = Literal[
    "isolated",
    "nearly isolated",
    "undecided",
    "not isolated",
    "attack incomplete",
    "never overloaded",
    "overloaded alone",
    "no verdict",
]


class ArmVerdict(StoredModel):
    """What the run found about the victims of one arm."""

    arm: str
    finding: Finding
    delivered: Interval | None = None
    """Of the offered frames at the victim's worst point; the intervals of all `points` hold at
    once with its coverage. None without an interval, and before method 2."""
    point_label: str | None = None
    """The worst point."""
    points: int = 0
    """Points under attack, of all victims, that the finding is about."""
    inflation: Interval | None = None
    """Of web requests: the victim's p99 over that alone, at the point where it is highest."""
    exact: bool | None = None
    """False: there are too few values for an exact interval, so the errors are taken as normal."""


class Verdict(StoredModel):
    """The verdict of a run."""

    sentence: str
    level: Literal["good", "bad", "neutral", "none"]
    """Of all arms together; ``good`` only if each of them is isolated."""
    arms: tuple[ArmVerdict, ...] = ()
    """By arm, in the order of the experiment; empty for an experiment without victims."""


class AnswerRow(StoredModel):
    """One arm in the answer."""

    arm: str
    finding: Finding | None
    """None where there is no victim."""
    keeps: Interval | None
    """What the victim gets of its frames at its worst point, 0 to 1."""
    keeps_at: str | None
    """That point."""
    delay_p99_ns: Interval | None
    """The victim's there."""
    alone_p99_ns: Interval | None
    """The victim's at the reference point, where the aggressors offer least."""
    total_pps: Interval | None
    """What all routers together forward at the answer's point; None where the arm lacks it."""
    total_share: float | None
    """The same over that of the arm that forwards the maximum there, 0 to 1; None for a bound."""
    mode: Mode = "forward"
    """The victim's: with another one its delays are round-trip times."""
    meanwhile: Interval | None = None
    """What a router gets while another one works in a part of the window, over what it gets
    otherwise."""
    total_is_bound: bool = False
    """Whether all that was offered came through, so that they may forward more."""


class Answer(StoredModel):
    """The answer: which arm to use, what the others lose, and what that costs."""

    rows: tuple[AnswerRow, ...]
    """The best arm first."""
    total_at: str | None
    """The point at which the totals are compared: the heaviest load that an arm was offered."""
    use: str | None
    """The arm to use; None where none can be named."""
    sentences: tuple[str, ...]
    """What to do, and what that gives and costs."""
    meanwhile: str | None = None
    """Which routers that is about; None where none works in a part of the window."""

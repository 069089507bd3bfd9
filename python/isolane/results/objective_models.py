"""What became of an experiment's objectives: plain data."""

from __future__ import annotations

from typing import Literal

from isolane.results.interval import Interval
from isolane.stored_model import StoredModel

Outcome = Literal["met", "missed", "undecided", "not measured"]


class ObjectiveFinding(StoredModel):
    """One objective in one arm."""

    objective: str
    """As it is written in the experiment."""
    arm: str
    outcome: Outcome
    """``met``: the whole 95 % interval holds at every point; ``missed``: the whole one does not, at
    one of them; ``undecided``: neither."""
    router: str = ""
    """Whose figure is the worst; empty where nothing was measured."""
    point_label: str = ""
    """Where."""
    figure: Interval | None = None
    """The worst figure: a share (0 to 1), frames/s, ns, or a multiple."""

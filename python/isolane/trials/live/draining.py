"""Waits until no more frames arrive, so that every frame can be accounted for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
STEP_S = 0.005
QUIET_S = 0.02


def drained(read: Callable[[], T], quiet_s: float = QUIET_S, limit_s: float = 1.0) -> T:
    """Return the counters once they have not changed for a while.

    Parameters
    ----------
    read
        Reads the counters of what has arrived.
    quiet_s
        How long they must stay the same.
    limit_s
        When to return them although they still change.
    """
    limit, latest, quiet = time.monotonic() + limit_s, read(), 0
    while quiet < round(quiet_s / STEP_S) and time.monotonic() < limit:
        time.sleep(STEP_S)
        before, latest = latest, read()
        quiet = quiet + 1 if latest == before else 0
    return latest

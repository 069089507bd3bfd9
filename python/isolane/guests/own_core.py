"""Moves a guest to the core that it is to run on."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress


def stay_on(core: int, threads: Callable[[], list[int]]) -> None:
    """Have all threads that there are on a core; those that one of them starts inherit that.

    Parameters
    ----------
    threads
        Returns those that there are; asked until there is none that was not moved.
    """
    moved: set[int] = set()
    while new := set(threads()) - moved:
        for thread in new:
            with suppress(ProcessLookupError):  # threads come and go
                os.sched_setaffinity(thread, {core})
        moved |= new

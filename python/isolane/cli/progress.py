"""Progress where there is no terminal: a line per tenth."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable


def by_tenths(things: str) -> Callable[[int, int], None]:
    """Return what is told how many of how many things are done, and prints each new tenth.

    Parameters
    ----------
    things
        What is counted, such as ``trials``; for the line.
    """
    started = time.monotonic()
    told = -1

    def tell(done: int, total: int) -> None:
        nonlocal told
        tenth = 10 * done // max(1, total)
        if tenth == told:
            return
        told = tenth
        spent = time.monotonic() - started
        left = f", about {spent / done * (total - done):.0f} s left" if done else ""
        print(f"isolane: {done} of {total} {things}{left}", file=sys.stderr)

    return tell

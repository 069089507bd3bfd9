"""Locks that one command holds at a time."""

from __future__ import annotations

import fcntl
import time
from typing import Final

WAIT_S: Final = 1.0
"""A process that a command starts has the command's lock, too, until it runs its own program: some
17 ms were seen. Where the command is killed meanwhile, the lock outlives it by that."""
_STEP_S: Final = 0.005


def lock_soon(descriptor: int, wait_s: float = WAIT_S) -> None:
    """Lock a file (flock) that nobody holds, or will not hold for long.

    Parameters
    ----------
    descriptor
        Of the open file.
    wait_s
        How long to wait for whoever holds it, s.

    Raises
    ------
    BlockingIOError
        If it is held all that time.
    """
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_STEP_S)
        else:
            return

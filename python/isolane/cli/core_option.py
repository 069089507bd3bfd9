"""The option ``--core`` of commands that send."""

from __future__ import annotations

import os

from isolane.errors import SpecError


def usable_core(core: int) -> int:
    """Return the core, if this process may use it.

    Raises
    ------
    SpecError
        If not; with those that it may use.
    """
    usable = sorted(os.sched_getaffinity(0))
    if core not in usable:
        listed = ", ".join(map(str, usable))
        raise SpecError(f"--core {core}: there is no such core to use; accepted: {listed}")
    return core

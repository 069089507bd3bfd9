"""Lists of cores as people write them."""

from __future__ import annotations

from isolane.errors import SpecError
from isolane.procfs import core_ticks


def online() -> tuple[int, ...]:
    """Return the cores that are online."""
    return tuple(sorted(core_ticks()))


def cores_of(key: str, text: str) -> tuple[int, ...]:
    """Return the cores that a list such as ``1,4-7`` names; of a range, those that are online.

    Parameters
    ----------
    key
        Where the list stands, for messages.

    Raises
    ------
    SpecError
        If it is no such list, or a core that it names is not online.
    """
    there = online()
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
            raise SpecError(f"{key}: {text!r} is no list of cores; accepted: such as 1,4-7")
        for core in (int(first), int(last)):
            if core not in there:
                accepted = ", ".join(map(str, there))
                raise SpecError(f"{key}: core {core} is not online; accepted: {accepted}")
        found |= {core for core in there if int(first) <= core <= int(last)}
    return tuple(sorted(found))

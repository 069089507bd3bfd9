"""Warns of threads that a generator would starve, because it keeps its core to itself."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_FLAGS, _POLICY = 9, 41
"""Fields of ``/proc/PID/stat``, from 1 as in proc(5)."""
_NO_SETAFFINITY: Final = 0x04000000
"""``PF_NO_SETAFFINITY``: a kernel thread bound to its core; it can wait."""
_BEFORE_US: Final = frozenset({1, 2, 6})
"""SCHED_FIFO, SCHED_RR, SCHED_DEADLINE: such threads run before a generator."""
_NAMED: Final = 3


@dataclass(frozen=True)
class Thread:
    """A thread that may run on these cores only."""

    pid: int
    name: str
    cores: frozenset[int]


def threads() -> list[Thread]:
    """Return the threads of this host that a generator could starve, except this process's."""
    found = []
    for entry in _PROC.iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            with suppress(OSError):  # it has ended meanwhile
                found += [
                    thread
                    for task in (entry / "task").iterdir()
                    if (thread := _thread(task)) is not None
                ]
    return found


def _thread(task: Path) -> Thread | None:
    with suppress(OSError):
        head, _, tail = (task / "stat").read_text().rpartition(")")
        fields = tail.split()  # from the third on: the name may hold spaces and parentheses
        if int(fields[_FLAGS - 3]) & _NO_SETAFFINITY or int(fields[_POLICY - 3]) in _BEFORE_US:
            return None
        pid = int(task.name)
        return Thread(pid, head.partition("(")[2], frozenset(os.sched_getaffinity(pid)))
    return None


def online() -> frozenset[int]:
    """Return the cores of this host that are online."""
    cores: set[int] = set()
    for part in Path("/sys/devices/system/cpu/online").read_text().strip().split(","):
        low, _, high = part.partition("-")
        cores.update(range(int(low), int(high or low) + 1))
    return frozenset(cores)


def choose(usable: Sequence[int], others: Iterable[Thread]) -> int:
    """Return the core that the fewest threads are bound to; the first of several."""
    bound = [thread.cores for thread in others]
    return min(sorted(usable), key=lambda core: sum(cores == {core} for cores in bound))


def warning(
    core: int, usable: Sequence[int], present: frozenset[int], others: Iterable[Thread]
) -> str | None:
    """Return a sentence about the threads that a generator on a core starves; None for none.

    Parameters
    ----------
    core
        The generator's core.
    usable
        Cores that the generator may use.
    present
        Cores of the host.
    others
        Threads of the host.
    """
    if present <= {core}:
        return (
            f"core {core} is the only one of this host: everything else that runs here, a router "
            "and what receives included, gets next to nothing while this sends; send from another "
            "machine, or believe no figure but the generator's own"
        )
    starved = sorted((t for t in others if t.cores == {core}), key=lambda t: (t.name, t.pid))
    if not starved:
        return None
    named = ", ".join(f"{thread.name} ({thread.pid})" for thread in starved[:_NAMED])
    more = f" and {len(starved) - _NAMED} more" if len(starved) > _NAMED else ""
    other = choose(usable, others)
    remedy = (
        f"name another core: --core {other}"
        if other != core
        else "move them to another core (taskset -p), or allow this command more of them"
    )
    return (
        f"core {core} is the only one that {named}{more} may run on: they get next to nothing "
        f"while this sends; {remedy}"
    )

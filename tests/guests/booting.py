"""Guests to boot, and what of them is to be seen on this host."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from isolane.guests import Guest, QemuGuest, QemuPlan, UmlGuest, UmlPlan
from isolane.procfs import named_processes, words_of

LIMIT_S = 300.0
Starter = Callable[..., Guest]


def uml(
    folder: Path,
    name: str = "one",
    script: str = "",
    limit_s: float = LIMIT_S,
    core: int | None = None,
) -> Guest:
    return UmlGuest(UmlPlan(name, script, core), limit_s, folder)


def qemu(
    folder: Path,
    name: str = "one",
    script: str = "",
    limit_s: float = LIMIT_S,
    core: int | None = None,
) -> Guest:
    return QemuGuest(QemuPlan(name, script, core), limit_s, folder)


def processes_of(folder: Path) -> list[int]:
    """Processes that name the folder in their command line, this one's excepted."""
    found = []
    for number, _ in named_processes():
        if number != os.getpid() and os.fsencode(folder) in b"\0".join(words_of(number)):
            found.append(number)
    return found


def await_none(folder: Path) -> None:
    end_s = time.monotonic() + LIMIT_S
    while processes_of(folder):
        assert time.monotonic() < end_s, processes_of(folder)
        time.sleep(0.05)

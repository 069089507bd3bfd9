"""What a guest leaves whose starter was killed: processes that are just ending, and a folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Final

from isolane.errors import TestbedError
from isolane.guests.guest import DIRECTORY, Guest
from isolane.guests.qemu import QemuGuest
from isolane.guests.uml import UmlGuest
from isolane.procfs import named_processes, sees_same, words_of

_KINDS: Final[tuple[type[Guest], ...]] = (UmlGuest, QemuGuest)
_BY_ITSELF_S: Final = 2.0
_VANISH_S: Final = 60.0


def remove_left(name: str, directory: Path = DIRECTORY) -> bool:
    """Remove what the guest of a dead run has left, once its processes have ended.

    Returns
    -------
    bool
        Whether there was anything.

    Raises
    ------
    TestbedError
        When one of its processes does not end.
    """
    folder = directory / name
    began = time.monotonic()
    was_there = folder.is_dir()
    while left := processes_of(folder):
        was_there = True
        waited = time.monotonic() - began
        if waited > _VANISH_S:
            raise TestbedError(f"guest {name}: processes {left} do not end")
        if waited > _BY_ITSELF_S:  # the kernel kills them when their starter ends, and at once
            for number in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
        time.sleep(0.01)
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):  # others have guests, or there never was one
        directory.rmdir()
    return was_there


def processes_of(folder: Path) -> list[int]:
    """Return the processes that are the guest with this folder.

    A folder of that name in a container that shares its processes with this host is another one.
    """
    found = []
    marks = [(kind.PROGRAM.encode(), os.fsencode(kind.mark(folder))) for kind in _KINDS]
    for number, _ in named_processes():
        words = words_of(number)
        program = words[0].rpartition(b"/")[2] if words else b""
        marked = any(program == kernel and own in words for kernel, own in marks)
        if marked and sees_same(number, folder.parent):
            found.append(number)
    return found

"""Where a back-end's sockets are: a folder that only its owner may look into."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TextIO

from isolane.errors import TestbedError
from isolane.locks import WAIT_S, lock_soon

DIRECTORY: Final = Path("/run/isolane/netback")
CONTROL: Final = "control"
"""Name of the socket that the back-end is asked by; ports cannot have names without `.sock`."""
_LOCK: Final = "lock"
_ENDING_S: Final = 10.0
"""How long one that was killed may take to be gone."""


def socket_of(back_end: str, port: str, directory: Path = DIRECTORY) -> Path:
    """Return the socket that a virtual machine attaches to."""
    return directory / back_end / f"{port}.sock"


def control_of(back_end: str, directory: Path = DIRECTORY) -> Path:
    """Return the socket that a back-end is asked by."""
    return directory / back_end / CONTROL


def names(directory: Path = DIRECTORY) -> list[str]:
    """Return the back-ends that run, by name."""
    found = []
    with contextlib.suppress(OSError):
        for entry in sorted(directory.iterdir()):
            with contextlib.suppress(OSError), (entry / _LOCK).open() as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    found.append(entry.name)
    return found


@contextlib.contextmanager
def own_folder(
    back_end: str, directory: Path = DIRECTORY, limit_s: float = WAIT_S
) -> Iterator[Path]:
    """Hold the folder of a back-end; what a killed one of the same name has left goes first.

    Parameters
    ----------
    limit_s
        How long to wait for one of that name that is just ending, or is looked at, s.

    Raises
    ------
    TestbedError
        If a back-end of that name runs.
    """
    folder = directory / back_end
    directory.mkdir(mode=0o711, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / _LOCK).open("w") as lock:
        try:
            lock_soon(lock.fileno(), limit_s)
        except BlockingIOError:
            raise TestbedError(
                f"a network back-end named {back_end} runs; end it, or give this one another name"
            ) from None
        if not _is_at(lock, folder / _LOCK):
            raise TestbedError(f"the network back-end named {back_end} is just ending: try again")
        _empty(folder)
        try:
            yield folder
        finally:
            _empty(folder)
            with contextlib.suppress(OSError):
                (folder / _LOCK).unlink()
                folder.rmdir()
                directory.rmdir()  # unless others have theirs there


def remove_left(back_end: str, directory: Path = DIRECTORY) -> bool:
    """Remove the folder of a back-end that was killed; False where there is none.

    Raises
    ------
    TestbedError
        If a back-end of that name runs.
    """
    if not (directory / back_end).exists():
        return False
    with own_folder(back_end, directory, _ENDING_S):
        return True


def _is_at(file: TextIO, path: Path) -> bool:
    """Tell whether a path still leads to an open file: whoever had its lock may have removed it."""
    with contextlib.suppress(OSError):
        return path.samefile(f"/proc/self/fd/{file.fileno()}")
    return False


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.name != _LOCK:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(entry)  # noqa: PTH108 - of whatever kind

"""The lock that lets only one command at a time change the policy."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from isolane.enforce.policy_state import drop, in_use
from isolane.errors import NotSupported, TestbedError
from isolane.locks import lock_soon


class BusyError(TestbedError):
    """Another command is changing the policy."""


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the lock of a policy's directory; creates the directory, and removes it when unused.

    Raises
    ------
    BusyError
        When another command holds it.
    NotSupported
        When it may not create or open the directory.
    """
    while (lock := _take(directory)) is None:
        pass
    try:
        yield
    finally:
        if not in_use(directory):
            drop(directory)
        os.close(lock)


def _take(directory: Path) -> int | None:
    """Take the lock; None when another command has removed or replaced the lock file meanwhile."""
    path = directory / "lock"
    try:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:  # another command has just removed the directory
        return None
    except OSError as error:
        raise NotSupported(f"cannot open {path} ({error.strerror}): policies need root") from None
    try:
        lock_soon(lock)
        if path.stat().st_ino == os.fstat(lock).st_ino:
            return lock
    except BlockingIOError:
        os.close(lock)
        raise BusyError(f"another command is changing the policy (it holds {path})") from None
    except FileNotFoundError:
        pass
    os.close(lock)
    return None

"""A lock outlives a command that was killed while it started a process."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from isolane.locks import lock_soon

LIMIT_S = 300.0


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[], int]]:
    """Open the same file again, as another process would."""
    found: list[int] = []

    def one() -> int:
        found.append(os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC))
        return found[-1]

    yield one
    for descriptor in found:
        os.close(descriptor)


def test_a_lock_that_is_let_go_soon_is_taken(opened: Callable[[], int]) -> None:
    holder, waiting = opened(), threading.Event()
    fcntl.flock(holder, fcntl.LOCK_EX)

    def let_go() -> None:
        waiting.wait(LIMIT_S)
        time.sleep(0.02)
        fcntl.flock(holder, fcntl.LOCK_UN)

    thread = threading.Thread(target=let_go)
    thread.start()
    waiting.set()
    mine = opened()
    lock_soon(mine, wait_s=LIMIT_S)
    thread.join()
    with pytest.raises(BlockingIOError):
        fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_lock_that_is_held_is_refused(opened: Callable[[], int]) -> None:
    fcntl.flock(opened(), fcntl.LOCK_EX)
    mine = opened()
    with pytest.raises(BlockingIOError):
        lock_soon(mine, wait_s=0.01)

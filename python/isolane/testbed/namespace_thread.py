"""The one thread that changes the host.

A namespace is a property of a thread, so whoever enters one needs a thread of its own. It has a
second use: Python delivers signals to the main thread only, so Ctrl-C interrupts the waiting, but
never a step of the building or of the taking down.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class NamespaceThread:
    """Runs functions one after the other in a thread of its own."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="isolane-testbed")

    def do(self, work: Callable[[], T]) -> T:
        """Run ``work`` and return what it returns, or raise what it raises."""
        return self._pool.submit(work).result()

    def close(self) -> None:
        """End the thread once it has done what it was given."""
        self._pool.shutdown(wait=True)


def run_in_thread(work: Callable[[], T]) -> T:
    """Run ``work`` in a thread of its own, that ends with it."""
    thread = NamespaceThread()
    try:
        return thread.do(work)
    finally:
        thread.close()

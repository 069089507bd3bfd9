"""The one thread that changes the host.

A namespace is a property of a thread, so whoever enters one needs a thread of its own. It has a
second use: Python delivers signals to the main thread only, so Ctrl-C interrupts the waiting, but
never a step of the building or of the taking down.
"""

from __future__ import annotations

import _thread
import atexit
import os
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")
_LOOK_S = 0.1


class NamespaceThread:
    """Runs functions one after the other in a thread of its own.

    What this thread and those who wait for it share is written in C. Python's own pools, threads
    and events share locks that are taken in Python: Ctrl-C in the middle of that leaves a lock
    taken for good, a started thread unknown, or a running one taken for ended.
    """

    def __init__(self) -> None:
        self._given: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._closed = False
        self._ended = False
        self._runs = _thread.allocate_lock()
        self._runs.acquire()
        _thread.start_new_thread(self._run, ())

    def _run(self) -> None:
        _running.add(self)
        while (work := self._given.get()) is not None:
            work()
            del work  # and with it what it holds, before the next one comes
        _running.discard(self)
        self._ended = True
        self._runs.release()

    def begin(self, work: Callable[[], T]) -> Callable[[], T]:
        """Have ``work`` run after what was given before.

        Returns
        -------
        Callable
            Waits for it, once, and returns what it returns, or raises what it raises.
        """
        if self._closed:
            raise RuntimeError("the thread has been closed")
        answer: SimpleQueue[tuple[T] | BaseException] = SimpleQueue()

        def carry_out() -> None:
            try:
                answer.put((work(),))
            except BaseException as error:  # noqa: BLE001 - whoever waits raises it
                answer.put(error)

        def wait() -> T:
            got = answer.get()
            if not isinstance(got, BaseException):
                return got[0]
            try:
                raise got
            finally:
                del got  # its traceback refers to this frame

        self._given.put(carry_out)
        return wait

    def do(self, work: Callable[[], T]) -> T:
        """Run ``work`` and return what it returns, or raise what it raises."""
        return self.begin(work)()

    def close(self, last: Callable[[], object] | None = None) -> None:
        """End the thread once it has done what it was given, and wait for that end.

        Parameters
        ----------
        last
            What it does at its end, whatever interrupts this call: called once more afterwards,
            it may give it again. What it returns or raises is nobody's.
        """
        if last is not None and not self._closed:
            self.begin(last)
        self._closed = True
        self._given.put(None)
        while not self._ended:  # whoever has the lock, it is somebody that was interrupted here
            self._runs.acquire(timeout=_LOOK_S)


def run_in_thread(work: Callable[[], T]) -> T:
    """Run ``work`` in a thread of its own, that ends with it."""
    thread = NamespaceThread()
    try:
        return thread.do(work)
    finally:
        thread.close()


def _end_all() -> None:
    """Wait, when the interpreter ends, for what a second Ctrl-C has left running."""
    for thread in tuple(_running):
        thread.close()


_running: set[NamespaceThread] = set()
atexit.register(_end_all)
os.register_at_fork(after_in_child=_running.clear)

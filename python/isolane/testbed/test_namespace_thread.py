"""The thread that changes the host does one thing at a time, whatever interrupts the waiting."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from types import FrameType
from typing import Any

import pytest

from isolane.testbed.namespace_thread import NamespaceThread, run_in_thread

BUILDING_S = 0.002
"""What is given next would begin within this time, were there a second thread."""
LIMIT_S = 300


class _Interrupter:
    """Raises KeyboardInterrupt at one operation of the Python code that is run under it."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        frame.f_trace_opcodes = True
        if event == "opcode" and frame.f_code is not _bed.__code__:
            self.left -= 1
            if self.left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self


def _bed(told: list[str], at: int) -> bool:
    """Build and take down, interrupted at one operation; whether there was such an operation."""

    def build() -> None:
        told.append("building")
        time.sleep(BUILDING_S)
        told.append("built")

    interrupter = _Interrupter(at)
    thread = NamespaceThread()
    sys.settrace(interrupter)
    try:
        thread.do(build)
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
        try:
            thread.do(lambda: told.append("taken down"))
        finally:
            thread.close()
    return interrupter.left < 0


def test_no_interruption_makes_it_hang_or_do_two_things_at_once() -> None:
    """Ctrl-C between any two operations of the waiting thread, tried at each of them."""
    at = 0
    interrupted = True
    while interrupted:
        told: list[str] = []
        ended: list[bool] = []
        attempt = threading.Thread(
            target=lambda told=told, ended=ended, at=at: ended.append(_bed(told, at)), daemon=True
        )
        attempt.start()
        attempt.join(LIMIT_S)
        assert ended, f"interrupted at operation {at}, it has not ended; it did {told}"
        assert told in (["building", "built", "taken down"], ["taken down"]), at
        interrupted = ended[0]
        at += 1
    assert at > 20


def test_a_second_interruption_leaves_nothing_undone() -> None:
    told: list[str] = []
    thread = NamespaceThread()
    with contextlib.suppress(KeyboardInterrupt):
        sys.settrace(_Interrupter(0))
        thread.close()
    sys.settrace(None)
    thread.close()
    with pytest.raises(RuntimeError, match="has been closed"):
        thread.do(lambda: told.append("never"))
    assert told == []


def test_the_last_work_is_done_wherever_the_end_is_interrupted() -> None:
    at, interrupted = 0, True
    while interrupted:
        told: list[str] = []
        ended: list[bool] = []
        attempt = threading.Thread(
            target=lambda told=told, ended=ended, at=at: ended.append(_end_twice(told, at)),
            daemon=True,
        )
        attempt.start()
        attempt.join(LIMIT_S)
        assert ended, f"interrupted at operation {at}, it has not ended"
        assert set(told) == {"last"}, f"interrupted at operation {at}"
        interrupted = ended[0]
        at += 1
    assert at > 10


def _end_twice(told: list[str], at: int) -> bool:
    """End a thread, interrupted at one operation, and once more; whether there was such a one."""

    def last() -> None:
        told.append("last")

    interrupter = _Interrupter(at)
    thread = NamespaceThread()
    sys.settrace(interrupter)
    try:  # no contextlib.suppress(): it would be interrupted, too
        thread.close(last)
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    thread.close(last)
    return interrupter.left < 0


def test_the_last_work_may_fail() -> None:
    thread = NamespaceThread()
    thread.close(lambda: 1 / 0)
    with pytest.raises(RuntimeError, match="has been closed"):
        thread.do(lambda: None)


def test_it_returns_and_raises_what_its_work_does() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    assert run_in_thread(threading.get_ident) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        run_in_thread(fail)
    thread = NamespaceThread()
    first, second = thread.begin(lambda: 1), thread.begin(lambda: 2)
    assert (second(), first()) == (2, 1)
    thread.close()

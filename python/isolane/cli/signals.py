"""Ctrl-C, SIGTERM and SIGHUP end a command in one way: as KeyboardInterrupt.

So every command that keeps what it has when it is interrupted keeps it whoever ends it, and every
context manager cleans up on the way out.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_WORDS: Final = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "ended by SIGTERM",
    signal.SIGHUP: "ended by SIGHUP",
}
_AGAIN_S: Final = 0.01
_HEARD_S: Final = 1.0
_last = signal.SIGINT
_heard = False


def turn_into_interrupts() -> None:
    """Have SIGTERM and SIGHUP do what Ctrl-C does."""
    global _last, _heard
    _last, _heard = signal.SIGINT, False
    for number in _WORDS:
        # nohup ignores SIGHUP on purpose, and that is to stay so.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    sys.unraisablehook = _not_lost


def heed() -> None:
    """Interrupt once more what goes on although a signal was heard.

    Code in C may ask for an attribute and take any error for "it has none", the interrupt among
    them. Long work asks here between its parts; what carries on after an interrupt does not.

    Raises
    ------
    KeyboardInterrupt
        If there was a signal since `turn_into_interrupts`.
    """
    if _heard:
        raise KeyboardInterrupt


def pause(seconds: float) -> None:
    """Sleep, and hear each signal within a second.

    Python looks for signals between its steps, and the kernel ends a system call by one. A signal
    that comes after the last look and before the call waits for the call's end.
    """
    heed()
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, _HEARD_S))


def over() -> None:
    """Let no signal interrupt the rest: the command has ended, and what is left is quickly done."""
    for number in _WORDS:
        signal.signal(number, signal.SIG_IGN)


def status() -> int:
    """Return the exit status of a command that a signal has ended: 130, 143 or 129."""
    return 128 + _last


def by_ctrl_c() -> bool:
    """Whether it was the user at the terminal who ended it."""
    return _last == signal.SIGINT


def word() -> str:
    """Say what has ended the command."""
    return _WORDS[_last]


def _interrupt(number: int, _frame: FrameType | None) -> NoReturn:
    global _last, _heard
    _last, _heard = signal.Signals(number), True
    raise KeyboardInterrupt


def _not_lost(found: UnraisableHookArgs, /) -> None:
    """Interrupt once more when a finalizer was interrupted: Python ignores what is raised there.

    Other errors of finalizers, such as that of half an event loop, mean nothing to a user.
    """
    if issubclass(found.exc_type, KeyboardInterrupt):
        threading.Thread(target=_once_more, daemon=True).start()


def _once_more() -> None:
    """Send the last signal again, when the main thread has left the hook that lost it."""
    while True:
        time.sleep(_AGAIN_S)
        frame = sys._current_frames().get(threading.main_thread().ident or 0)  # noqa: SLF001
        while frame is not None and frame.f_code is not _not_lost.__code__:
            frame = frame.f_back
        if frame is None:
            os.kill(os.getpid(), _last)
            return

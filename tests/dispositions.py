"""What signals do in the processes that tests and acceptance start."""

from __future__ import annotations

import signal


def unignore() -> None:
    """Have signals that this process ignores not be ignored by those that it starts, too.

    What is ignored stays so in a new program, and would keep a command that is under test from
    ending: SIGINT of a background job, SIGHUP under nohup. What is *handled* gets its default back.
    """
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _still_ignored)


def _still_ignored(*_: object) -> None:
    pass

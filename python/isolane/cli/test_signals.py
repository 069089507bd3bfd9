"""Signals end a command, wherever they find it."""

from __future__ import annotations

import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from isolane.cli import signals

IN_A_FINALIZER = """
import signal, time
from isolane.cli import signals

class Finalized:
    def __del__(self):
        signal.raise_signal(signal.{name})
        time.sleep(0)

signals.turn_into_interrupts()
try:
    Finalized()
    while True:
        time.sleep(0.1)  # a signal just before it is heard after it
except KeyboardInterrupt:
    raise SystemExit(signals.status())
"""


SWALLOWED = """
import ctypes, signal
from isolane.cli import signals

class Asked:
    @property
    def name(self):
        signal.raise_signal(signal.{name})
        return 1

signals.turn_into_interrupts()
ask = ctypes.pythonapi.PyObject_HasAttrString
ask.argtypes = (ctypes.py_object, ctypes.c_char_p)
signals.heed()
assert ask(Asked(), b"name") == 0, "the interrupt was taken for: it has none"
try:
    signals.heed()
except KeyboardInterrupt:
    raise SystemExit(signals.status())
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_interrupt_that_code_in_c_swallows_comes_again(name: str) -> None:
    program = [sys.executable, "-c", SWALLOWED.format(name=name)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (128 + signal.Signals[name], "")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_in_the_middle_of_a_finalizer_is_not_lost(name: str) -> None:
    program = [sys.executable, "-c", IN_A_FINALIZER.format(name=name)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (128 + signal.Signals[name], "")


def test_a_pause_is_a_row_of_short_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    slept = [0.0]
    clock = SimpleNamespace(monotonic=lambda: sum(slept), sleep=slept.append)
    monkeypatch.setattr(signals, "time", clock)
    monkeypatch.setattr(signals, "_heard", False)
    signals.pause(3.5)
    assert slept == [0.0, 1.0, 1.0, 1.0, 0.5]
    signals.pause(-1.0)
    assert sum(slept) == 3.5


LEFT_AT_THE_END = """
import errno, os, sys
from isolane.cli import app

class HalfMade:
    def __init__(self):
        self.me = self  # a cycle: finalized at the very end

    def __del__(self):
        raise ValueError("Invalid file descriptor: -1")

def fails(**_):
    global left
    left = HalfMade()
    HalfMade().me = None
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

app.build = lambda _: fails
app.main()
"""


def test_what_else_finalizers_raise_means_nothing_to_a_user() -> None:
    """Among these is what asyncio says of an event loop that lacked a file descriptor."""
    command = [sys.executable, "-c", LEFT_AT_THE_END]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.stderr.startswith("isolane: error: too many open files: ")
    assert done.stderr.count("\n") == 1, "its one line, and no raw lines of libraries"
    assert done.returncode == 1

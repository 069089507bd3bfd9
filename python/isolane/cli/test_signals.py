"""Signals end a command, wherever they find it."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

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
    time.sleep(600)
except KeyboardInterrupt:
    raise SystemExit(signals.status())
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_in_the_middle_of_a_finalizer_is_not_lost(name: str) -> None:
    program = [sys.executable, "-c", IN_A_FINALIZER.format(name=name)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (128 + signal.Signals[name], "")


def test_other_trouble_in_a_finalizer_is_told() -> None:
    program = IN_A_FINALIZER.replace("signal.raise_signal(signal.{name})", "raise ValueError(7)")
    program = program.replace("time.sleep(600)", "raise KeyboardInterrupt")
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert "ValueError: 7" in done.stderr
    assert done.returncode == 128 + signal.SIGINT

"""The plugin by which no test hurts another."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.live import ROOT, environment

LIMIT_S = 600.0
TWO = """\
import threading

gone = []

class Held:
    def __init__(self):
        self.itself = self
    def __del__(self):
        gone.append(threading.current_thread().name)

def hold():
    held = Held()
    raise ValueError

def test_that_fails():
    held = Held()
    try:
        hold()
    except ValueError as error:
        raise ExceptionGroup("both", [error, AssertionError()]) from error

def test_that_comes_after_it():
    assert gone == ["MainThread"] * 2
"""


def test_what_a_failed_test_holds_is_gone_before_the_next_one(tmp_path: Path) -> None:
    test = tmp_path / "test_two.py"
    test.write_text(TWO)
    plugin = ("-p", "tests.host_as_before", "-p", "no:cacheprovider", "-q")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugin, str(test)],
        cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert "1 failed, 1 passed" in done.stdout, done.stdout

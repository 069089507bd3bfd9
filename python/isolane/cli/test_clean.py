from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from isolane.cli.test_app import isolane

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lock is root's"),
]


@pytest.fixture(autouse=True)
def _cleaned() -> None:
    """Remove what others left, make the lock file; nothing can be tested beside a real run."""
    if "another run is under way" in isolane("clean").stderr:
        pytest.skip("a run is under way on this host")


def test_nothing_to_clean_is_fine_and_said_on_stderr() -> None:
    shown = isolane("clean")
    assert shown.returncode == 0
    assert shown.stdout == ""
    assert shown.stderr == "nothing to remove: no run left anything behind\n"


def test_refuses_while_a_run_is_under_way() -> None:
    with Path("/run/isolane/lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shown = isolane("clean")
    assert shown.returncode == 1
    assert shown.stderr.startswith("isolane: error: another run is under way")

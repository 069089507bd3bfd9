"""Which modules a command loads: those that it can do without make it slow to start."""

from __future__ import annotations

import subprocess
import sys


def loading(*words: str) -> subprocess.CompletedProcess[str]:
    """Carry out a command; its stderr tells which modules it loaded, too."""
    return subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "isolane", *words],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip


def loaded(done: subprocess.CompletedProcess[str]) -> set[str]:
    """Return the names of the modules that a command loaded."""
    lines = [line.rpartition("|") for line in done.stderr.splitlines()]
    found = {name.strip() for start, _, name in lines if start.startswith("import time:")}
    assert "isolane.spec" in found
    return found

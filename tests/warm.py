"""The command line, that begins when told to: so that it is killed at work, not at its start."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

from tests.live import environment

WAITING = """
import sys
import isolane.enforce, isolane.spec
from isolane.cli.app import main
print("ready", flush=True)
sys.stdin.readline()
main()
"""


@contextlib.contextmanager
def warm(*words: object) -> Iterator[subprocess.Popen[str]]:
    """A command that waits for a line."""
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING, *map(str, words)],
        env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.kill()


def begin(process: subprocess.Popen[str]) -> None:
    """Tell it to begin, once it has imported everything."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.stdin.write("\n")
    process.stdin.close()

"""A process in mounts of its own, as in a container that shares its processes with this host."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

BEGUN_AND_WAITING = "print(1, flush=True); input()"
"""Python: what such a process runs."""


@contextmanager
def in_own_mounts(first: str, begin: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Have a process that says 1 and waits.

    Parameters
    ----------
    first
        Shell command in its mounts, before it begins.
    begin
        Shell command that becomes the process; ``words`` are its ``$@``.
    """
    with subprocess.Popen(
        ["unshare", "--mount", "bash", "-ec", f"{first}\n{begin}", "bash", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "1\n"
        try:
            yield process
        finally:
            process.kill()

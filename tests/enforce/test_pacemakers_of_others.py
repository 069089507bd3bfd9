"""Whose pacemakers are whose: one name in containers that share their processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from isolane.enforce.settings.pacemaking import MODULE, running

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("needs_root")]

GROUP = f"isolane-test-{os.getpid()}"
BEGUN_AND_WAITING = "print(1, flush=True); input()"


@contextmanager
def like_a_pacemaker(first: str) -> Iterator[subprocess.Popen[str]]:
    """Have a process that looks like one, in mounts of its own, after a command in them."""
    words = [sys.executable, "-c", BEGUN_AND_WAITING, MODULE, GROUP, "{}"]
    with subprocess.Popen(
        ["unshare", "--mount", "sh", "-ec", f'{first}\nexec "$@"', "sh", *words],
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


def test_a_pacemaker_that_sees_these_files_is_found() -> None:
    with like_a_pacemaker("true") as process:
        assert list(running(GROUP)) == [(process.pid, "{}")]


def test_one_that_sees_others_is_somebody_elses() -> None:
    with like_a_pacemaker("mount -t tmpfs none /run"):
        assert list(running(GROUP)) == []

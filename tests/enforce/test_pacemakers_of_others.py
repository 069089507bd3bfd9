"""Whose pacemakers are whose: one name in containers that share their processes."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import AbstractContextManager

import pytest
from isolane.enforce.settings.pacemaking import MODULE, running

from tests.own_mounts import BEGUN_AND_WAITING, in_own_mounts

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("needs_root")]

GROUP = f"isolane-test-{os.getpid()}"


def like_a_pacemaker(first: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """Have a process that looks like one, in mounts of its own, after a command in them."""
    words = (sys.executable, "-c", BEGUN_AND_WAITING, MODULE, GROUP, "{}")
    return in_own_mounts(first, 'exec "$@"', *words)


def test_a_pacemaker_that_sees_these_files_is_found() -> None:
    with like_a_pacemaker("true") as process:
        assert list(running(GROUP)) == [(process.pid, "{}")]


def test_one_that_sees_others_is_somebody_elses() -> None:
    with like_a_pacemaker("mount -t tmpfs none /run"):
        assert list(running(GROUP)) == []

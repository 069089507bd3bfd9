"""Whose pacemakers are whose: one name in containers that share their processes."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from isolane.enforce.settings.pacemaking import MODULE, running
from isolane.procfs import named_processes, words_of

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


def test_one_of_another_user_is_not_ours_even_if_root_owns_its_files() -> None:
    hidden = "import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); " + BEGUN_AND_WAITING
    words = (sys.executable, "-c", hidden, MODULE, GROUP, "{}")
    nobody = 'exec setpriv --reuid 65534 --clear-groups "$@"'
    with in_own_mounts("true", nobody, *words) as process:
        assert Path(f"/proc/{process.pid}/cmdline").stat().st_uid == 0
        assert list(running(GROUP)) == []


def test_one_in_a_container_with_processes_of_its_own_is_not_ours() -> None:
    own = GROUP.encode()
    python = f"{sys.executable} -c '{BEGUN_AND_WAITING}' {MODULE} {GROUP} '{{}}'"
    begin = f'exec unshare --pid --fork --kill-child bash -c "exec {python}"'
    with in_own_mounts("true", begin):
        alike = [n for n, _ in named_processes() if words_of(n)[-3:-1] == (MODULE.encode(), own)]
        assert len(alike) == 1
        assert list(running(GROUP)) == []


def test_one_that_sees_others_is_somebody_elses() -> None:
    with like_a_pacemaker("mount -t tmpfs none /run"):
        assert list(running(GROUP)) == []

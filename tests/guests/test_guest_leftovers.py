"""Whose guests are whose: folders of one name in containers that share their processes."""

from __future__ import annotations

import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from isolane.guests import UmlGuest, remove_left
from isolane.guests.leftovers import processes_of

from tests.own_mounts import BEGUN_AND_WAITING, in_own_mounts

pytestmark = [pytest.mark.root, pytest.mark.beside, pytest.mark.usefixtures("needs_root")]

LIKE_A_GUEST = f'exec -a {UmlGuest.PROGRAM} "{sys.executable}" -c "{BEGUN_AND_WAITING}" "$1"'


def like_a_guest(folder: Path, first: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """Have a process that looks like a guest's, in mounts of its own, after a command in them."""
    return in_own_mounts(first, LIKE_A_GUEST, UmlGuest.mark(folder))


def test_a_guest_with_these_files_is_found_and_ended(tmp_path: Path) -> None:
    folder = tmp_path / "guests" / "one"
    with like_a_guest(folder, "true") as process:
        assert processes_of(folder) == [process.pid], "without its folder, too"
        folder.mkdir(parents=True)
        assert processes_of(folder) == [process.pid]
        assert remove_left("one", folder.parent)
        assert process.wait() < 0
    assert not folder.parent.exists()


def test_a_guest_with_other_files_of_that_name_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "guests" / "one"
    own = f"mount -t tmpfs none {tmp_path}"
    for first in (own, f"{own}; mkdir -p {folder}"):
        folder.mkdir(parents=True)
        with like_a_guest(folder, first) as process:
            assert processes_of(folder) == []
            remove_left("one", folder.parent)
            assert process.poll() is None

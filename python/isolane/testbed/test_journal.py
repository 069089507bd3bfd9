"""Journal and lock, in a directory of their own: needs no root."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from isolane.errors import TestbedError
from isolane.testbed.cleaning import clean
from isolane.testbed.journal import Journal, exclusive


def test_the_lock_is_refused_while_held_and_free_afterwards(tmp_path: Path) -> None:
    with exclusive(tmp_path):
        with pytest.raises(TestbedError) as refused, exclusive(tmp_path):
            pass
        assert str(refused.value).startswith(f"another run is under way (pid {os.getpid()}, ")
    with exclusive(tmp_path):
        pass


def test_the_lock_is_free_after_an_exception(tmp_path: Path) -> None:
    with pytest.raises(KeyError), exclusive(tmp_path):
        raise KeyError
    with exclusive(tmp_path):
        pass


def test_without_permission_the_message_says_what_is_needed(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TestbedError, match="needs root"), exclusive(tmp_path / "file"):
        pass


def test_clean_removes_journals_of_others_only(tmp_path: Path) -> None:
    with exclusive(tmp_path) as journal:
        journal.record("netns", name="isolane-never-made")
        dead = tmp_path / "journal-1-2-0.jsonl"
        # A run that was killed while it wrote: the last line is cut short.
        dead.write_text('{"what": "netns", "name": "isolane-never-made"}\n{"what": "net')
        assert clean(tmp_path) == []
        assert not dead.exists()
        assert journal.path.exists()
        journal.finish()
        assert list(tmp_path.glob("journal-*")) == []


def test_what_cannot_be_removed_is_named_and_keeps_nothing_else(tmp_path: Path) -> None:
    first, second = tmp_path / "journal-1-2-0.jsonl", tmp_path / "journal-1-3-0.jsonl"
    first.mkdir()
    second.write_bytes(b'{"what": "netns", "name": "isolane-never-made"}\n[1]\n{}\n\xff\xfe\n')
    with (
        exclusive(tmp_path),
        pytest.raises(TestbedError, match=f"not everything could be removed: {first}: Is a dir"),
    ):
        clean(tmp_path)
    assert not second.exists()


def test_a_journal_given_up_is_left_to_the_next_clean(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.record("netns", name="isolane-never-made")
    journal.close()
    with exclusive(tmp_path):
        clean(tmp_path)
    assert not journal.path.exists()


def test_what_cannot_be_journalled_is_not_made(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "missing")
    with pytest.raises(TestbedError, match=r"cannot write the journal .*missing"):
        journal.record("netns", name="isolane-gen")

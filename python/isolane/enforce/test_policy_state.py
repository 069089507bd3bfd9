from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

import pytest

from isolane.enforce.policy_lock import locked
from isolane.enforce.policy_state import AppliedSetting, State, drop, in_use
from isolane.errors import NotSupported, TestbedError


def test_what_is_saved_is_loaded_in_the_same_order(tmp_path: Path) -> None:
    state = State(tmp_path)
    state.applied = {key: AppliedSetting(None, [1, True], router="vr1") for key in ("z", "a", "m")}
    state.about = {"policy": "edge"}
    state.number("queue:vr1:eth0", 8)
    state.save()
    loaded = State.load(tmp_path)
    assert list(loaded.applied) == ["z", "a", "m"]
    assert (loaded.applied, loaded.about, loaded.numbers) == (
        state.applied,
        state.about,
        state.numbers,
    )


def test_the_names_in_the_file_stay_as_they_were(tmp_path: Path) -> None:
    # A host is updated while a policy is in force: clear reads what an older version has written.
    one = {"original": 0, "wanted": 1, "floating": True, "router": "vr1"}
    text = {"generation": 3, "done": {"a": one}, "numbers": {}, "about": {"policy": "edge"}}
    (tmp_path / "state.json").write_text(json.dumps(text))
    state = State.load(tmp_path)
    assert state.applied == {"a": AppliedSetting(0, 1, kernel_managed=True, router="vr1")}
    state.save()
    assert json.loads((tmp_path / "state.json").read_text()) == {**text, "generation": 4}


def test_nothing_in_force_leaves_nothing(tmp_path: Path) -> None:
    state = State(tmp_path, about={"policy": "edge"})
    state.save()
    assert in_use(tmp_path)
    state.about = {}
    state.save()
    assert not in_use(tmp_path)
    drop(tmp_path)
    assert not tmp_path.exists()


def test_a_directory_with_something_else_in_it_stays(tmp_path: Path) -> None:
    (tmp_path / "theirs").touch()
    drop(tmp_path)
    assert (tmp_path / "theirs").exists()


def test_notes_are_there_before_the_change_and_gone_after_it(tmp_path: Path) -> None:
    state = State(tmp_path)
    state.note("a", {"deep": [1]})
    state.note("b", None)
    assert in_use(tmp_path)
    assert State.load(tmp_path).unfinished() == [("a", {"deep": [1]}), ("b", None)]
    state.save()
    assert State.load(tmp_path).unfinished() == []


def test_a_note_that_was_cut_short_is_no_note(tmp_path: Path) -> None:
    line = json.dumps({"key": "a", "before": 1})
    (tmp_path / "open.jsonl").write_text(f"{line}\n{line[:9]}")
    assert State.load(tmp_path).unfinished() == [("a", 1)]


def test_a_journal_that_outlived_the_end_of_its_command_says_nothing(tmp_path: Path) -> None:
    """Whether that has put a policy in force, or ended it."""
    journal = tmp_path / "open.jsonl"
    for about in ({"policy": "edge"}, {"policy": "core"}, {}):
        state = State.load(tmp_path)
        state.note("a", None)
        kept = journal.read_bytes()
        state.about = about
        state.save()
        journal.write_bytes(kept)  # killed before it could be removed
        assert State.load(tmp_path).unfinished() == []


def test_numbers_are_the_lowest_free_of_their_kind(tmp_path: Path) -> None:
    state = State(tmp_path)
    assert [state.number(f"queue:{name}:eth0", 9) for name in ("a", "b", "a")] == [0, 1, 0]
    assert state.number("class:a", 99, 16) == 16
    with pytest.raises(TestbedError, match="no number is left for queue:c:eth0: 2 are in use"):
        state.number("queue:c:eth0", 2)


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    state = State(tmp_path / "absent", about={"policy": "edge"})
    with pytest.raises(TestbedError, match=r"cannot write .*absent/state.json: No such file"):
        state.save()
    with pytest.raises(TestbedError, match=r"cannot write .*absent/open.jsonl: No such file"):
        state.note("a", None)


def test_the_lock_lets_one_in_and_leaves_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "deep" / "policy"
    with locked(directory):
        with pytest.raises(TestbedError, match=r"another command .*policy/lock"), locked(directory):
            pass
        assert (directory / "lock").exists()
    assert not directory.exists()


def test_the_lock_stays_with_a_policy_in_force(tmp_path: Path) -> None:
    with locked(tmp_path):
        State(tmp_path, about={"policy": "edge"}).save()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lock", "state.json"]


def test_a_lock_file_that_was_removed_is_no_lock(tmp_path: Path) -> None:
    """Whoever waited for it would hold a file that nobody else sees."""
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    (tmp_path / "lock").unlink()
    with locked(tmp_path):
        assert (tmp_path / "lock").stat().st_ino != os.fstat(lock).st_ino
    os.close(lock)


def test_without_the_right_to_make_the_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotSupported, match="policies need root"), locked(tmp_path / "file" / "x"):
        pass

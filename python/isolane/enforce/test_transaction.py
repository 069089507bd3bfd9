"""The engine with settings that are small files: all or nothing, back as it was, whose is what."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isolane.enforce import transaction
from isolane.enforce.host_access import Host
from isolane.enforce.policy_state import AppliedSetting, State
from isolane.enforce.setting import Desired, Setting, Value, from_key
from isolane.enforce.transaction import OwnedByOthersError
from isolane.errors import TestbedError

NO_HOST = cast("Host", None)
"""These settings need none."""
ABOUT = {"policy": "p"}


@dataclass(frozen=True)
class Line(Setting):
    """A file of one line; a file named ``locked`` cannot be written."""

    kind: ClassVar[str] = "test-line"
    adoptable: ClassVar[bool] = True
    path: str

    def __str__(self) -> str:
        return f"file {Path(self.path).name}"

    def read(self, host: Host) -> Value:  # noqa: ARG002
        try:
            return Path(self.path).read_text()
        except FileNotFoundError:
            return None

    def write(self, host: Host, value: Value) -> None:  # noqa: ARG002
        if self.path.endswith("locked"):
            raise TestbedError("it is locked")
        if value is None:
            Path(self.path).unlink(missing_ok=True)
        else:
            Path(self.path).write_text(value)

    def owned_by_others(self, host: Host, current: Value) -> str | None:  # noqa: ARG002
        return "it is theirs" if current and current.startswith("theirs") else None


@dataclass(frozen=True)
class Leader(Line):
    """A file that says ``folder/name``; another one of that folder leaves it together with it."""

    kind: ClassVar[str] = "test-leader"
    other: str

    def write(self, host: Host, value: Value) -> None:
        other = Line(self.other)
        together = _folder(other.read(host)) == _folder(self.read(host)) != _folder(value)
        super().write(host, value)
        if together:
            other.write(host, value)

    def with_it(self, host: Host) -> Iterator[Setting]:  # noqa: ARG002
        yield Line(self.other)


def _folder(value: Value) -> str:
    return str(value).partition("/")[0]


@dataclass
class World:
    """A directory of settings, and one of the state."""

    settings: Path
    kept: Path

    def desired(self, name: str, value: str, *, kernel_managed: bool = False) -> Desired:
        return Desired(
            Line(str(self.settings / name)), value, kernel_managed=kernel_managed, router=name
        )

    def apply(self, *, adopt: bool = False, **wanted: str) -> transaction.Changes:
        desired_settings = (self.desired(name, value) for name, value in wanted.items())
        return transaction.apply(desired_settings, self.state, NO_HOST, ABOUT, adopt=adopt)

    def begin(self, **before: str | None) -> None:
        """Do what a command does that is killed then."""
        state = self.state
        for name, value in before.items():
            state.note(Line(str(self.settings / name)).key, value)
        assert state._open is not None
        state._open.close()

    def clear(self) -> list[str]:
        return transaction.clear(self.state, NO_HOST)

    def drifts(self) -> list[transaction.Drift]:
        state = self.state
        return transaction.drifts(state, transaction.read_all(state, NO_HOST))

    @property
    def state(self) -> State:
        """As the next command would find it."""
        return State.load(self.kept)

    def now(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.settings.iterdir()}

    def put(self, **files: str) -> None:
        for name, text in files.items():
            (self.settings / name).write_text(text)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


def make_world(folder: Path) -> World:
    (folder / "settings").mkdir()
    (folder / "state").mkdir()
    return World(folder / "settings", folder / "state")


def test_settings_are_found_again_by_their_keys() -> None:
    setting = Line("/x")
    assert from_key(setting.key) == setting


def test_desired_settings_are_applied_and_put_back(world: World) -> None:
    world.put(a="before")
    changes = world.apply(a="1", b="2")
    assert changes.changed == ["file a: before -> 1", "file b: none -> 2"]
    assert world.now() == {"a": "1", "b": "2"}
    assert world.state.about == ABOUT
    assert world.clear() == []
    assert world.now() == {"a": "before"}
    assert list(world.kept.iterdir()) == []


def test_what_changes_with_another_one_is_put_back_too(world: World) -> None:
    before = {"a": "here/1", "b": "here/2"}
    world.put(**before)
    leader = Leader(str(world.settings / "a"), str(world.settings / "b"))
    wanted = [Desired(leader, "there"), world.desired("b", "there")]
    transaction.apply(wanted, world.state, NO_HOST, ABOUT)
    assert world.now() == {"a": "there", "b": "there"}
    assert world.clear() == []
    assert world.now() == before
    locked = world.desired("locked", "new")
    with pytest.raises(TestbedError, match="it is locked"):
        transaction.apply([wanted[0], locked], world.state, NO_HOST, ABOUT)
    assert world.now() == before


def test_a_second_apply_changes_nothing(world: World) -> None:
    world.apply(a="1", b="2")
    again = world.apply(a="1", b="2")
    assert (again.changed, again.unchanged) == ([], 2)


def test_what_is_wished_for_no_more_is_put_back(world: World) -> None:
    world.put(a="before")
    world.apply(a="1", b="2")
    assert world.apply(b="3").changed == ["file b: 2 -> 3", "file a: put back"]
    assert world.now() == {"a": "before", "b": "3"}
    world.clear()
    assert world.now() == {"a": "before"}


def test_what_was_right_already_is_not_ours_to_remove(world: World) -> None:
    world.put(a="1")
    assert world.apply(a="1").unchanged == 1
    world.clear()
    assert world.now() == {"a": "1"}


def test_a_failure_undoes_what_was_done_before_it(world: World) -> None:
    world.put(a="before")
    world.apply(a="1")
    world.put(locked="x")
    with pytest.raises(TestbedError, match=r"^it is locked$"):
        world.apply(b="2", a="3", locked="y")
    assert world.now() == {"a": "1", "locked": "x"}
    assert world.drifts() == []
    assert not (world.kept / "open.jsonl").exists()
    world.clear()
    assert world.now() == {"a": "before", "locked": "x"}


def test_an_interruption_undoes_too(world: World) -> None:
    def desired_settings() -> Iterator[Desired]:
        yield world.desired("a", "1")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        transaction.apply(desired_settings(), world.state, NO_HOST, ABOUT)
    assert world.now() == {}
    assert world.state.applied == {}


def test_a_setting_that_does_not_take_the_desired_value_is_a_failure(world: World) -> None:
    (world.settings / "a").symlink_to("/dev/null")
    with pytest.raises(TestbedError, match="file a: set to 1, but the kernel made it "):
        world.apply(b="2", a="1")
    assert not (world.settings / "b").exists()


def test_a_kernel_managed_setting_may_have_another_value_later(world: World) -> None:
    transaction.apply([world.desired("a", "1", kernel_managed=True)], world.state, NO_HOST, ABOUT)
    world.put(a="moved")
    assert world.drifts() == []
    again = transaction.apply(
        [world.desired("a", "1", kernel_managed=True)], world.state, NO_HOST, ABOUT
    )
    assert again.changed == []
    assert world.now() == {"a": "moved"}


def test_what_is_somebody_elses_is_refused_and_named(world: World) -> None:
    world.put(b="theirs 1")
    with pytest.raises(OwnedByOthersError, match=r"file b: it is theirs; .* --adopt .*nothing was"):
        world.apply(a="1", b="2")
    assert world.now() == {"b": "theirs 1"}
    with pytest.raises(OwnedByOthersError):  # also when it happens to be the desired value
        world.apply(b="theirs 1")
    world.apply(adopt=True, a="1", b="2")
    assert world.now() == {"a": "1", "b": "2"}
    world.clear()
    assert world.now() == {"b": "theirs 1"}


def test_what_somebody_else_put_there_meanwhile_stays(world: World) -> None:
    world.apply(a="1")
    world.put(a="theirs 2")
    with pytest.raises(OwnedByOthersError):
        world.apply(a="3")
    assert world.clear() == []
    assert world.now() == {"a": "theirs 2"}
    assert world.state.applied == {}


def test_drift_is_told_with_what_was_wanted_and_repaired(world: World) -> None:
    world.apply(a="1", b="2")
    world.put(a="9")
    (world.settings / "b").unlink()
    first, second = world.drifts()
    assert (first.setting, first.wanted, first.found, first.router) == ("file a", "1", "9", "a")
    assert second.found is None
    assert len(world.apply(a="1", b="2").changed) == 2
    assert world.drifts() == []
    world.clear()
    assert world.now() == {}


def test_what_cannot_be_put_back_is_named_and_kept_for_the_next_clear(world: World) -> None:
    world.apply(a="1", b="2")
    state = world.state
    key = Line(str(world.settings / "locked")).key
    state.applied[key] = AppliedSetting("x", "y")
    state.save()
    assert world.clear() == ["file locked: it is locked"]
    assert world.now() == {}
    assert list(world.state.applied) == [key]
    world.put(locked="x")  # somebody has seen to it
    assert world.clear() == []
    assert world.state.applied == {}


def test_a_killed_command_is_rolled_back_by_the_next(world: World) -> None:
    world.put(a="before")
    world.apply(a="1")
    world.begin(a="1", b=None)
    world.put(a="2")  # killed before it came to b
    assert transaction.recover(world.state, NO_HOST) == 2
    assert world.now() == {"a": "1"}
    assert transaction.recover(world.state, NO_HOST) == 0
    assert world.drifts() == []


def test_what_cannot_be_rolled_back_is_told_once_and_left_to_clear(world: World) -> None:
    world.put(locked="2")
    world.begin(locked="1")
    with pytest.raises(TestbedError, match="could not be undone: file locked: it is locked"):
        transaction.recover(world.state, NO_HOST)
    assert transaction.recover(world.state, NO_HOST) == 0
    assert world.clear() == ["file locked: it is locked"]


def test_a_killed_clear_is_gone_on_with_and_not_undone(world: World) -> None:
    world.put(a="before")
    world.apply(a="1", b="1")
    world.begin(b="1")
    (world.settings / "b").unlink()
    # What b belonged to is gone, as the namespace of a test bed is: it cannot be made any more.
    (world.settings / "b").symlink_to(world.settings / "absent" / "b")
    assert world.clear() == []
    (world.settings / "b").unlink()
    assert world.now() == {"a": "before"}
    assert (world.state.applied, world.state.unfinished()) == ({}, [])


def test_a_killed_apply_is_cleared_without_being_rolled_back_first(world: World) -> None:
    world.put(a="before")
    world.apply(a="1")
    world.begin(a="1", c=None)
    world.put(a="2", c="theirs, were it not for the journal")
    assert world.clear() == []
    assert world.now() == {"a": "before"}


def test_numbers_of_what_is_gone_are_given_out_again(world: World) -> None:
    state = world.state
    assert [state.number(f"queue:{name}", 2) for name in "ab"] == [0, 1]
    transaction.apply([world.desired("x", "1")], state, NO_HOST, ABOUT)
    state = world.state
    assert state.number("queue:b", 2) == 1
    transaction.apply([world.desired("x", "1")], state, NO_HOST, ABOUT)
    assert world.state.number("queue:c", 2) == 0


NAMES = st.sampled_from("abcd")
POLICIES = st.dictionaries(NAMES, st.sampled_from(["1", "2"]), max_size=4)


@settings(max_examples=30, deadline=None)
@given(
    before=st.dictionaries(NAMES, st.sampled_from(["before", "1"])),
    steps=st.lists(st.tuples(POLICIES, st.integers(-1, 6)), max_size=4),
)
def test_whatever_is_applied_and_wherever_it_is_killed_clear_puts_back(
    before: dict[str, str],
    steps: list[tuple[dict[str, str], int]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    world = make_world(tmp_path_factory.mktemp("world"))
    world.put(**before)
    for policy, killed_after in steps:
        transaction.recover(world.state, NO_HOST)
        if killed_after < 0:
            world.apply(adopt=False, **policy)
            assert {name: world.now()[name] for name in policy} == policy
        elif (child := os.fork()) == 0:
            try:
                transaction.apply(_deadly(world, policy, killed_after), world.state, NO_HOST, ABOUT)
            finally:
                os._exit(0)
        else:
            os.waitpid(child, 0)
    transaction.recover(world.state, NO_HOST)
    assert world.drifts() == []
    assert world.clear() == []
    assert world.now() == before


def _deadly(world: World, policy: dict[str, str], after: int) -> Iterator[Desired]:
    """DesiredSettings in the middle of which the process ends, as by kill -9."""
    for count, (name, value) in enumerate(policy.items()):
        if count == after:
            os._exit(9)
        yield world.desired(name, value)

"""Settings of what others remove at the worst moment: an answer, not an error."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar, cast

import pytest

from isolane import scheduling
from isolane.enforce import napi_threads, transaction
from isolane.enforce.host_access import Host
from isolane.enforce.host_checks import check
from isolane.enforce.policy_notes import notes
from isolane.enforce.policy_state import AppliedSetting, State
from isolane.enforce.router_facts import FoundRouter, Interface
from isolane.enforce.setting import Desired, Setting, Value
from isolane.enforce.settings import Affinity, DeviceFile, Member, Scheduling, Slice
from isolane.enforce.settings.controllers import needed
from isolane.enforce.steering import steer
from isolane.errors import SpecError, TestbedError
from isolane.spec.policy import parse_policy
from isolane.testbed.netns import Namespace

ABOUT = {"policy": "p"}
NO_HOST = cast("Host", None)
THREAD = 4242


@dataclass(frozen=True)
class Fickle(Setting):
    """A file that somebody removes just before it is written, and with it its folder."""

    kind: ClassVar[str] = "test-fickle"
    path: str
    gone: bool = True

    def __str__(self) -> str:
        return "the fickle one"

    def there(self, host: Host) -> bool:  # noqa: ARG002
        return Path(self.path).parent.exists()

    def read(self, host: Host) -> Value:  # noqa: ARG002
        return Path(self.path).read_text()

    def write(self, host: Host, value: Value) -> None:  # noqa: ARG002
        if self.gone:
            Path(self.path).unlink()
            Path(self.path).parent.rmdir()
        raise OSError(errno.EIO, "it cannot be written")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "object" / "setting"
    made.parent.mkdir()
    made.write_text("old")
    return made


@pytest.fixture
def state(tmp_path: Path) -> State:
    (tmp_path / "state").mkdir()
    return State.load(tmp_path / "state")


def test_applying_to_what_goes_away_says_so_and_leaves_nothing(file: Path, state: State) -> None:
    with pytest.raises(TestbedError, match="the fickle one: it went away meanwhile; apply"):
        transaction.apply([Desired(Fickle(str(file)), "new")], state, NO_HOST, ABOUT)
    assert state.applied == {}


def test_clearing_what_goes_away_is_no_problem(file: Path, state: State) -> None:
    setting = Fickle(str(file))
    state.applied[setting.key] = AppliedSetting("older", "old")
    assert transaction.clear(state, NO_HOST) == []
    assert state.applied == {}


def test_what_is_there_and_cannot_be_written_is_a_problem(file: Path, state: State) -> None:
    setting = Fickle(str(file), gone=False)
    state.applied[setting.key] = AppliedSetting("older", "old")
    (problem,) = transaction.clear(state, NO_HOST)
    assert "it cannot be written" in problem


def ended(*_: object, **__: object) -> None:
    raise ProcessLookupError(errno.ESRCH, "No such process")


@pytest.mark.parametrize("kind", [Affinity, Scheduling, Slice, Member])
def test_a_thread_that_ends_while_it_is_looked_at_has_no_value(
    kind: Callable[..., Setting], state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives = [True]  # when it is asked for the first time

    def started(_: int) -> int | None:
        return 7 if lives and lives.pop() else None

    groups = SimpleNamespace(of_thread=ended, move=ended)
    host = cast("Host", SimpleNamespace(groups=groups))
    monkeypatch.setattr("isolane.enforce.settings.tasks.started", started)
    monkeypatch.setattr(os, "sched_getaffinity", ended)
    monkeypatch.setattr(scheduling, "get_scheduling", ended)
    setting = kind("vr1", "thread of eth0", THREAD, 7)
    state.applied[setting.key] = AppliedSetting(1, 2)
    assert transaction.read_all(state, host) == {setting.key: None}


def test_an_interface_that_goes_before_it_is_written_needs_nothing(state: State) -> None:
    there = [True]

    def write(*_: object) -> None:
        there.clear()
        raise OSError(errno.ENODEV, "No such device")

    namespace = SimpleNamespace(read=lambda *_: "1", write=write)
    host = cast(
        "Host",
        SimpleNamespace(namespace=lambda _: namespace, ifindex=lambda *_: 3 if there else None),
    )
    setting = DeviceFile("/run/netns/x", "eth0", "threaded")
    state.applied[setting.key] = AppliedSetting(0, 1)
    assert transaction.clear(state, host) == []


def test_a_cgroup_that_goes_while_it_is_looked_at_needs_no_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, theirs = tmp_path / "own", tmp_path / "theirs"
    own.mkdir()
    theirs.mkdir()
    look = Path.stat

    def stat(path: Path, **named: bool) -> os.stat_result:
        if path == theirs and own.exists() and stat_of_own:
            theirs.rmdir()
        if path == own:
            stat_of_own.append(path)
        return look(path, **named)

    stat_of_own: list[Path] = []
    monkeypatch.setattr(Path, "stat", stat)
    monkeypatch.setattr(Path, "is_dir", lambda _: True)
    assert not needed(tmp_path, own, "cpu")


@pytest.mark.parametrize("steering", ["auto", "hardware", "software", "none"])
def test_a_nic_that_has_gone_under_a_policy_is_told_by_status(steering: str) -> None:
    policy = parse_policy(
        f"isolane: 1\nname: p\nnics: {{nic0: {{rate: 1Gbps, steer: {steering}}}}}\n"
        "routers: {vr1: {netns: vr1}}\n"
    )
    at = Interface("veth", Path("/vr1"), "eth0", 5, "02:00:00:00:00:01", host_ifname="v1")
    found = [FoundRouter("vr1", "container", Path("/vr1"), 1, None, (at,))]
    assert notes(policy, found, {}, ()) == ("nic0: there is no such interface now",)
    assert not steer(policy, found, {}).queues
    # Between the look at it and the check it may go or come: apply refuses either.
    for there in (["lo"], ["lo", "nic0"]):
        host = cast("Host", SimpleNamespace(here=SimpleNamespace(interfaces=lambda to=there: to)))
        with pytest.raises(SpecError, match="there is no interface nic0 on this host"):
            check(policy, found, host, {})


def test_a_wire_that_has_gone_is_not_one_that_only_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    says: list[int] = []

    def read(*_: object) -> str:
        raise OSError(says[-1], os.strerror(says[-1]))

    namespace = cast("Namespace", SimpleNamespace(enter=lambda: None, read=read))
    monkeypatch.setattr(napi_threads, "tells_threads", lambda: True)
    for code in (errno.ENODEV, errno.EINVAL):
        says.append(code)
        assert not napi_threads.only_sends(namespace, "eth0", 3)
    says.append(errno.EMFILE)
    with pytest.raises(OSError, match="Too many open files"):
        napi_threads.only_sends(namespace, "eth0", 3)

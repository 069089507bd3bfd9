"""In version 2 a machine's threads part from what feeds it, and come back, by the kernel's rules.

They are the same for every host: no controller is switched on.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from isolane.children import die_with_parent
from isolane.enforce import transaction
from isolane.enforce.group_plan import own_threads_group
from isolane.enforce.host_access import Host
from isolane.enforce.policy_state import State
from isolane.enforce.setting import Desired
from isolane.enforce.settings import Group, Member
from isolane.procfs import started, threads_of

from tests.enforce.version_2 import Version2, mounted
from tests.live import LIMIT_S

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("needs_root")]
_TWO_THREADS = """
import threading, time
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def host() -> Iterator[Host]:
    root = mounted()
    if root is None:
        pytest.skip("no cgroups of version 2 are mounted")
    groups = Version2(f"tests-{os.getpid()}", root)
    yield cast("Host", SimpleNamespace(groups=groups))
    assert not groups.top.exists(), "what is left here is not looked for elsewhere"


@pytest.fixture
def processes() -> Iterator[tuple[int, int]]:
    """Two processes of two threads each."""
    started_ = []
    for _ in range(2):
        process = subprocess.Popen(
            [sys.executable, "-c", _TWO_THREADS],
            stdout=subprocess.PIPE,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - it makes one system call
        )
        started_.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    yield started_[0].pid, started_[1].pid
    for process in started_:
        process.kill()
        process.wait(LIMIT_S)
        assert process.stdout is not None
        process.stdout.close()


def apply(host: Host, state_dir: Path, feeder: int, machine: int, *, within: bool) -> None:
    own = own_threads_group("vr1") if within else "vr1"
    wanted = [Desired(Group(""), value=True), Desired(Group("vr1"), value=True)]
    wanted += [Desired(Group(own), value=True)] if within else []
    for process, group in ((feeder, "vr1"), (machine, own)):
        where = str(host.groups.path(group).relative_to(host.groups.root))
        for thread in threads_of(process):
            wanted.append(Desired(Member("vr1", "thread", thread, started(thread) or 0), where))
    transaction.apply(wanted, State.load(state_dir), host, {"policy": "p"})
    assert set(host.groups.threads(own)) >= set(threads_of(machine))
    assert set(host.groups.threads("vr1")) >= set(threads_of(feeder))
    assert not within or set(host.groups.threads("vr1")).isdisjoint(threads_of(machine))


def test_threads_part_and_come_back(host: Host, processes: tuple[int, int], tmp_path: Path) -> None:
    before = [host.groups.of_thread(process) for process in processes]
    for within in (True, False, True):
        apply(host, tmp_path, *processes, within=within)
        assert host.groups.path(own_threads_group("vr1")).exists() == within
    assert transaction.clear(State.load(tmp_path), host) == []
    assert [host.groups.of_thread(process) for process in processes] == before


@pytest.fixture
def libvirt(host: Host, processes: tuple[int, int]) -> Iterator[dict[int, str]]:
    """The second process with its threads where libvirt has them: in cgroups of their own."""
    scope = host.groups.root / f"tests-libvirt-{os.getpid()}"
    threads = threads_of(processes[1])
    names = [f"{scope.name}/{name}" for name in ("emulator", "vcpu0")]
    try:
        for name in names:
            (host.groups.root / name).mkdir(parents=True)
            (host.groups.root / name / "cgroup.type").write_text("threaded")
        for thread, name in zip(threads, names, strict=True):
            host.groups.move(thread, name)
        yield dict(zip(threads, names, strict=True))
    finally:
        host.groups.move(threads[0], "")
        for name in names:
            (host.groups.root / name).rmdir()
        scope.rmdir()


def now(host: Host, threads: dict[int, str]) -> dict[int, str | None]:
    return {thread: host.groups.of_thread(thread) for thread in threads}


@pytest.mark.parametrize("within", [False, True])
def test_threads_with_cgroups_of_their_own_come_back_to_them(
    within: bool,
    host: Host,
    processes: tuple[int, int],
    libvirt: dict[int, str],
    tmp_path: Path,
) -> None:
    assert now(host, libvirt) == libvirt
    apply(host, tmp_path, *processes, within=within)
    assert not set(now(host, libvirt).values()) & set(libvirt.values())
    assert transaction.clear(State.load(tmp_path), host) == []
    assert now(host, libvirt) == libvirt


class Killed(BaseException):
    """What ends a command in the middle."""


@pytest.mark.parametrize("moved", [1, 2])
@pytest.mark.parametrize("killed", [False, True])
def test_so_they_do_where_the_policy_is_not_put_in_force(
    moved: int,
    killed: bool,
    host: Host,
    libvirt: dict[int, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    where = str(host.groups.path("vr1").relative_to(host.groups.root))

    def wanted() -> Iterator[Desired]:
        yield Desired(Group(""), value=True)
        yield Desired(Group("vr1"), value=True)
        for thread in list(libvirt)[:moved]:
            yield Desired(Member("vr1", "thread", thread, started(thread) or 0), where)
        assert set(now(host, libvirt).values()) == {where}, "the process has moved as a whole"
        raise Killed

    with monkeypatch.context() as patch:
        if killed:  # nothing is put back, and nothing is saved

            def dead(*_: object) -> list[str]:
                raise Killed

            patch.setattr(transaction, "undo", dead)
        state = State.load(tmp_path)
        with pytest.raises(Killed):
            transaction.apply(wanted(), state, host, {"policy": "p"})
    if killed:
        assert state._open is not None
        state._open.close()
        assert transaction.recover(State.load(tmp_path), host) > moved
    assert now(host, libvirt) == libvirt


def test_whoever_is_in_a_threaded_cgroup_leaves_it_before_it_is_removed(
    host: Host, processes: tuple[int, int], tmp_path: Path
) -> None:
    apply(host, tmp_path, *processes, within=True)
    for group in (own_threads_group("vr1"), "vr1", ""):
        Group(group).write(host, None)
    assert [host.groups.of_thread(process) for process in processes] == ["", ""]

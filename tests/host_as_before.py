"""No test hurts another: a live test that leaves something on the host fails, and it is removed.

A plugin of pytest, for all tests that are marked ``root``. It also sees to it that their children
begin with the default dispositions of signals, whatever the runner of the tests ignores.
"""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import signal
import subprocess
import traceback
from collections.abc import Generator, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from isolane.testbed import NETNS_DIR, kernel

from tests import machine
from tests.commands import command_server
from tests.dispositions import unignore
from tests.live import changes, environment
from tests.look import MARK, Look, look_around

_LINKS = Path("/sys/class/net")
CHANGE_THE_HOST = {"needs_root", "playground", "scene", "commands"}
"""Fixtures that make a test a live one."""


def pytest_configure() -> None:
    """Mark all processes that are to come; have ignored signals not be ignored by them, too."""
    os.environ[MARK] = str(os.getpid())
    unignore()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let go of what a test that failed holds, here and now.

    Its frames would keep BPF programs and namespaces until somebody collects them, on any thread
    and in the midst of another test: one failure would become several.
    """
    report = yield
    if report.failed and call.excinfo is not None:
        for error in errors_of(call.excinfo.value):
            traceback.clear_frames(error.__traceback__)
            for frame, _ in traceback.walk_tb(error.__traceback__):
                _copy = frame.f_locals  # which whoever told of the failure had made: now empty
        gc.collect()
    return report


def errors_of(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, and those that it came from or is made of, each once."""
    known, left = set[int](), [error]
    while left:
        one = left.pop()
        if id(one) in known:
            continue
        known.add(id(one))
        yield one
        inner = one.exceptions if isinstance(one, BaseExceptionGroup) else ()
        left += [each for each in (one.__cause__, one.__context__, *inner) if each is not None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what changes the host by the fixture that it needs to do so."""
    for item in items:
        if CHANGE_THE_HOST & set(getattr(item, "fixturenames", ())):
            item.add_marker("root")


@pytest.fixture(autouse=True)
def _host_as_before(request: pytest.FixtureRequest) -> Iterator[None]:
    marked = request.node.get_closest_marker
    if os.geteuid() != 0 or not marked("root") or marked("looks_itself"):
        yield
        return
    command_server(environment())  # before a test enters a namespace, in which it would stay
    home, before = kernel.open_own_net(), look_around()
    try:
        yield
        left = changes(before)
        if left:
            kernel.setns_net(home)
            remove(before)
    finally:
        os.close(home)
    assert not left, f"left on the host (before, after): {left}"


@pytest.fixture(autouse=True)
def _beside(request: pytest.FixtureRequest) -> Iterator[None]:
    with machine.shared() if request.node.get_closest_marker("beside") else nullcontext():
        yield


def remove(before: Look) -> None:
    """Remove what a test has left, as well as possible: the next one is to begin as this one did.

    What removes something else goes first: processes, then their namespaces and mounts.
    """
    now = look_around()
    for pid in set(now["processes"]) - set(before["processes"]):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for path in _new(before, now, "mounts", longest_first=True):
        if NETNS_DIR not in path.parents:
            _try("umount", "--lazy", str(path))
    for name in sorted(set(now["namespaces"]) - set(before["namespaces"])):
        _try("ip", "netns", "delete", name)
        (NETNS_DIR / name).unlink(missing_ok=True)
    for path in _new(before, now, "cgroups", longest_first=True):
        _remove_group(path)
    for path in _new(before, now, "pinned", longest_first=True):
        with contextlib.suppress(OSError):
            path.unlink() if not path.is_dir() else path.rmdir()
    for path in _new(before, now, "isolane's files"):
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    os.sched_setaffinity(0, before["own cores"])
    _put_settings_back(before["sysctls"], now["sysctls"], Path("/"))
    _put_settings_back(before["network"]["settings"], now["network"]["settings"], _LINKS)
    _put_links_back(before["network"]["links"], now["network"]["links"])


def _new(before: Look, now: Look, what: str, *, longest_first: bool = False) -> list[Path]:
    found = sorted(set(now[what]) - set(before[what]), reverse=longest_first)
    return [Path(path) for path in found]


def _remove_group(path: Path) -> None:
    members = "tasks" if (path / "tasks").exists() else "cgroup.procs"
    with contextlib.suppress(OSError):
        for thread in (path / members).read_text().split():
            with contextlib.suppress(OSError):
                (path.parent / members).write_text(thread)
        path.rmdir()


def _put_settings_back(before: dict[str, Any], now: dict[str, Any], folder: Path) -> None:
    for name, value in before.items():
        if now.get(name) != value:
            with contextlib.suppress(OSError):
                (folder / name).write_bytes(value if isinstance(value, bytes) else value.encode())


def _put_links_back(before: dict[int, Any], now: dict[int, Any]) -> None:
    for index, (name, *_) in now.items():
        if index not in before:
            _try("ip", "link", "delete", "dev", name)
    for index, (name, *_, xdp) in before.items():
        if index in now and now[index][-1] != xdp:
            for mode in ("xdpdrv", "xdpgeneric"):
                _try("ip", "link", "set", "dev", name, mode, "off")


def _try(*command: str) -> None:
    subprocess.run(command, check=False, capture_output=True, timeout=60)

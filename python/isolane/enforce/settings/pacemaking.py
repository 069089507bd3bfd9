"""The pacemaker: the process that keeps the CPU scheduler choosing among a policy's routers."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from isolane.enforce.cpu_cgroups import Groups
from isolane.enforce.host_access import Host
from isolane.enforce.setting import Setting, Value
from isolane.errors import TestbedError
from isolane.procfs import effective_user, sees_processes_of, sees_same, words_of

MODULE = "isolane.pacemaker"
FILES = Path("/run/isolane")
"""Where what is in force is written down, which who sees the same has put into force."""
_children: set[int] = set()
"""Pacemakers that this process has started and not yet seen the end of."""
_READY = "ready"
_READY_S = 60.0
"""A machine on which all cores are busy, and its disk, may need more than 10 s to start Python."""
_END_S = 5.0


@dataclass(frozen=True)
class Pacemaker(Setting):
    """The pacemaker of a policy, ``group`` being the parent of its routers' cgroups."""

    kind: ClassVar[str] = "pacemaker"
    group: str

    def __str__(self) -> str:
        """Name it for the user."""
        return "pacemaker"

    def read(self, host: Host) -> Value:  # noqa: ARG002 - in no namespace
        """Return what the running pacemaker looks after; None when there is none."""
        work = [text for _, text in running(self.group)]
        return json.loads(work[0]) if len(work) == 1 else (work or None)

    def write(self, host: Host, value: Value) -> None:
        """End the running pacemaker, and start one that looks after ``value`` (None: do not)."""
        for process, _ in running(self.group):
            _end(process)
        if value is not None:
            host.go_home()  # in a router's namespace it would keep that, and its interfaces, alive
            _start(self.group, json.dumps(value), host.groups)


def running(group: str) -> Iterator[tuple[int, str]]:
    """Yield the pacemakers of a policy that run: process and work.

    Those of another Isolane, in a container that shares its processes with this host, are its own.
    Anybody may start a process that looks like one: it counts only with this one's rights, among
    this one's processes, and with work that can be read.
    """
    _reap()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        process = int(entry.name)
        if effective_user(process) != os.geteuid():  # before others can have it waited for
            continue
        words = words_of(process)
        if words[-3:-1] != (MODULE.encode(), group.encode()) or not _is_work(words[-1]):
            continue
        if sees_processes_of(process) and sees_same(process, FILES):
            yield process, words[-1].decode()


def _is_work(word: bytes) -> bool:
    with suppress(ValueError, RecursionError):
        return isinstance(json.loads(word.decode()), dict)
    return False


def _start(group: str, work: str, groups: Groups) -> None:
    """Start a pacemaker that outlives this process; wait until it runs.

    It moves to the root cgroup first: in others real-time threads may be forbidden.
    """
    reading, writing = os.pipe()
    words = [sys.executable, "-I", "-m", MODULE, group, work]
    environment = {"ISOLANE_CGROUP": str(groups.root / groups.members)}
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, writing, 1),
        (os.POSIX_SPAWN_DUP2, writing, 2),
    ]
    try:
        process = os.posix_spawn(words[0], words, environment, file_actions=actions, setsid=True)
    except OSError as error:
        os.close(reading)
        raise TestbedError(f"the pacemaker did not start: {error.strerror}") from None
    finally:
        os.close(writing)
    try:
        said, ended = _told(reading)
    finally:
        os.close(reading)
    if _READY in said:
        _children.add(process)
        return
    _end(process)
    why = "it says nothing" if ended else f"it did not say ready within {_READY_S:.0f} s"
    raise TestbedError(f"the pacemaker did not start: {said[-1] if said else why}")


def _told(reading: int) -> tuple[list[str], bool]:
    """Return the lines that a pacemaker says until it is ready, and whether it ended instead.

    Why it does not start takes several lines: who is ended after the first has not said it.
    """
    waiting = select.poll()  # select() takes no descriptor above 1023: with many routers open
    waiting.register(reading, select.POLLIN)
    deadline = time.monotonic() + _READY_S
    said, ended = b"", False
    while not ended and _READY not in _lines(said):
        if not waiting.poll(max(deadline - time.monotonic(), 0) * 1000):
            break
        more = os.read(reading, 4096)
        said, ended = said + more, not more
    return _lines(said), ended


def _lines(said: bytes) -> list[str]:
    return said.decode(errors="replace").strip().splitlines()


def _end(process: int) -> None:
    """End a pacemaker and wait until it is gone."""
    deadline = time.monotonic() + _END_S
    sign = signal.SIGTERM
    while _runs(process):
        with suppress(ProcessLookupError):
            os.kill(process, sign)
        if time.monotonic() > deadline:
            sign = signal.SIGKILL
        time.sleep(0.002)


def _reap() -> None:
    """Ask after those that have ended by themselves."""
    for process in tuple(_children):
        with suppress(ChildProcessError):
            if os.waitpid(process, os.WNOHANG)[0] == 0:
                continue
        _children.discard(process)


def _runs(process: int) -> bool:
    """Tell whether a pacemaker runs still; one that its parent has not asked after yet does not."""
    with suppress(ChildProcessError):
        os.waitpid(process, os.WNOHANG)  # if this process is the parent
    return MODULE.encode() in words_of(process)

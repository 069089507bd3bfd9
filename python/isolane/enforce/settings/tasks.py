"""Settings of cgroups and of threads."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from isolane import scheduling
from isolane.enforce.host_access import Host
from isolane.enforce.setting import Setting, Value
from isolane.errors import TestbedError
from isolane.procfs import started, threads_of
from isolane.testbed.netns import step

POLLING = "thread of "
"""What a kernel thread that polls an interface is called, before the interface's name."""
_READY_S = 60.0
"""How long a new kernel thread may take until it has run once and can be moved."""
_EMPTY_S = 10.0
"""How long a thread that was moved away, or that is ending, may keep its old cgroup busy."""


@dataclass(frozen=True)
class Group(Setting):
    """A CPU cgroup."""

    kind: ClassVar[str] = "group"
    adoptable: ClassVar[bool] = True
    router: str
    """Whose it is; with a slash: one within the router's; empty: the parent of all routers'."""

    def __str__(self) -> str:
        """Name it for the user."""
        return f"cgroup of {self.router or 'all routers'}"

    def read(self, host: Host) -> Value:
        """Return True when the cgroup exists, else None."""
        return True if host.groups.path(self.router).is_dir() else None

    def write(self, host: Host, value: Value) -> None:
        """Create the cgroup, or move its threads to the root cgroup and remove it."""
        path = host.groups.path(self.router)
        if value:
            with step(f"making {path}", "cgroups with the cpu controller"):
                path.mkdir(exist_ok=True)
                if host.groups.version == 2 and "/" in self.router:
                    # Else no thread could be in the router's cgroup itself.
                    (path / "cgroup.type").write_text("threaded")
            return
        deadline = time.monotonic() + _EMPTY_S
        while path.is_dir():
            _empty(host, self.router)
            try:
                path.rmdir()
            except OSError as error:
                if time.monotonic() > deadline:
                    why = _inhabitants(host, self.router) or error.strerror
                    raise TestbedError(f"cannot remove {path}: {why}") from None
                time.sleep(0.005)

    def owned_by_others(self, host: Host, current: Value) -> str | None:
        """Say that it exists although this policy did not create it."""
        path = host.groups.path(self.router)
        return f"{path} exists and was not made by this policy" if current else None


def _empty(host: Host, router: str) -> None:
    for thread in _threads(host, router):
        with contextlib.suppress(OSError):  # the thread may end at any time
            host.groups.move(thread, "")
        _put_back_slice(thread)


def _put_back_slice(thread: int) -> None:
    """Give a thread that began under the policy, and has its slice from there, the kernel's own."""
    with contextlib.suppress(OSError):
        if scheduling.get_scheduling(thread)[2] == scheduling.MIN_SLICE_NS:
            scheduling.set_slice(thread, 0)


def _threads(host: Host, router: str) -> list[int]:
    with contextlib.suppress(OSError):
        return host.groups.threads(router)
    return []


def _inhabitants(host: Host, router: str) -> str:
    """Say what keeps a cgroup from being removed; empty when nothing is seen in it."""
    below: list[str] = []
    with contextlib.suppress(OSError):  # it is gone meanwhile
        inside = host.groups.path(router).iterdir()
        below = sorted(str(group.name) for group in inside if group.is_dir())
    found = [f"thread {thread} is in it" for thread in _threads(host, router)]
    return ", ".join([*found, *(f"the cgroup {name} is in it" for name in below)])


@dataclass(frozen=True)
class GroupFile(Setting):
    """A file of a cgroup, such as ``cpu.weight``."""

    kind: ClassVar[str] = "group-file"
    router: str
    file: str

    def __str__(self) -> str:
        """Name it for the user."""
        return f"{self.router or 'all routers'}: {self.file}"

    def there(self, host: Host) -> bool:
        """Tell whether the cgroup exists."""
        return host.groups.path(self.router).is_dir()

    def read(self, host: Host) -> Value:
        """Return the file's content; None when the cgroup is gone."""
        try:
            return (host.groups.path(self.router) / self.file).read_text().strip()
        except OSError:
            return None

    def write(self, host: Host, value: Value) -> None:
        """Write the file's content."""
        path = host.groups.path(self.router) / self.file
        if value is None or not path.parent.is_dir():
            return
        with step(f"writing {path}", "CPU bandwidth control (CONFIG_CFS_BANDWIDTH) or shares"):
            path.write_text(str(value))


@dataclass(frozen=True)
class _Thread(Setting):
    """A property of a thread; ``began``, its start time, rules out a later one of its number."""

    kind: ClassVar[str] = "thread"
    label: ClassVar[str] = "thread"
    """What messages call the property; ``kind`` is what the state file calls it."""
    router: str
    what: str
    thread: int
    began: int

    def __str__(self) -> str:
        """Name it for the user."""
        return f"{self.router}: {self.what} ({self.thread}) {self.label}"

    def there(self, host: Host) -> bool:  # noqa: ARG002 - in no namespace
        """Tell whether the thread runs."""
        return self.alive()

    @property
    def polled(self) -> str:
        """The interface that it polls; empty of a thread of the router's own."""
        return self.what.removeprefix(POLLING) if self.what.startswith(POLLING) else ""

    def alive(self) -> bool:
        """Tell whether the thread, and no later one of its number, runs."""
        return started(self.thread) == self.began


@dataclass(frozen=True)
class Member(_Thread):
    """The cgroup that a thread is in."""

    kind: ClassVar[str] = "control group"
    label: ClassVar[str] = "cgroup"

    def read(self, host: Host) -> Value:
        """Return the cgroup's path below the root; None when the thread has ended."""
        return host.groups.of_thread(self.thread) if self.alive() else None

    def with_it(self, host: Host) -> Iterable[Setting]:
        """Return its process's other threads: in version 2 they come along."""
        if host.groups.version == 2:
            for thread in threads_of(self.thread):
                began = started(thread)
                if thread != self.thread and began is not None:
                    yield replace(self, thread=thread, began=began)

    def write(self, host: Host, value: Value) -> None:
        """Move the thread into the cgroup ``value``."""
        deadline = time.monotonic() + _READY_S
        while value is not None and self.alive():
            try:
                host.groups.move(self.thread, str(value))
            except FileNotFoundError:  # the cgroup that it came from is gone
                host.groups.move(self.thread, "")
            except OSError as error:
                # A kernel thread cannot be moved before it has run for the first time.
                if error.errno != errno.EINVAL or time.monotonic() > deadline:
                    msg = f"{self}: cannot be moved to {value}: {error.strerror}"
                    raise TestbedError(msg) from None
                time.sleep(0.001)
                continue
            return


@dataclass(frozen=True)
class Affinity(_Thread):
    """The cores that a thread may run on; a sorted list."""

    kind: ClassVar[str] = "cores"
    label: ClassVar[str] = "cores"

    def read(self, host: Host) -> Value:  # noqa: ARG002 - in no namespace
        """Return the cores; None when the thread has ended."""
        return sorted(os.sched_getaffinity(self.thread)) if self.alive() else None

    def write(self, host: Host, value: Value) -> None:  # noqa: ARG002
        """Let the thread run on these cores only."""
        if value is not None and self.alive():
            with step(f"{self}: setting {value}", "these cores, and threads that may be moved"):
                os.sched_setaffinity(self.thread, value)


@dataclass(frozen=True)
class Scheduling(_Thread):
    """Scheduling policy, nice value and time slice (ns) of a thread.

    Of a real-time one also the priority, which state files of before lack.
    """

    kind: ClassVar[str] = "scheduling"
    label: ClassVar[str] = "scheduling"

    def read(self, host: Host) -> Value:  # noqa: ARG002
        """Return [policy, nice, slice], and a priority if it has one; None when it has ended."""
        if not self.alive():
            return None
        priority = scheduling.get_priority(self.thread)
        return [*scheduling.get_scheduling(self.thread), *([priority] if priority else [])]

    def write(self, host: Host, value: Value) -> None:  # noqa: ARG002
        """Set scheduling policy, nice value and time slice."""
        if value is not None and self.alive():
            with step(f"{self}: setting {value}", "sched_setattr (Linux 3.14)"):
                scheduling.set_scheduling(self.thread, *value)


@dataclass(frozen=True)
class Slice(_Thread):
    """The time slice (ns) of a thread that keeps its scheduling policy and nice value."""

    kind: ClassVar[str] = "slice"
    label: ClassVar[str] = "time slice"

    def read(self, host: Host) -> Value:  # noqa: ARG002
        """Return the slice, 0 of a thread that has none; None when it has ended."""
        return scheduling.get_scheduling(self.thread)[2] if self.alive() else None

    def write(self, host: Host, value: Value) -> None:  # noqa: ARG002
        """Set the slice, unless the thread is one that has none by now.

        Threads that its process began under the policy have theirs put back with it.
        """
        if value is None or not self.alive():
            return
        with step(f"{self}: setting {value}", "sched_setattr (Linux 3.14)"):
            scheduling.set_slice(self.thread, value)
        if value != scheduling.MIN_SLICE_NS:
            for thread in threads_of(self.thread):
                _put_back_slice(thread)

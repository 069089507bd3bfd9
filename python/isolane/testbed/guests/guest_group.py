"""The cgroups of guests: all processes of a hypervisor are found, paid for and ended by them."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from isolane.errors import NotSupported
from isolane.procfs import cpu_cgroup_root
from isolane.testbed.journal import Journal
from isolane.testbed.netns import step

END_S = 5.0
"""How long killed processes may take to end; they need milliseconds."""
_NAME = "isolane-guests-{run}"


class GuestGroup:
    """The parent of the cgroups of one test bed's guests, named after the run that made it.

    It is in the hierarchy that has the cpu controller, so that a guest can have a CPU weight.

    Raises
    ------
    NotSupported
        When no mounted cgroup has the cpu controller.
    """

    def __init__(self, run: str) -> None:
        found = cpu_cgroup_root()
        if found is None:
            raise NotSupported(
                "not supported on this host: no mounted cgroup has the cpu controller, which "
                "virtual machines are kept in (use cgroup v2, or mount -t cgroup -o cpu cgroup "
                "/sys/fs/cgroup/cpu)"
            )
        self._version, root = found
        self.path = root / _NAME.format(run=run)

    def create(self, journal: Journal) -> None:
        """Make it, having told the journal."""
        journal.record("guests", path=str(self.path))
        with step(f"making cgroup {self.path}", "cgroups (CONFIG_CGROUPS)"):
            self.path.mkdir()

    def add(self, guest: str) -> Path:
        """Make the cgroup of one guest."""
        path = self.path / guest
        with step(f"making cgroup {path}", "cgroups (CONFIG_CGROUPS)"):
            path.mkdir()
        return path

    def threads(self, guest: str) -> list[int]:
        """Return the threads of a guest: of its hypervisor's processes and their children."""
        file = "tasks" if self._version == 1 else "cgroup.threads"
        try:
            return [int(word) for word in (self.path / guest / file).read_text().split()]
        except OSError:
            return []

    def remove(self) -> list[str]:
        """End all guests and remove the cgroups; return what refused to go, as sentences."""
        return remove_group(self.path)


def remove_group(path: Path) -> list[str]:
    """Kill all processes in a cgroup and those below it, and remove them.

    Returns
    -------
    list of str
        What refused to go, as sentences; empty when all is well, or nothing was there.
    """
    groups = [*(p for p in path.glob("*") if p.is_dir()), path] if path.is_dir() else []
    deadline = time.monotonic() + END_S
    while left := [pid for group in groups for pid in _members(group)]:
        if time.monotonic() > deadline:
            return [f"processes {', '.join(map(str, left))} in {path} did not end"]
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)
    for group in groups:
        try:
            _remove_empty(group, deadline)
        except OSError as error:
            return [f"cgroup {group} cannot be removed: {error.strerror}"]
    return []


def _remove_empty(group: Path, deadline: float) -> None:
    """Remove a cgroup without members; the kernel may need a moment to see that it has none."""
    while True:
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.002)
        else:
            return


def _members(group: Path) -> list[int]:
    try:
        return [int(word) for word in (group / "cgroup.procs").read_text().split()]
    except OSError:
        return []

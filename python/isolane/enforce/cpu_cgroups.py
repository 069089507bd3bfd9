"""CPU cgroups of the version, 1 or 2, that has the cpu controller on this host."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from math import ceil
from pathlib import Path

from isolane.errors import NotSupported

_PERIOD_US = 10_000
"""Period of ``cpu_max``: a router that has used up its cap waits no longer than this."""
_MIN_QUOTA_US = 1_000
"""The kernel's limit (min_cfs_quota_period in kernel/sched/core.c)."""
_WEIGHT_OF_NICE_0 = 100
_SHARES_OF_NICE_0 = 1024


def shares_of(weight: int) -> int:
    """Return a CPU weight of version 2 as ``cpu.shares`` of version 1."""
    return max(2, min(262_144, weight * _SHARES_OF_NICE_0 // _WEIGHT_OF_NICE_0))


def weight_of(shares: int) -> int:
    """Return ``cpu.shares`` of version 1 as a CPU weight of version 2."""
    return round(shares * _WEIGHT_OF_NICE_0 / _SHARES_OF_NICE_0)


class Groups:
    """Where the routers' cgroups are, and how the mounted version names and scales their settings.

    Parameters
    ----------
    name
        Name of the cgroup that is the parent of all routers' cgroups.
    mountinfo
        Text in the format of ``/proc/self/mountinfo``, for tests; None: that file.
    """

    def __init__(self, name: str, mountinfo: str | None = None) -> None:
        self._name = name
        self._mountinfo = mountinfo

    @cached_property
    def _mount(self) -> tuple[int, Path, str]:
        """Version, where the hierarchy is mounted, and which cgroup of it that is.

        It is the hierarchy's root on a host, and another one in a container.
        """
        text = self._mountinfo
        if text is None:
            text = Path("/proc/self/mountinfo").read_text()
        for line in reversed(text.splitlines()):  # a later mount hides an earlier one
            mount, _, file_system = line.partition(" - ")
            shown, where = mount.split()[3:5]
            what, _, options = file_system.split(maxsplit=2)
            if what == "cgroup" and "cpu" in options.split(","):
                return 1, Path(where), shown
            if what == "cgroup2":
                controllers = Path(where) / "cgroup.controllers"
                if controllers.exists() and "cpu" in controllers.read_text().split():
                    return 2, Path(where), shown
        raise NotSupported(
            "not supported on this host: no mounted cgroup has the cpu controller, which "
            "cpu_weight and cpu_max need (mount -t cgroup -o cpu cgroup /sys/fs/cgroup/cpu, or "
            "use cgroup v2)"
        )

    @property
    def version(self) -> int:
        """1 or 2."""
        return self._mount[0]

    @property
    def top(self) -> Path:
        """Directory of the cgroup that is the parent of all routers' cgroups."""
        return self._mount[1] / self._name

    @property
    def members(self) -> str:
        """Name of the file of a cgroup that lists its threads (version 2: its processes)."""
        return "cgroup.procs" if self.version == 2 else "tasks"

    @property
    def root(self) -> Path:
        """Directory where the cgroup hierarchy is mounted."""
        return self._mount[1]

    def path(self, router: str) -> Path:
        """Return the directory of a router's cgroup; an empty name: of the parent of all."""
        return self.top / router if router else self.top

    def weight_files(self, weight: int) -> dict[str, str]:
        """Return file name -> content for a weight; 100 is the default."""
        if self.version == 2:
            return {"cpu.weight": str(weight)}
        return {"cpu.shares": str(shares_of(weight))}

    def cap_files(self, max_cores: float | None) -> dict[str, str]:
        """Return file name -> content for a cap in cores; None: no cap."""
        period = _PERIOD_US
        quota: int | None = None
        if max_cores is not None:
            period = max(_PERIOD_US, ceil(_MIN_QUOTA_US / max_cores))
            quota = round(max_cores * period)
        if self.version == 2:
            return {"cpu.max": f"{'max' if quota is None else quota} {period}"}
        period = period if quota is not None else 100_000
        return {
            "cpu.cfs_period_us": str(period),
            "cpu.cfs_quota_us": str(-1 if quota is None else quota),
        }

    def of_thread(self, thread: int) -> str | None:
        """Return the path below the root of a thread's cgroup; None when the thread has ended.

        A cgroup that is out of sight, in a container, counts as the root.
        """
        try:
            lines = Path(f"/proc/{thread}/cgroup").read_text().splitlines()
        except OSError:
            return None
        for line in lines:
            _, controllers, path = line.split(":", 2)
            if not controllers if self.version == 2 else "cpu" in controllers.split(","):
                return _below(path, self._mount[2])
        return None

    def threads(self, router: str) -> list[int]:
        """Return the threads in a router's cgroup, or in one within it.

        Raises
        ------
        OSError
            When there is none.
        """
        return [int(thread) for thread in self.listing(router).read_text().split()]

    def cpu_ns(self, router: str) -> int | None:
        """Return the CPU time of all threads that are, or were, in a router's cgroup, ns.

        None where nobody counts it: version 1 with cpuacct in a hierarchy of its own.
        """
        with suppress(OSError, ValueError, KeyError):
            if self.version == 1:
                return int((self.path(router) / "cpuacct.usage").read_text())
            lines = (self.path(router) / "cpu.stat").read_text().splitlines()
            return 1000 * int(dict(line.split() for line in lines)["usage_usec"])
        return None

    def listing(self, router: str) -> Path:
        """Return the file that lists the threads in a router's cgroup."""
        return self.path(router) / ("cgroup.threads" if self.version == 2 else "tasks")

    def move(self, thread: int, group: str) -> None:
        """Move a thread to a cgroup, given by its path below the root.

        In version 2 its process moves with it, unless that cgroup is a threaded one, or has such
        ones and the thread is in one of them.
        """
        folder = self.root / group
        kind = _kind(folder)
        if kind == "domain threaded" and (self.of_thread(thread) or "").startswith(f"{group}/"):
            (folder / "cgroup.threads").write_text(str(thread))
            return
        if kind != "threaded":
            (folder / self.members).write_text(str(thread))
            return
        # Threads part within the cgroup that their process is in; it takes all of them back.
        if self.of_thread(thread) not in (group, str(Path(group).parent)):
            (folder.parent / self.members).write_text(str(thread))
        (folder / "cgroup.threads").write_text(str(thread))


def _kind(folder: Path) -> str:
    try:
        return (folder / "cgroup.type").read_text().strip()
    except OSError:  # version 1, a root cgroup, or it is gone
        return ""


def _below(path: str, root: str) -> str:
    """Return the part of a path below a root; nothing for what is not below it."""
    root = root.rstrip("/") + "/"
    return path.removeprefix(root) if path.startswith(root) else ""

"""Controllers that a cgroup of version 2 gives to the cgroups below it."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from isolane.enforce.host_access import Host
from isolane.enforce.setting import Setting, Value
from isolane.testbed.netns import step

_UNTOUCHED: Final = {
    "cpu.weight": "100",
    "cpu.idle": "0",
    "cpu.max": "max 100000",
    "cpu.max.burst": "0",
    "cpu.uclamp.min": "0.00",
    "cpu.uclamp.max": "max",
}
"""What a cgroup has that nobody gave a share or a cap (Documentation/admin-guide/cgroup-v2.rst)."""


@dataclass(frozen=True)
class Controller(Setting):
    """Whether a cgroup gives its children a controller (``cgroup.subtree_control``).

    It is switched off again only where nobody else can have come to rely on it: the kernel would
    forget the weights and caps of all the children. So it stays on when another child has such
    settings, passes the controller on, or was made after the parent of the routers' cgroups.
    """

    kind: ClassVar[str] = "controller"
    group: str
    """``root``: the root of the hierarchy; ``top``: the parent of the routers' cgroups;
    ``top/ROUTER``: a router's."""
    name: str = "cpu"

    def __str__(self) -> str:
        """Name it for the user."""
        whose = {"root": "root cgroup", "top": "cgroup of all routers"}
        found = whose.get(self.group) or f"cgroup of {self.group.removeprefix('top/')}"
        return f"{found}: controller {self.name}"

    def read(self, host: Host) -> Value:
        """Return whether the children have it; None when the cgroup is gone."""
        try:
            return self.name in self._file(host).read_text().split()
        except OSError:
            return None

    def write(self, host: Host, value: Value) -> None:
        """Switch it on; or off, if no other cgroup needs it."""
        file = self._file(host)
        if value:
            with step(f"writing +{self.name} to {file}", "cgroups v2 with this controller"):
                file.write_text(f"+{self.name}")
            return
        own = host.groups.top if self.group == "root" else None
        if not file.exists() or needed(file.parent, own, self.name):
            return
        with step(f"writing -{self.name} to {file}", "cgroups v2 with this controller"):
            try:
                file.write_text(f"-{self.name}")
            except OSError as error:
                if error.errno != errno.EBUSY:  # a child has passed it on meanwhile
                    raise

    def _file(self, host: Host) -> Path:
        within = host.groups.path(self.group.removeprefix("top").removeprefix("/"))
        group = host.groups.root if self.group == "root" else within
        return group / "cgroup.subtree_control"


def needed(parent: Path, own: Path | None, name: str) -> bool:
    """Tell whether a child of ``parent`` may rely on its controller.

    Parameters
    ----------
    parent
        The cgroup that gives the controller to its children.
    own
        Isolane's own child, which was made just before the controller was switched on; None: all
        that it had there are gone. The kernel numbers cgroups in the order of their making.
    """
    try:
        newest = 0 if own is None else own.stat().st_ino
    except OSError:  # somebody removed it: nothing tells who came after it
        return True
    return any(_younger(child, newest) or uses(child, name) for child in _others(parent, own))


def _younger(group: Path, inode: int) -> bool:
    with contextlib.suppress(OSError):  # it is gone meanwhile
        return group.stat().st_ino > inode
    return False


def uses(group: Path, name: str) -> bool:
    """Tell whether a cgroup passes a controller on, or somebody set a share or a cap there."""
    with contextlib.suppress(OSError):  # it is gone meanwhile
        if name in (group / "cgroup.subtree_control").read_text().split():
            return True
        return any(
            (group / file).read_text().strip() != untouched
            for file, untouched in _UNTOUCHED.items()
            if (group / file).exists()
        )
    return False


def _others(parent: Path, own: Path | None) -> Iterator[Path]:
    return (child for child in parent.iterdir() if child.is_dir() and child != own)

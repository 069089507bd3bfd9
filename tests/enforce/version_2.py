"""Cgroups of version 2 as a policy sees them, whatever controllers this host's have."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from isolane.enforce.cpu_cgroups import Groups


class Version2(Groups):
    """Where the routers' cgroups would be if the CPU controller was one of version 2."""

    def __init__(self, name: str, root: Path) -> None:
        super().__init__(name)
        self._root = root

    @cached_property
    def _mount(self) -> tuple[int, Path, str]:
        return 2, self._root, "/"


def mounted() -> Path | None:
    """Return where cgroups of version 2 are; None where they are not."""
    mounts = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    return next((Path(where) for _, where, kind, *_ in mounts if kind == "cgroup2"), None)

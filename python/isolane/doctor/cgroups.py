"""Cgroups: which version, which controllers, and whether a group can be created."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from isolane import scheduling
from isolane.doctor.answers import Answer, Probe

_CONTROLLERS: Final = ("cpu", "cpuacct", "cpuset")
_SETTING: Final = {"cpu": "cpu.shares", "cpuacct": "cpuacct.usage", "cpuset": "cpuset.cpus"}


def mounts(mountinfo: str) -> tuple[dict[str, Path], Path | None]:
    """Return the mount points of the v1 controllers and of v2 (proc(5), mountinfo)."""
    first: dict[str, Path] = {}
    second = None
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        mount = Path(before.split()[4])
        kind, _, options = after.split(maxsplit=2)
        if kind == "cgroup2":
            second = mount
        elif kind == "cgroup":
            first |= {name: mount for name in options.split(",") if name in _CONTROLLERS}
    return first, second


def _cgroups() -> Mapping[str, Answer]:
    first, second = mounts(Path("/proc/self/mountinfo").read_text())
    found = {}
    for name in _CONTROLLERS:
        if name in first:
            found[f"cgroup-{name}"] = _try_v1(name, first[name])
        else:
            found[f"cgroup-{name}"] = _look_at_v2(name, second)
    return found


def _try_v1(controller: str, mount: Path) -> Answer:
    group = mount / f"isolane-doctor-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        status: Answer = Answer(
            "unknown" if isinstance(error, PermissionError) else "no",
            f"v1 at {mount}, but no group can be created: {error.strerror}",
        )
        return status
    try:
        works = (group / _SETTING[controller]).exists()
    finally:
        group.rmdir()
    if not works:
        return Answer("no", f"v1 at {mount}, without {_SETTING[controller]}")
    return Answer("yes", f"v1 at {mount}; created a group and removed it")


def _look_at_v2(controller: str, mount: Path | None) -> Answer:
    if mount is None:
        return Answer("no", "no cgroup file system is mounted")
    offered = (mount / "cgroup.controllers").read_text().split()
    # v2 accounts CPU time in every group (cpu.stat), whatever the controllers.
    if controller == "cpuacct" or controller in offered:
        return Answer("yes", f"v2 at {mount}")
    return Answer("no", f"v2 at {mount} offers only: {' '.join(offered) or 'nothing'}")


def _slices() -> Mapping[str, Answer]:
    if scheduling.has_slices():
        return {"slices": Answer("yes", "the scheduler knows them")}
    return {"slices": Answer("no", "this kernel's scheduler has none")}


PROBES: tuple[Probe, ...] = (
    Probe(tuple(f"cgroup-{name}" for name in _CONTROLLERS), _cgroups),
    Probe(("slices",), _slices),
)

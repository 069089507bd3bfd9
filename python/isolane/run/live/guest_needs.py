"""Whether this host can run the guests of an experiment, before anything is started."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Final

from isolane.errors import NotSupported
from isolane.guests import GUEST_PATH, KERNEL, PACKAGE, UmlPlan
from isolane.procfs import memory_info
from isolane.spec import Arm, Experiment

PROCESSES_MB: Final = 16
"""What a guest may need on the host besides its own memory: its processes, page tables, console. A
guest that has just booted was measured with 26 MiB in all, since it has not used all of its own."""


def lacking(experiment: Experiment, arms: Sequence[Arm], available_mb: int | None = None) -> str:
    """Return what this host lacks for the guests of some arms; empty if it lacks nothing.

    Parameters
    ----------
    available_mb
        Free memory, MiB; None: as the kernel tells it.
    """
    largest = max((_guests(experiment, arm) for arm in arms), default=0)
    if largest and shutil.which(KERNEL) is None:
        return f"virtual machines need {KERNEL}: apt-get install {PACKAGE}"
    if largest and experiment.traffic.ip == 6 and shutil.which("modprobe", path=GUEST_PATH) is None:
        return "virtual machines load IPv6 with modprobe: apt-get install kmod"
    free_mb = memory_info()["MemAvailable"] >> 20 if available_mb is None else available_mb
    each_mb = UmlPlan("any").memory_mb + PROCESSES_MB
    if largest * each_mb > free_mb:
        return (
            f"{largest} guests need {largest} x {each_mb} MiB = {largest * each_mb} MiB of memory, "
            f"and {free_mb} MiB are free: fewer routers, or end what uses it"
        )
    return ""


def refuse(experiment: Experiment, arms: Sequence[Arm]) -> None:
    """Raise NotSupported if this host cannot run the guests of some arms."""
    if why := lacking(experiment, arms):
        others = [arm.name for arm in arms if not _guests(experiment, arm)]
        hint = f"; or without virtual machines: --arms {','.join(others)}" if others else ""
        raise NotSupported(f"not supported on this host: {why}{hint}")


def _guests(experiment: Experiment, arm: Arm) -> int:
    """Return the guests that an arm has at most at one time."""
    return sum(
        max(experiment.router(router.group).count)
        for router in arm.routers
        if router.live_hypervisor == "uml"
    )

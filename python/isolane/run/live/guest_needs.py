"""Whether this host can run the guests of an experiment, before anything is started."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from isolane.errors import NotSupported
from isolane.guests import GUEST_PATH, KERNEL, PACKAGE, QemuPlan, UmlPlan, kvm, qemu
from isolane.procfs import memory_info
from isolane.run.results import NotMeasured
from isolane.spec import Arm, ArmRouter, Experiment
from isolane.spec.fields import Hypervisor
from isolane.spec.kinds import HYPERVISOR_NAMES, UML_NIC

UML_MB: Final = UmlPlan("any").memory_mb + 16
"""MiB of this host that a guest may need: its own memory; its processes, page tables, console. One
that has just booted was measured with 26 MiB in all, since it has not used all of its own."""
QEMU_MB: Final = QemuPlan("any").memory_mb + 112
"""The same under QEMU, whose translated code may be 32 MiB. Measured after the boot: 152 MiB."""
_STANDS_FOR: Final[dict[Hypervisor, str]] = {
    "uml": "a guest kernel in a process",
    "tcg": "which translates each instruction of the guest",
    "kvm": "on this host's processor",
}


def decided(arm: Arm) -> Arm:
    """Return an arm with a hypervisor for each guest that has none of its own (``auto``).

    It is KVM where that really runs routers, else User-Mode Linux.
    """
    if all(router.hypervisor != "auto" for router in arm.routers):
        return arm
    return replace(arm, routers=tuple(_decided(router) for router in arm.routers))


def _decided(router: ArmRouter) -> ArmRouter:
    if router.hypervisor != "auto" or router.nic == UML_NIC or kvm.fault_with_routers():
        return router
    return replace(router, hypervisor="kvm")


def lacking(experiment: Experiment, arms: Sequence[Arm], available_mb: int | None = None) -> str:
    """Return what this host lacks for the guests of some arms; empty if it lacks nothing.

    Parameters
    ----------
    available_mb
        Free memory, MiB; None: as the kernel tells it.
    """
    guests = [_guests(experiment, arm) for arm in arms]
    for why in _programs(experiment, {name for each in guests for name in each}):
        return why
    free_mb = memory_info()["MemAvailable"] >> 20 if available_mb is None else available_mb
    largest = max(guests, key=_memory_mb, default=Counter())
    needed_mb = _memory_mb(largest)
    if needed_mb <= free_mb:
        return ""
    parts = " + ".join(f"{count} x {_each_mb(name)} MiB" for name, count in largest.items())
    return (
        f"{largest.total()} guests need {parts} = {needed_mb} MiB of memory, and {free_mb} MiB are "
        "free: fewer routers, or end what uses it"
    )


def _programs(experiment: Experiment, hypervisors: set[Hypervisor]) -> Iterator[str]:
    """Tell what is missing to start the first guest of each sort."""
    if "uml" in hypervisors:
        if shutil.which(KERNEL) is None:
            yield f"virtual machines need {KERNEL}: apt-get install {PACKAGE}"
        if experiment.traffic.ip == 6 and shutil.which("modprobe", path=GUEST_PATH) is None:
            yield "virtual machines load IPv6 with modprobe: apt-get install kmod"
    if "tcg" in hypervisors and (why := qemu.lacking("tcg")):
        yield f"virtual machines with hypervisor tcg: {why}"
    if "kvm" in hypervisors and (why := kvm.fault_with_routers()):
        yield f"virtual machines with hypervisor kvm: {why}; tcg and uml need no KVM"


def refuse(experiment: Experiment, arms: Sequence[Arm]) -> None:
    """Raise NotSupported if this host cannot run the guests of some arms."""
    if why := lacking(experiment, arms):
        others = [arm.name for arm in arms if not _guests(experiment, arm)]
        hint = f"; or without virtual machines: --arms {','.join(others)}" if others else ""
        raise NotSupported(f"not supported on this host: {why}{hint}")


def limits(arm: Arm) -> Iterator[NotMeasured]:
    """Tell what the figures of an arm's guests do not stand for."""
    for hypervisor, what in _STANDS_FOR.items():
        guests = [router.group for router in arm.routers if router.live_hypervisor == hypervisor]
        if guests:
            name = HYPERVISOR_NAMES[hypervisor]
            yield NotMeasured(
                what=f"Virtual machines under anything but {name}",
                why=f"on {arm.name} {', '.join(guests)} ran under {name}, {what}: its figures are "
                "no other hypervisor's",
            )


def _guests(experiment: Experiment, arm: Arm) -> Counter[Hypervisor]:
    """Return the guests that an arm has at most at one time, by what runs them."""
    found: Counter[Hypervisor] = Counter()
    for router in arm.routers:
        if router.live_hypervisor is not None:
            found[router.live_hypervisor] += max(experiment.router(router.group).count)
    return found


def _each_mb(hypervisor: Hypervisor) -> int:
    return UML_MB if hypervisor == "uml" else QEMU_MB


def _memory_mb(guests: Counter[Hypervisor]) -> int:
    return sum(count * _each_mb(name) for name, count in guests.items())

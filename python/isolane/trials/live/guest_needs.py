"""Whether this host can run the guests of an experiment, before anything is started."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from isolane.errors import NotSupported
from isolane.guests import (
    GUEST_PATH,
    IMAGE_MB,
    KERNEL,
    PACKAGE,
    QEMU_MB,
    UML_MB,
    WRITTEN_MB,
    check_image,
    kvm,
    qemu,
    user_data,
)
from isolane.procfs import memory_info
from isolane.results.quality_models import NotMeasured
from isolane.spec import Arm, ArmRouter, Experiment
from isolane.spec.fields import Hypervisor
from isolane.spec.image_models import AUTO
from isolane.spec.kinds import HYPERVISOR_NAMES, UML_NIC

_BESIDE_UML_MB: Final = 16
"""MiB of this host that a guest may need beside its own memory: its processes, page tables,
console. One that has just booted was measured with 26 MiB in all, since it has not used all of its
own."""
_BESIDE_QEMU_MB: Final = 112
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
    for why in _programs(experiment, {one for each in guests for one in each}):
        return why
    free_mb = memory_info()["MemAvailable"] >> 20 if available_mb is None else available_mb
    largest = max(guests, key=_memory_mb, default=Counter())
    needed_mb = _memory_mb(largest)
    if needed_mb <= free_mb:
        return ""
    sizes: Counter[int] = Counter()
    for one, count in largest.items():
        sizes[one.memory_mb] += count
    parts = " + ".join(f"{count} x {size} MiB" for size, count in sizes.items())
    return (
        f"{largest.total()} guests need {parts} = {needed_mb} MiB of memory, and {free_mb} MiB are "
        "free: fewer routers, or end what uses it"
    )


def _programs(experiment: Experiment, guests: set[_Sort]) -> Iterator[str]:
    """Tell what is missing to start the first guest of each sort."""
    hypervisors = {one.hypervisor for one in guests}
    own = {one.hypervisor for one in guests if not one.image}
    if "uml" in hypervisors:
        if shutil.which(KERNEL) is None:
            yield f"virtual machines need {KERNEL}: apt-get install {PACKAGE}"
        arms = experiment.resolved_arms()
        served = any(router.path == "netback" for arm in arms for router in arm.routers)
        loads = served or experiment.traffic.ip == 6
        if loads and shutil.which("modprobe", path=GUEST_PATH) is None:
            yield "virtual machines load drivers with modprobe: apt-get install kmod"
    if "tcg" in hypervisors:
        lacks = qemu.lacking if "tcg" in own else qemu.emulator_lacking
        if why := lacks("tcg"):
            yield f"virtual machines with hypervisor tcg: {why}"
    if "kvm" in hypervisors and (why := kvm.fault_with_routers()):
        yield f"virtual machines with hypervisor kvm: {why}; tcg and uml need no KVM"


def refuse(experiment: Experiment, arms: Sequence[Arm]) -> None:
    """Raise NotSupported if this host cannot run the guests of some arms.

    Raises
    ------
    SpecError
        If an image, or the user data of one, cannot be used.
    """
    for image in {r.image for arm in arms for r in arm.routers if r.image is not None}:
        check_image(image.file)
        if image.cloud_init not in (None, AUTO):
            user_data(image.cloud_init)
    if why := lacking(experiment, arms):
        others = [arm.name for arm in arms if not _guests(experiment, arm)]
        hint = f"; or without virtual machines: --arms {','.join(others)}" if others else ""
        raise NotSupported(f"not supported on this host: {why}{hint}")


def limits(arm: Arm) -> Iterator[NotMeasured]:
    """Tell what the figures of an arm's guests do not stand for, and what they leave out."""
    for hypervisor, what in _STANDS_FOR.items():
        guests = [router.group for router in arm.routers if router.live_hypervisor == hypervisor]
        if guests:
            name = HYPERVISOR_NAMES[hypervisor]
            yield NotMeasured(
                what=f"Virtual machines under anything but {name}",
                why=f"on {arm.name} {', '.join(guests)} ran under {name}, {what}: its figures are "
                "no other hypervisor's",
            )
    silent = [router.group for router in arm.routers if router.image is not None]
    if silent:
        yield NotMeasured(
            what="Where routers from images lose frames",
            why=f"on {arm.name} nothing in {', '.join(silent)} tells Isolane; what its NIC's queue "
            "refuses is known",
        )


@dataclass(frozen=True)
class _Sort:
    """Guests that need the same of a host."""

    hypervisor: Hypervisor
    memory_mb: int
    """What one of them needs of this host, MiB."""
    image: bool


def _guests(experiment: Experiment, arm: Arm) -> Counter[_Sort]:
    """Return the guests that an arm has at most at one time, by sort."""
    found: Counter[_Sort] = Counter()
    for router in arm.routers:
        if router.live_hypervisor is not None:
            found[_sort(router)] += max(experiment.router(router.group).count)
    return found


def _sort(router: ArmRouter) -> _Sort:
    hypervisor, image = router.live_hypervisor, router.image
    assert hypervisor is not None
    if hypervisor == "uml":
        return _Sort(hypervisor, (router.memory_mb or UML_MB) + _BESIDE_UML_MB, image=False)
    default_mb = QEMU_MB if image is None else IMAGE_MB
    written_mb = 0 if image is None else WRITTEN_MB
    needed_mb = (router.memory_mb or default_mb) + written_mb + _BESIDE_QEMU_MB
    return _Sort(hypervisor, needed_mb, image=image is not None)


def _memory_mb(guests: Counter[_Sort]) -> int:
    return sum(count * one.memory_mb for one, count in guests.items())

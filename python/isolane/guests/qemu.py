"""A QEMU guest: Debian's kernel and a few programs on an emulated machine with real NIC models.

It sees no file of this host. QEMU runs without capabilities, and may start no process. Each of the
guest's NICs is a macvtap device of this host, which QEMU opens as a tap, or is served by a network
back-end.
"""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from isolane.errors import NotSupported
from isolane.guests.debian_kernel import GuestKernel
from isolane.guests.guest import DIRECTORY, Guest, GuestPlan
from isolane.guests.guest_answers import ANSWERING
from isolane.guests.served_nic import VhostUserNic
from isolane.procfs import thread_name, threads_of

EMULATOR: Final = "qemu-system-x86_64"
EMULATOR_PACKAGE: Final = "qemu-system-x86"
Accelerator = Literal["kvm", "tcg"]
Model = Literal["virtio", "e1000"]
_DEVICE: Final[dict[Model, str]] = {"virtio": "virtio-net-pci", "e1000": "e1000"}
KERNEL_WORDS: Final[dict[Accelerator, str]] = {
    "kvm": "",
    # Emulated code needs no cures for a real processor's faults, and its clock is this host's;
    # the kernel's tests of its ciphers take a tenth of the time to boot. A kernel that finds no
    # ticks of its timer for a moment panics, though QEMU only had no core to send them from: that
    # check is left out, as kernels do themselves under KVM.
    "tcg": " mitigations=off tsc=reliable cryptomgr.notests no_timer_check",
}
"""Words on the kernel's command line, by what runs it."""
_ACCEL: Final[dict[Accelerator, str]] = {
    "kvm": "kvm",
    # The translator keeps what it has translated, by default up to a quarter of the host's memory.
    "tcg": "tcg,tb-size=32",
}
_CPU: Final[dict[Accelerator, str]] = {"kvm": "host", "tcg": "max"}
_SANDBOX: Final = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
_FIRST_DESCRIPTOR: Final = 3
_SCRIPT: Final = "name=opt/isolane/script,file="
"""The firmware's interface (fw_cfg) hands the guest a file: under ``/sys`` it has this name."""


QEMU_MB: Final = 128
QEMU_DISK: Final = "/dev/vda"
"""Where a guest finds its disk."""
_DISK_BYTES: Final = 1 << 43
"""Of the disk: at 1 GB/s it is read in two hours."""


@dataclass(frozen=True)
class QemuNic:
    """A NIC of a guest; the first one is ``eth0`` in the guest, the next one ``eth1``."""

    device: tuple[int, int]
    """Major and minor number of the macvtap's character device."""
    mac: str


@dataclass(frozen=True)
class QemuPlan(GuestPlan):
    """A guest to be started.

    Parameters
    ----------
    accelerator
        What runs its code: the processor (``kvm``), or QEMU's translator (``tcg``).
    model
        Model of its NICs.
    memory_mb
        Its memory, MiB.
    vcpus
        Its virtual CPUs.
    nics
        Its NICs; their devices are there as long as the guest.
    disk
        Whether it has a disk to read from, which holds nothing (QEMU's ``null-co``).
    """

    accelerator: Accelerator = "tcg"
    model: Model = "virtio"
    memory_mb: int = QEMU_MB
    vcpus: int = 1
    nics: tuple[QemuNic | VhostUserNic, ...] = ()
    disk: bool = False

    @property
    def devices(self) -> dict[int, tuple[int, int]]:
        """Numbers of the devices that its NICs are, by the NIC's number."""
        return {i: nic.device for i, nic in enumerate(self.nics) if isinstance(nic, QemuNic)}


class QemuGuest(Guest):
    """A guest under QEMU; see :class:`isolane.guests.guest.Guest`."""

    PROGRAM = EMULATOR

    def __init__(self, plan: QemuPlan, limit_s: float = 60.0, directory: Path = DIRECTORY) -> None:
        super().__init__(plan, limit_s, directory)
        self.plan = plan
        self._kernel = GuestKernel.installed()

    @staticmethod
    def mark(folder: Path) -> str:
        """Return the word of its command line that says whose folder it has."""
        return f"{_SCRIPT}{folder / 'script'}"

    def _check(self) -> None:
        if lack := lacking(self.plan.accelerator):
            raise NotSupported(f"not supported on this host: {lack}")

    def _prepare(self) -> None:
        (self.folder / "script").write_text(f"{self.plan.script}\n{ANSWERING}\n")
        for name in ("kernel", "initrd"):
            (self.folder / name).touch()
        (self.folder / "dev").mkdir()

    def _mounts(self) -> list[str]:
        folder = shlex.quote(str(self.folder))
        kernel, initrd = (shlex.quote(str(path)) for path in self._kernel.files)
        return [  # /home, where the kernel may lie, will be hidden
            f"mount --bind {kernel} {folder}/kernel",
            f"mount --bind {initrd} {folder}/initrd",
            *self._device_nodes(),
        ]

    def _device_nodes(self) -> list[str]:
        """Return commands that make the devices of its NICs, since /run lets nobody open any."""
        folder = shlex.quote(str(self.folder))
        return [
            f"mount -t tmpfs -o size=16k,mode=0700 isolane-guest {folder}/dev",
            *(
                f"mknod -m 600 {folder}/dev/{i} c {major} {minor}"
                for i, (major, minor) in self.plan.devices.items()
            ),
        ]

    def _redirections(self) -> str:
        folder = shlex.quote(str(self.folder))
        return " ".join(f"{_FIRST_DESCRIPTOR + i}<>{folder}/dev/{i}" for i in self.plan.devices)

    def _command(self) -> list[str]:
        plan, folder = self.plan, self.folder
        return [
            *("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"),
            *(EMULATOR, "-name", f"isolane-{plan.name},debug-threads=on"),
            *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
            *("-sandbox", _SANDBOX),
            *self._machine(),
            *("-accel", _ACCEL[plan.accelerator], "-cpu", _CPU[plan.accelerator]),
            *("-m", f"{plan.memory_mb}M", "-smp", str(plan.vcpus), "-serial", "stdio"),
            *("-fw_cfg", self.mark(folder)),
            *self._software(),
            *(self._empty_disk() if plan.disk else ()),
            *(word for i, nic in enumerate(plan.nics) for word in self._nic(i, nic)),
        ]

    def _processors(self, emulator: int) -> list[int]:
        # debug-threads=on names them "CPU 0/TCG".
        return [each for each in threads_of(emulator) if thread_name(each).startswith("CPU ")]

    def _software(self) -> list[str]:
        """Return the words of the command line that say what runs in it."""
        folder, words = self.folder, KERNEL_WORDS[self.plan.accelerator]
        return [
            *("-kernel", f"{folder}/kernel", "-initrd", f"{folder}/initrd"),
            *("-append", f"console=ttyS0 quiet panic=-1{words}"),
        ]

    @staticmethod
    def _empty_disk() -> tuple[str, ...]:
        """Return the words for a disk whose requests are answered at once, and take no memory."""
        disk = f"driver=null-co,node-name=disk,size={_DISK_BYTES},read-zeroes=on"
        return ("-blockdev", disk, "-device", "virtio-blk-pci,drive=disk")

    def _machine(self) -> tuple[str, ...]:
        """Return the words for the machine; a network back-end needs a share of its memory."""
        if len(self.plan.devices) == len(self.plan.nics):
            return ("-machine", "q35")
        memory = f"memory-backend-memfd,id=memory,size={self.plan.memory_mb}M,share=on"
        return ("-object", memory, "-machine", "q35,memory-backend=memory")

    def _nic(self, number: int, nic: QemuNic | VhostUserNic) -> tuple[str, ...]:
        behind: tuple[str, ...]
        more = ""
        if isinstance(nic, VhostUserNic):
            # QEMU 7.2 without KVM ends by itself where such a NIC has interrupt vectors (MSI-X).
            more = ",vectors=0" if self.plan.accelerator == "tcg" else ""
            served = ("-chardev", f"socket,id=c{number},path={nic.socket},reconnect=1")
            behind = (*served, "-netdev", f"vhost-user,id=n{number},chardev=c{number}")
        else:
            behind = ("-netdev", f"tap,id=n{number},fd={_FIRST_DESCRIPTOR + number}")
        return (
            *behind,
            "-device",
            # Without a ROM to boot from the network with, which is a package of its own.
            f"{_DEVICE[self.plan.model]},netdev=n{number},mac={nic.mac},romfile={more}",
        )


def lacking(accelerator: Accelerator) -> str:
    """Return what this host lacks for such a guest; empty if it lacks nothing."""
    return emulator_lacking(accelerator) or GuestKernel.installed().lacking()


def emulator_lacking(accelerator: Accelerator) -> str:
    """Return what this host lacks to run a machine at all; empty if it lacks nothing."""
    if shutil.which(EMULATOR) is None:
        return f"there is no {EMULATOR} (apt-get install {EMULATOR_PACKAGE})"
    if accelerator == "kvm" and not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "there is no /dev/kvm (see isolane doctor)"
    return ""

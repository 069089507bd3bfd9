"""A User-Mode Linux guest: a whole kernel in a process, on any host, without virtualisation.

Its root is this host's file system without ``/root`` and ``/home``, and read-only.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from isolane.errors import NotSupported
from isolane.guests import plain_registers, uml_modules
from isolane.guests.guest import DIRECTORY, Guest, GuestPlan
from isolane.guests.guest_answers import ANSWERING
from isolane.guests.nic_socket import NicSocket
from isolane.guests.served_nic import VhostUserNic
from isolane.procfs import children, threads_of, tracer

KERNEL: Final = "linux.uml"
PACKAGE: Final = "user-mode-linux"
_MEMORY: Final = "/dev/shm"  # noqa: S108 - where the guest's kernel makes its memory's file
_OWN_FOLDER: Final = "uml"
"""The guest's kernel makes it, and empties it first if it is there."""
_DRIVER: Final = "depth=128,mtu=1500"
"""Its driver takes or sends 128 frames in one call at most; without an MTU it would keep 64 KiB for
each of them."""
GUEST_PATH: Final = "/usr/sbin:/usr/bin:/sbin:/bin"
"""Where a guest looks for programs, which are this host's."""
_NOT_NEEDED: Final = "raid6_select_algo"
"""What its kernel would try out at the start: which code is fastest for disks that it has not, for
0.8 of 1.3 s."""
UML_DISK: Final = "/dev/ubda"
"""Where a guest finds its disk."""
_DISK: Final = f"{_MEMORY}/disk"
"""The file that it is: it has no content, and so takes none of this host's memory."""
_DISK_BYTES: Final = 1 << 43
"""Of the disk, which holds nothing: at 1 GB/s it is read in two hours."""
_NETWORK: Final = 1
"""Of virtio: this kind of device."""
_VIRTIO: Final = "virtio_net napi_tx=0"
"""Its driver, without interrupts for frames that were sent."""
_FIRST: Final = (
    "stty -echo",
    f"export PATH={GUEST_PATH}",
    "mount -t proc proc /proc",
    "mount -t sysfs sysfs /sys",
    "mount -t tmpfs -o size=1m tmpfs /tmp",
)


@dataclass(frozen=True)
class UmlNic:
    """A NIC of a guest; the first one is ``vec0`` in the guest, the next one ``vec1``."""

    socket: NicSocket
    mac: str


UML_MB: Final = 64


@dataclass(frozen=True)
class UmlPlan(GuestPlan):
    """A guest to be started.

    Parameters
    ----------
    memory_mb
        Its memory, MiB.
    nics
        Its NICs, which stay whoever opened them's to close.
    disk
        Whether it has a disk to read from, which holds nothing.
    """

    memory_mb: int = UML_MB
    nics: tuple[UmlNic | VhostUserNic, ...] = ()
    disk: bool = False

    @property
    def own_nics(self) -> tuple[UmlNic, ...]:
        """Those of its NICs that are sockets of this process."""
        return tuple(nic for nic in self.nics if isinstance(nic, UmlNic))

    @property
    def served_nics(self) -> tuple[VhostUserNic, ...]:
        """Those that a network back-end serves."""
        return tuple(nic for nic in self.nics if isinstance(nic, VhostUserNic))


class UmlGuest(Guest):
    """A guest kernel in a process; see :class:`isolane.guests.guest.Guest`."""

    PROGRAM = KERNEL

    def __init__(self, plan: UmlPlan, limit_s: float = 60.0, directory: Path = DIRECTORY) -> None:
        super().__init__(plan, limit_s, directory)
        self.plan = plan

    @staticmethod
    def mark(folder: Path) -> str:
        """Return the word of its command line that says whose folder it has."""
        return f"uml_dir={folder}"

    def _check(self) -> None:
        if shutil.which(KERNEL) is None:
            raise NotSupported(
                f"not supported on this host: there is no {KERNEL} (apt-get install {PACKAGE})"
            )

    def _processors(self, emulator: int) -> list[int]:
        return [emulator]  # its first thread is the guest's kernel

    def _programs(self, emulator: int) -> list[int]:
        # Each address space of the guest's programs is a process of its own.
        # Not so the process that serves its disk: only what it traces are programs.
        own = [process for process in children(emulator) if tracer(process) == emulator]
        return [thread for process in own for thread in threads_of(process)]

    @property
    def _init(self) -> Path:
        return self.folder / "init"

    def _prepare(self) -> None:
        driver = (uml_modules.load(_VIRTIO),) if self.plan.served_nics else ()
        lines = ("#!/bin/sh", *_FIRST, *driver, self.plan.script, ANSWERING)
        self._init.write_text("\n".join(lines) + "\n")
        self._init.chmod(0o700)

    def _mounts(self) -> list[str]:
        # The guest's memory is a file there, which must be executable.
        size = f"size={self.plan.memory_mb + 32}m,mode=0700"
        return [
            f"mount -t tmpfs -o {size} isolane-guest {_MEMORY}",
            *([f"truncate --size {_DISK_BYTES} {_DISK}"] if self.plan.disk else []),
        ]

    def _descriptors(self) -> list[int]:
        return [nic.socket.fileno() for nic in self.plan.own_nics]

    def _as_guest(self) -> None:
        super()._as_guest()
        if plain_registers.are_needed():
            plain_registers.keep_to_them()

    def _command(self) -> list[str]:
        return [
            KERNEL,
            f"mem={self.plan.memory_mb}M",
            f"umid={_OWN_FOLDER}",
            self.mark(self.folder),
            *("root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro"),
            f"init={self._init}",
            *("con=null", "con0=fd:0,fd:1", "quiet", "panic=-1"),
            f"initcall_blacklist={_NOT_NEEDED}",
            # Threads of the boot may be there still, some 300: as many as are allowed with 64 MiB.
            "sysctl.kernel.threads-max=4096",
            # Words that the kernel does not know are its first process's environment.
            *([plain_registers.ENVIRONMENT] if plain_registers.are_needed() else []),
            *(
                f"vec{i}:transport=fd,fd={nic.socket.fileno()},mac={nic.mac},{_DRIVER}"
                for i, nic in enumerate(self.plan.own_nics)
            ),
            *([f"ubd0r={_DISK}"] if self.plan.disk else []),
            *(
                f"virtio_uml.device={nic.socket}:{_NETWORK}:{i}"
                for i, nic in enumerate(self.plan.served_nics)
            ),
        ]

"""A guest that starts from a disk image of the user's: whatever router is on it.

Isolane knows nothing of what runs in it and asks it nothing: whether it forwards shows outside.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from isolane.errors import NotSupported, SpecError, TestbedError
from isolane.guests.cloud_init import Seed
from isolane.guests.guest import DIRECTORY
from isolane.guests.own_core import stay_on
from isolane.guests.qemu import QemuGuest, QemuPlan, emulator_lacking

IMAGE_MB: Final = 512
"""Memory of a guest with an image, MiB, where the experiment says nothing."""
_MAGIC: Final = b"QFI\xfb"
_EXTERNAL_DATA: Final = 1 << 2
"""Incompatible feature of qcow2: the data are in another file."""
_HEADER_BYTES: Final = 80
WRITTEN_MB: Final = 256
"""What an image may write on its disk, MiB: it is kept in memory. Beyond that its disk is full."""
_SEED: Final = "seed"
_WRITTEN: Final = "written"


@dataclass(frozen=True)
class ImagePlan(QemuPlan):
    """A guest to be started from an image.

    Parameters
    ----------
    image
        A file in format qcow2 that stands by itself.
    seed
        What cloud-init in it is told; None: nothing.
    """

    image: str = ""
    memory_mb: int = IMAGE_MB
    seed: Seed | None = None


class ImageGuest(QemuGuest):
    """A guest with an image of the user's; see :class:`isolane.guests.guest.Guest`.

    It is called ready as soon as it runs: when its router is, its neighbours find out. What it
    writes on its disk is kept in memory and forgotten.
    """

    def __init__(self, plan: ImagePlan, limit_s: float = 60.0, directory: Path = DIRECTORY) -> None:
        super().__init__(plan, limit_s, directory)
        self._image_plan = plan
        self._image = -1

    def _check(self) -> None:
        if lack := emulator_lacking(self.plan.accelerator):
            raise NotSupported(f"not supported on this host: {lack}")

    def _prepare(self) -> None:
        # With this process's rights: the emulator has none beyond those of its user.
        self._image = open_image(self._image_plan.image)
        (self.folder / "script").touch()  # its name on the command line marks the process
        (self.folder / "dev").mkdir()
        (self.folder / _WRITTEN).mkdir()
        seed = self._image_plan.seed
        if seed is not None:
            (self.folder / _SEED).mkdir(mode=0o700)  # whoever may read it is its author's to say
            for name, text in seed.files().items():
                (self.folder / _SEED / name).write_text(text)

    def _mounts(self) -> list[str]:
        # The folder is on the host's own /run, which a guest must not fill.
        written = shlex.quote(str(self.folder / _WRITTEN))
        own = f"mount -t tmpfs -o size={WRITTEN_MB}m,mode=0700,nosuid,nodev,noexec none {written}"
        return [*self._device_nodes(), own]

    def _descriptors(self) -> list[int]:
        return [self._image]

    def _start(self) -> None:
        try:
            super()._start()
        finally:
            if self._image >= 0:
                os.close(self._image)
                self._image = -1

    def is_ready(self, wait_s: float = 0.0) -> bool:  # noqa: ARG002 - there is no sign to wait for
        """Tell that it runs, on its own core: it boots there, too.

        Raises
        ------
        TestbedError
            When it has ended: with the last lines of its console.
        """
        if not self.is_running:
            raise self._failed("has ended")
        if self._core is not None:
            stay_on(self._core, self.threads)
        return True

    def proc(self, name: str) -> str:
        """Raise TestbedError: nobody in it would answer."""
        raise TestbedError(f"guest {self._name} has an image of its own and tells nothing ({name})")

    def _environment(self) -> str:
        # Where the emulator keeps what the guest writes: all else is read-only.
        return f"TMPDIR={shlex.quote(str(self.folder / _WRITTEN))}"

    def _software(self) -> list[str]:
        return [
            *("-add-fd", f"fd={self._image},set=1,opaque=image"),
            *("-drive", "file=/dev/fdset/1,format=qcow2,if=none,id=disk,snapshot=on,werror=report"),
            *("-device", "virtio-blk-pci,drive=disk,bootindex=0"),
            *self._seed_words(),
        ]

    def _seed_words(self) -> list[str]:
        if self._image_plan.seed is None:
            return []
        folder = f"driver=vvfat,node-name=seed,dir={self.folder / _SEED},label=CIDATA,read-only=on"
        return ["-blockdev", folder, "-device", "virtio-blk-pci,drive=seed"]


def open_image(file: str) -> int:
    """Open an image for reading, and look at what was opened; returns the descriptor.

    Raises
    ------
    SpecError
        If it cannot be read, is not in format qcow2, or needs another file: that one would be read
        with Isolane's rights, whoever made the image.
    """
    try:
        opened = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise SpecError(f"image {file}: {error.strerror}") from None
    try:
        _refuse_unfit(file, opened)
    except BaseException:
        os.close(opened)
        raise
    return opened


def check_image(file: str) -> None:
    """Look at an image before anything is started; raises what :func:`open_image` raises."""
    os.close(open_image(file))


def _refuse_unfit(file: str, opened: int) -> None:
    try:
        head = os.pread(opened, _HEADER_BYTES, 0)
    except OSError as error:
        raise SpecError(f"image {file}: {error.strerror}") from None
    if len(head) < _HEADER_BYTES or not head.startswith(_MAGIC):
        raise SpecError(
            f"image {file}: not in format qcow2; accepted: qemu-img convert -O qcow2 FILE NEW"
        )
    version = int.from_bytes(head[4:8], "big")
    features = int.from_bytes(head[72:80], "big") if version >= 3 else 0
    if int.from_bytes(head[8:16], "big") or features & _EXTERNAL_DATA:
        raise SpecError(
            f"image {file}: needs another file; accepted: one that stands by itself, such as "
            "qemu-img convert -O qcow2 FILE NEW makes"
        )

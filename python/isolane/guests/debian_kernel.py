"""The kernel and the first programs of QEMU guests: Debian's, made once, kept by checksum.

The kernel is taken out of Debian's package and not installed, so this host's own way to boot stays
what it is. The programs are those of busybox and this host's ip(8), which a guest has in memory.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from isolane.errors import NotSupported, TestbedError

COMMAND: Final = "isolane guest-kernel"
_PACKAGE: Final = "linux-image-amd64"
"""Names the present kernel's package, which it depends on."""
_PROGRAMS: Final = "busybox-static"
_TOOLS: Final = ("apt-get", "apt-cache", "dpkg-deb", "cpio", "ldd", "ip")
_FACTS, _KERNEL, _INITRD = "guest-kernel.json", "kernel", "initrd"
_PACKED: Final = "vmlinuz"
"""The kernel as it was in its package: boot loaders of disk images start no other."""
_MODULES: Final = (
    *("virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci"),
    *("failover", "net_failover", "virtio_net", "e1000", "qemu_fw_cfg", "virtio_blk"),
)
"""In the order that they need each other; the last one reads the disks of images."""
_INIT: Final = """\
#!/bin/sh
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
stty -echo
for module in $(cat /modules); do
    insmod /lib/modules/$module.ko || exit 1
done
dmesg -n 1
ip() {  # busybox prefers its own, which knows no neighbours
    /bin/ip "$@"
}
cat /sys/firmware/qemu_fw_cfg/by_name/opt/isolane/script/raw >/script
. /script
"""
_TIMEOUT_S: Final = 600.0
_XZ: Final = b"\xfd7zXZ\0"
_ELF: Final = b"\x7fELF"


@dataclass(frozen=True)
class GuestKernel:
    """A kernel for guests in a folder, there or not.

    Parameters
    ----------
    folder
        Holds the kernel, its initial root file system, and what they were made of.
    """

    folder: Path

    @classmethod
    def installed(cls) -> GuestKernel:
        """Return the one of this installation of Isolane."""
        return cls(Path(sys.prefix) / "share" / "isolane" / "guest-kernel")

    @property
    def files(self) -> tuple[Path, Path]:
        """Kernel and initial root file system."""
        return self.folder / _KERNEL, self.folder / _INITRD

    @property
    def version(self) -> str:
        """Its version, such as ``6.1.0-56-amd64``; empty if there is none."""
        return str(self._facts().get("version", ""))

    def lacking(self) -> str:
        """Return what is wrong with it, and what to do; empty if nothing is."""
        facts = self._facts()
        if not facts:
            return f"there is no kernel for QEMU guests ({COMMAND} fetches Debian's)"
        for path in self.files:
            if not path.is_file() or _checksum(path, path.stat().st_mtime_ns) != facts[path.name]:
                return f"{path} is not what {COMMAND} made (do it again: {COMMAND})"
        return ""

    def _facts(self) -> dict[str, str]:
        try:
            found = json.loads((self.folder / _FACTS).read_text())
        except (OSError, ValueError):
            return {}
        whole = isinstance(found, dict) and {_KERNEL, _INITRD, "version"} <= set(found)
        return found if whole else {}

    def make(self, tell: Callable[[str], None]) -> None:
        """Fetch and make it, in place of the one that is there.

        Parameters
        ----------
        tell
            Gets a sentence at each step.

        Raises
        ------
        NotSupported
            If this is no Debian, or no x86-64 machine.
        TestbedError
            If a package cannot be fetched or is not as expected, or there is no writing here.
        """
        lack = [tool for tool in _TOOLS if shutil.which(tool) is None]
        if lack or _run("dpkg", "--print-architecture").strip() != "amd64":
            what = f"there is no {', '.join(lack)}" if lack else "QEMU guests are x86-64 so far"
            raise NotSupported(
                f"not supported on this host: {what} (needs Debian on x86-64, with cpio)"
            )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".new-", dir=self.folder) as name:
                self._make(Path(name), tell)
        except OSError as error:
            reason = f"{error.filename or self.folder}: {error.strerror}"
            raise TestbedError(f"the kernel for guests cannot be written: {reason}") from None

    def _make(self, work: Path, tell: Callable[[str], None]) -> None:
        package = _needed_by(_PACKAGE)
        tell(f"fetching {package} and {_PROGRAMS} (some 75 MB)")
        for each in (package, _PROGRAMS):
            _fetch(each, work)
        version = package.removeprefix("linux-image-")
        tell(f"taking Linux {version} out of its package")
        packed = work / f"boot/vmlinuz-{version}"
        (work / _KERNEL).write_bytes(uncompressed(packed.read_bytes()))
        packed.rename(work / _PACKED)
        tell("packing what a guest starts with")
        root = work / "guest"
        _fill(root, work, version)
        _run("sh", "-c", "find . | cpio -o -H newc --owner 0:0 --quiet >../initrd", folder=root)
        facts = {name: _checksum(work / name, 0) for name in (_KERNEL, _INITRD)}
        (work / _FACTS).write_text(json.dumps({"version": version, **facts}, indent=1) + "\n")
        # What tells of the others comes last: until then nothing is there.
        (self.folder / _FACTS).unlink(missing_ok=True)
        for name in (_KERNEL, _INITRD, _PACKED, _FACTS):
            (work / name).rename(self.folder / name)


def uncompressed(image: bytes) -> bytes:
    """Return the kernel within a compressed one, which QEMU boots without unpacking it by itself.

    An image in a format that is not known here is returned as it is.
    """
    found = image.find(_XZ)
    if found < 0:
        return image
    try:
        kernel = lzma.LZMADecompressor().decompress(image[found:])
    except lzma.LZMAError:
        return image
    return kernel if kernel.startswith(_ELF) else image


def _fill(root: Path, packages: Path, version: str) -> None:
    """Lay out a guest's root file system: programs, modules, the first script."""
    for name in ("bin", "lib/modules", "proc", "sys", "dev", "tmp", "etc"):
        (root / name).mkdir(parents=True)
    shutil.copy(packages / "bin/busybox", root / "bin")
    for name in _run(str(root / "bin/busybox"), "--list").split():
        if name not in ("busybox", "ip"):
            (root / "bin" / name).symlink_to("busybox")
    program = Path(str(shutil.which("ip"))).resolve()
    shutil.copy(program, root / "bin/ip")
    for word in _run("ldd", str(program)).split():
        if word.startswith("/"):
            library = root / word[1:]
            library.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(word, library)
    modules = packages / "lib/modules" / version
    for name in _MODULES:
        (found,) = modules.rglob(f"{name}.ko")
        shutil.copy(found, root / "lib/modules")
    (root / "modules").write_text("\n".join(_MODULES) + "\n")
    (root / "init").write_text(_INIT)
    (root / "init").chmod(0o755)


def _needed_by(package: str) -> str:
    """Return the package of the present kernel, which the one without a version depends on."""
    for line in _run("apt-cache", "depends", package).splitlines():
        kind, _, name = line.strip().partition(": ")
        if kind == "Depends" and name.startswith("linux-image-"):
            return name
    raise TestbedError(f"{package} depends on no kernel: is this Debian?")


def _fetch(package: str, folder: Path) -> None:
    """Unpack a package into a folder, without installing it."""
    # As root apt-get would fetch as a user who may not write here, and complain.
    _run("apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", package, folder=folder)
    (found,) = folder.glob("*.deb")
    _run("dpkg-deb", "-x", str(found), str(folder))
    found.unlink()


def _run(*words: str, folder: Path | None = None) -> str:
    try:
        done = subprocess.run(
            words, cwd=folder, check=False, capture_output=True, text=True, timeout=_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise TestbedError(f"{words[0]} did not end within {_TIMEOUT_S:g} s") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        # What apt does not find, or no longer finds, is often a list of packages that is old.
        hint = " (try it again after apt-get update)" if words[0].startswith("apt-") else ""
        raise TestbedError(f"{' '.join(words)} failed: {last}{hint}")
    return done.stdout


@lru_cache(maxsize=8)
def _checksum(path: Path, changed_ns: int) -> str:  # noqa: ARG001 - a file that changed is another
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

"""Disk images that know nothing of Isolane: a tiny router, and a machine that only says a word."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from isolane.guests import GuestKernel

TOOLS = ("qemu-img", "syslinux", "mcopy", "mkfs.vfat", "cpio")
_SIZE_MB = 48
_BOOT = """\
SERIAL 0 115200
DEFAULT linux
LABEL linux
KERNEL /vmlinuz
INITRD /first,/second
APPEND console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable no_timer_check cryptomgr.notests
"""
_BEGIN = """\
#!/bin/sh
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
for module in $(cat /modules); do insmod /lib/modules/$module.ko; done
"""
_ROUTER = """\
set -- {ingress} {egress}
if [ -b /dev/vdb ]; then  # the seed of cloud-init
    set -- $(dd if=/dev/vdb bs=64k count=64 2>/dev/null | tr -s '\\0' '\\n' |
        grep -o '[0-9a-f:.]\\{{7,\\}}/[0-9]\\{{1,3\\}}')
fi
about="tiny router: $(nproc) processors, $1, $2"
for nic in eth0 eth1; do
    if [ -d /sys/class/net/$nic ]; then
        echo 0 >/proc/sys/net/ipv6/conf/$nic/accept_dad
        /bin/ip link set $nic up
        /bin/ip addr add $1 dev $nic
    fi
    shift
done
echo 1 >/proc/sys/net/ipv4/ip_forward
echo 1 >/proc/sys/net/ipv6/conf/all/forwarding
echo "$about"
"""


@dataclass(frozen=True)
class TinyRouter:
    """What is on the image: addresses of its own, and what it does at last."""

    ingress: str = "192.0.2.1/24"
    egress: str = "198.51.100.1/24"
    at_last: str = "sleep 1000000"

    def write(self, folder: Path) -> Path:
        """Make an image in a folder."""
        kernel = GuestKernel.installed().folder
        root = folder / "root"
        root.mkdir()
        router = _ROUTER.format(ingress=self.ingress, egress=self.egress)
        (root / "init").write_text(f"{_BEGIN}{router}{self.at_last}\n")
        (root / "init").chmod(0o755)
        _do("sh", "-c", "echo init | cpio -o -H newc --quiet >../second", cwd=root)
        raw, image = folder / "disk.raw", folder / "disk.qcow2"
        with raw.open("wb") as disk:
            disk.truncate(_SIZE_MB << 20)
        (folder / "syslinux.cfg").write_text(_BOOT)
        _do("mkfs.vfat", str(raw))
        _do("syslinux", "--install", str(raw))
        for source, name in (
            (kernel / "vmlinuz", "vmlinuz"), (kernel / "initrd", "first"),
            (folder / "second", "second"), (folder / "syslinux.cfg", "syslinux.cfg"),
        ):  # fmt: skip
            _do("mcopy", "-i", str(raw), str(source), f"::/{name}")
        _do("qemu-img", "convert", "-O", "qcow2", str(raw), str(image))
        raw.unlink()
        return image


_SAY: Final = bytes.fromhex(
    "fc"  # cld
    "31c0 8ed8"  # ds = 0
    "be1d7c"  # si = where the text is: 0x7c00, where a boot sector begins, and what stands here
    "baf803"  # dx = the serial port
    "ac 84c0 7403 ee ebf8"  # next letter: lodsb; out of it at a zero; outb; again
    "ba0406"  # dx = the ACPI control register of QEMU's machine q35
    "b80020 ef"  # off
    "f4 ebfd"  # hlt, for ever
)
_END_AT: Final = 23
"""Where the word is that switches the machine off; 0 does nothing."""


@dataclass(frozen=True)
class Word:
    """A machine that says a word on its console and then ends, or does nothing any more."""

    text: str
    ends: bool = True

    def write(self, folder: Path) -> Path:
        """Make an image of one sector in a folder."""
        code = bytearray(_SAY)
        if not self.ends:
            code[_END_AT : _END_AT + 2] = b"\0\0"
        sector = (bytes(code) + self.text.encode() + b"\r\n\0").ljust(510, b"\0") + b"\x55\xaa"
        raw, image = folder / "word.raw", folder / "word.qcow2"
        raw.write_bytes(sector.ljust(1 << 20, b"\0"))
        _do("qemu-img", "convert", "-O", "qcow2", str(raw), str(image))
        return image


def needs_tools() -> None:
    """Skip where an image cannot be made."""
    lack = [tool for tool in TOOLS if shutil.which(tool) is None]
    if not (GuestKernel.installed().folder / "vmlinuz").is_file():
        lack.append("a kernel (isolane guest-kernel --renew)")
    if lack:
        pytest.skip(f"needs {', '.join(lack)}: make test-setup")


def _do(*words: str, cwd: Path | None = None) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=cwd)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"

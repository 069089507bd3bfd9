"""Disk images of a tiny router: a boot loader, a kernel, and nothing that knows of Isolane."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

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
APPEND console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable
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
    set -- $(dd if=/dev/vdb bs=64k count=64 2>/dev/null | tr '\\0' '\\n' |
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
    instead: str = ""
    """What it does in place of being a router: not even for a moment does it forward then."""

    def write(self, folder: Path) -> Path:
        """Make an image in a folder."""
        kernel = GuestKernel.installed().folder
        root = folder / "root"
        root.mkdir()
        router = _ROUTER.format(ingress=self.ingress, egress=self.egress)
        script = self.instead or f"{router}{self.at_last}"
        (root / "init").write_text(f"{_BEGIN}{script}\n")
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

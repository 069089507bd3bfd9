"""Virtual machines: really starts one of 512 bytes, within a time limit."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from isolane.children import die_with_parent
from isolane.doctor.answers import Answer, Probe
from isolane.errors import NotSupported, TestbedError
from isolane.guests import KERNEL, UmlGuest, UmlPlan

_LIMIT_S: Final = 5.0
_KVM_LIMIT_S: Final = 2.0
"""Above :data:`_SLOW_S`; a KVM that hangs keeps a core busy until its time is over."""
_UML_LIMIT_S: Final = 10.0
"""A whole Linux boots in 1.5 s where nobody else wants the cores."""
_KILL_WAIT_S: Final = 2.0
_SLOW_S: Final = 1.0
"""Emulation starts a machine this small in 0.2 s; a KVM that takes longer is of no use."""

_GREETING: Final = b"isolane\n"
_GUEST_SAYS_DONE: Final = 0x10
_QEMU_STATUS: Final = _GUEST_SAYS_DONE << 1 | 1  # what isa-debug-exit makes of it
_QEMU: Final = "qemu-system-x86_64"


def boot_sector() -> bytes:
    """Return a boot sector that writes a greeting to the serial port and leaves QEMU.

    Real-mode code: ``mov dx, 0x3f8``; ``mov al, c; out dx, al`` for each character;
    ``mov dx, 0xf4; mov al, 0x10; out dx, al`` (isa-debug-exit); ``hlt; jmp $-1``.
    """
    code = bytes.fromhex("ba f803")
    code += b"".join(bytes((0xB0, character, 0xEE)) for character in _GREETING)
    code += bytes((0xBA, 0xF4, 0x00, 0xB0, _GUEST_SAYS_DONE, 0xEE, 0xF4, 0xEB, 0xFD))
    return code.ljust(510, b"\0") + b"\x55\xaa"


@dataclass(frozen=True)
class _Start:
    """Result of an attempt to start the virtual machine."""

    ran: bool
    seconds: float
    message: str


def _start_guest(accelerator: str, limit_s: float = _LIMIT_S) -> _Start:
    with tempfile.TemporaryDirectory(prefix="isolane-doctor-") as folder:
        image = Path(folder) / "boot.img"
        image.write_bytes(boot_sector())
        began = time.monotonic()
        with subprocess.Popen(
            [
                *(_QEMU, "-accel", accelerator, "-machine", "pc", "-m", "16"),
                *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
                *("-serial", "stdio", "-drive", f"file={image},format=raw,if=ide"),
                *("-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # This probe itself may be killed, and the guest must not outlive it.
            preexec_fn=die_with_parent,  # noqa: PLW1509 - a child without threads
        ) as guest:
            return _watch(guest, began, limit_s)


def _watch(guest: subprocess.Popen[bytes], began: float, limit_s: float) -> _Start:
    try:
        output, errors = guest.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        guest.kill()
        with suppress(subprocess.TimeoutExpired):
            guest.communicate(timeout=_KILL_WAIT_S)
        return _Start(ran=False, seconds=limit_s, message=f"did not end within {limit_s:g} s")
    seconds = time.monotonic() - began
    if guest.returncode == _QEMU_STATUS and _GREETING in output:
        return _Start(ran=True, seconds=seconds, message=f"started and ended in {seconds:.1f} s")
    lines = errors.decode(errors="replace").strip().splitlines() or ["no message"]
    return _Start(ran=False, seconds=seconds, message=f"failed: {lines[-1]}")


def _qemu_lacking() -> Answer | None:
    if shutil.which(_QEMU) is None:
        return Answer("unknown", f"not tried: {_QEMU} is not installed")
    return None


def _kvm() -> Mapping[str, Answer]:
    device = Path("/dev/kvm")
    if not device.exists():
        return {"kvm": Answer("no", f"no {device}")}
    lacking = _qemu_lacking()
    if lacking:
        return {"kvm": lacking}
    start = _start_guest("kvm", _KVM_LIMIT_S)
    if not start.ran:
        return {"kvm": Answer("no", f"a virtual machine of 512 bytes {start.message}")}
    if start.seconds > _SLOW_S:
        detail = f"a virtual machine of 512 bytes {start.message}: slower than emulation"
        return {"kvm": Answer("limited", detail)}
    return {"kvm": Answer("yes", f"a virtual machine {start.message}")}


def _tcg() -> Mapping[str, Answer]:
    start = _qemu_lacking() or _start_guest("tcg")
    if isinstance(start, Answer):
        return {"tcg": start}
    return {"tcg": Answer("yes" if start.ran else "no", f"a virtual machine {start.message}")}


def _uml() -> Mapping[str, Answer]:
    if os.geteuid() != 0:
        raise PermissionError(errno.EPERM, "a mount namespace")
    began = time.monotonic()
    try:
        with (
            tempfile.TemporaryDirectory(prefix="isolane-doctor-") as folder,
            UmlGuest(UmlPlan("doctor"), _UML_LIMIT_S, Path(folder)),
        ):
            seconds = time.monotonic() - began
    except NotSupported:
        return {"uml": Answer("unknown", f"not tried: {KERNEL} is not installed")}
    except TestbedError as error:
        return {"uml": Answer("no", str(error))}
    return {"uml": Answer("yes", f"a guest was ready in {seconds:.1f} s")}


def _devices() -> Mapping[str, Answer]:
    vhost = Path("/dev/vhost-net")
    vfio = Path("/dev/vfio/vfio")
    groups = Path("/sys/kernel/iommu_groups")
    count = len(list(groups.iterdir())) if groups.exists() else 0
    if count and vfio.exists():
        iommu = Answer("yes", f"{count} IOMMU groups and {vfio}")
    elif count:
        iommu = Answer("limited", f"{count} IOMMU groups, but no {vfio}")
    else:
        iommu = Answer("no", "no IOMMU groups" + ("" if vfio.exists() else f", no {vfio}"))
    return {
        "vhost-net": Answer("yes", str(vhost)) if vhost.exists() else Answer("no", f"no {vhost}"),
        "iommu": iommu,
    }


PROBES: tuple[Probe, ...] = (
    Probe(("kvm",), _kvm, seconds=_KVM_LIMIT_S + _KILL_WAIT_S + 3),
    Probe(("tcg",), _tcg, seconds=_LIMIT_S + _KILL_WAIT_S + 3),
    Probe(("uml",), _uml, seconds=_UML_LIMIT_S + _KILL_WAIT_S + 5),
    Probe(("vhost-net", "iommu"), _devices),
)

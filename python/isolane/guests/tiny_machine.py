"""A virtual machine of 512 bytes, which shows whether QEMU starts anything at all."""

from __future__ import annotations

import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from isolane.children import die_with_parent
from isolane.guests.qemu import EMULATOR, Accelerator

KILL_WAIT_S: Final = 2.0

_GREETING: Final = b"isolane\n"
_SAYS_DONE: Final = 0x10
_STATUS: Final = _SAYS_DONE << 1 | 1  # what isa-debug-exit makes of it


def boot_sector() -> bytes:
    """Return a boot sector that writes a greeting to the serial port and leaves QEMU.

    Real-mode code: ``mov dx, 0x3f8``; ``mov al, c; out dx, al`` for each character;
    ``mov dx, 0xf4; mov al, 0x10; out dx, al`` (isa-debug-exit); ``hlt; jmp $-1``.
    """
    code = bytes.fromhex("ba f803")
    code += b"".join(bytes((0xB0, character, 0xEE)) for character in _GREETING)
    code += bytes((0xBA, 0xF4, 0x00, 0xB0, _SAYS_DONE, 0xEE, 0xF4, 0xEB, 0xFD))
    return code.ljust(510, b"\0") + b"\x55\xaa"


@dataclass(frozen=True)
class Start:
    """Result of an attempt to start the virtual machine."""

    ran: bool
    seconds: float
    message: str
    """How it went, to go on from "a virtual machine of 512 bytes"."""


def start(accelerator: Accelerator, limit_s: float) -> Start:
    """Start a virtual machine of 512 bytes under QEMU, which must be there, and wait for its end.

    Parameters
    ----------
    accelerator
        What runs its code. A KVM that hangs keeps a core busy until its time is over.
    limit_s
        Longest time that it may take, s.
    """
    with tempfile.TemporaryDirectory(prefix="isolane-guest-") as folder:
        image = Path(folder) / "boot.img"
        image.write_bytes(boot_sector())
        began = time.monotonic()
        with subprocess.Popen(
            [
                *(EMULATOR, "-accel", accelerator, "-machine", "pc", "-m", "16"),
                *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
                *("-serial", "stdio", "-drive", f"file={image},format=raw,if=ide"),
                *("-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Whoever starts it may be killed, and it must not outlive them.
            preexec_fn=die_with_parent,  # noqa: PLW1509 - a child without threads
        ) as guest:
            return _watch(guest, began, limit_s)


def _watch(guest: subprocess.Popen[bytes], began: float, limit_s: float) -> Start:
    try:
        output, errors = guest.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        guest.kill()
        with suppress(subprocess.TimeoutExpired):
            guest.communicate(timeout=KILL_WAIT_S)
        return Start(ran=False, seconds=limit_s, message=f"did not end within {limit_s:g} s")
    seconds = time.monotonic() - began
    if guest.returncode == _STATUS and _GREETING in output:
        return Start(ran=True, seconds=seconds, message=f"started and ended in {seconds:.1f} s")
    lines = errors.decode(errors="replace").strip().splitlines() or ["no message"]
    return Start(ran=False, seconds=seconds, message=f"failed: {lines[-1]}")

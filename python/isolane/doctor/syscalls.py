"""System calls that Python 3.11 lacks, for probes in their child process."""

from __future__ import annotations

import ctypes
import os
import platform
from typing import Final

_NUMBERS: Final = {
    "x86_64": {"bpf": 321, "perf_event_open": 298},
    "aarch64": {"bpf": 280, "perf_event_open": 241},
}

_CLONE_NEWNS: Final = 0x0002_0000
_CLONE_NEWNET: Final = 0x4000_0000
_MS_REC: Final = 0x4000
_MS_PRIVATE: Final = 1 << 18

_libc = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: object) -> int:
    """Make a system call by name and return its result; ``OSError`` when it fails."""
    numbers = _NUMBERS.get(platform.machine())
    if numbers is None:
        raise OSError(0, f"not tried on {platform.machine()}")
    return _checked(name, _libc.syscall(ctypes.c_long(numbers[name]), *arguments))


def enter_private_network() -> None:
    """Move this process into a network namespace without a name, and show it in ``/sys``.

    Everything that the process creates there disappears when it ends.
    """
    _checked("unshare", _libc.unshare(_CLONE_NEWNET | _CLONE_NEWNS))
    _mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE)
    # sysfs shows the network namespace it was mounted in.
    _mount(b"sysfs", b"/sys", b"sysfs", 0)


def _mount(source: bytes, target: bytes, kind: bytes | None, flags: int) -> None:
    _checked("mount", _libc.mount(source, target, kind, ctypes.c_ulong(flags), None))


def _checked(name: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result

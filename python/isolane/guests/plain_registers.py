"""Keeps User-Mode Linux from vector registers where it has no room for them.

Its kernel (6.1) reads and writes its processes' registers with ptrace(2), vector registers and all
(``NT_X86_XSTATE``), in a buffer of a size that was right when it was built. A processor with more
of them (AMX: 8 KiB) makes the host refuse to take back less, and the guest panics at its first
program: "ptrace set fp regs failed, errno = 14". Where that request fails from the start, the
guest's kernel takes the older one, which knows the registers up to SSE. All others are then lost at
each page fault, so the guest's C library must not use them.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from pathlib import Path
from typing import Final

_libc: Final = ctypes.CDLL(None, use_errno=True)
_PR_SET_SECCOMP: Final = 22
_SECCOMP_MODE_FILTER: Final = 2
_ALLOW: Final = 0x7FFF0000
_ERRNO: Final = 0x00050000
_LOAD_WORD, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K
_SYSTEM_CALL, _ARCHITECTURE, _FIRST, _THIRD = 0, 4, 16, 32  # offsets in struct seccomp_data
_X86_64: Final = 0xC000003E
_PTRACE: Final = 101
_GETREGSET: Final = 0x4204
_X86_XSTATE: Final = 0x202


ENVIRONMENT: Final = "GLIBC_TUNABLES=glibc.cpu.hwcaps=" + ",".join(
    # Two names each: those before and since glibc 2.33; what it does not know it passes over.
    f"-{name}{suffix}"
    for name in (
        "AVX",
        "AVX2",
        "AVX_Fast_Unaligned_Load",
        "AVX512F",
        "AVX512VL",
        "AVX512BW",
        "XSAVE",
        "XSAVEC",
    )
    for suffix in ("", "_Usable")
)
"""What a C library is told in the environment so that it uses no register beyond SSE."""


def are_needed() -> bool:
    """Tell whether this host's processor has registers that such a guest has no room for."""
    flags = Path("/proc/cpuinfo").read_text().partition("flags")[2].partition("\n")[0]
    return "amx_tile" in flags.split()


class _Program(ctypes.Structure):
    _fields_ = (("count", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def _filter() -> bytes:
    """Return the program (struct sock_filter): that one request fails, all else passes."""
    tests = (
        (_ARCHITECTURE, _X86_64),
        (_SYSTEM_CALL, _PTRACE),
        (_FIRST, _GETREGSET),
        (_THIRD, _X86_XSTATE),
    )
    words = []
    for number, (offset, value) in enumerate(tests):
        to_allow = 2 * (len(tests) - number) - 1
        words += [(_LOAD_WORD, 0, 0, offset), (_IF_EQUAL, 0, to_allow, value)]
    words += [(_RETURN, 0, 0, _ERRNO | errno.EINVAL), (_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("HBBI", *word) for word in words)


_INSTRUCTIONS: Final = ctypes.create_string_buffer(_filter())
_PROGRAM: Final = _Program(len(_filter()) // 8, ctypes.addressof(_INSTRUCTIONS))


def keep_to_them() -> None:
    """Have this process and its children do without that request (``preexec_fn``); needs root."""
    if _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(_PROGRAM)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))

"""How the kernel's CPU scheduler treats a thread: policy, nice value, time slice (sched(7))."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from typing import Final

_SET: Final = {"x86_64": 314, "aarch64": 274, "riscv64": 274}
_GET: Final = {"x86_64": 315, "aarch64": 275, "riscv64": 275}
"""Numbers of sched_setattr and sched_getattr by architecture."""
_ATTRIBUTES: Final = struct.Struct("=IIQiIQQQ")
"""``struct sched_attr``, up to ``sched_period``."""
ORDINARY: Final = (os.SCHED_OTHER, os.SCHED_BATCH, os.SCHED_IDLE)
"""Policies of the fair scheduler."""
SLICED: Final = (os.SCHED_OTHER, os.SCHED_BATCH)
"""Those of them with which a thread may have a time slice of its own."""
MIN_SLICE_NS: Final = 100_000
"""The shortest that the kernel gives."""
REAL_TIME: Final = (os.SCHED_FIFO, os.SCHED_RR)
"""Policies whose threads have a priority in place of a nice value."""
_KEEP_POLICY: Final = 0x08
"""``SCHED_FLAG_KEEP_POLICY`` (Linux 5.3): and whether children begin with the kernel's own."""
_KTHREADD: Final = 2
"""Always an ordinary thread, whatever the caller is."""

_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long


def set_scheduling(
    thread: int, policy: int, nice: int, slice_ns: int, priority: int | None = None
) -> None:
    """sched_setattr(2): policy, nice value and time slice of a thread.

    Parameters
    ----------
    slice_ns
        0.1 to 100 ms (Linux 6.12, custom slices of EEVDF; older kernels ignore it); 0: the
        kernel's own.
    priority
        Of a real-time policy; None: the lowest one, which is the kernel's own choice for threads.
    """
    if priority is None:
        priority = 1 if policy in REAL_TIME else 0
    _set(thread, policy, 0, nice, slice_ns, priority)


def set_slice(thread: int, slice_ns: int) -> None:
    """Set the time slice of a thread (ns; 0: the kernel's own) and nothing else.

    One that may have none of its own keeps what it has.
    """
    policy, nice, _ = get_scheduling(thread)
    if policy in SLICED:
        _set(thread, policy, _KEEP_POLICY, nice, slice_ns)


def get_scheduling(thread: int) -> tuple[int, int, int]:
    """sched_getattr(2).

    Returns
    -------
    tuple of int
        Policy, nice value, time slice (ns; 0 on kernels that do not tell).
    """
    answer = ctypes.create_string_buffer(_ATTRIBUTES.size)
    _call(_GET, thread, answer, _ATTRIBUTES.size, 0)
    fields = _ATTRIBUTES.unpack(answer.raw)
    return fields[1], fields[3], fields[5]


def get_priority(thread: int) -> int | None:
    """Return the priority of a thread with a real-time policy; None of any other."""
    return os.sched_getparam(thread).sched_priority or None


def has_slices() -> bool:
    """Tell whether threads have time slices of their own (EEVDF, Linux 6.12).

    Such a kernel tells the slice of each ordinary thread; others tell 0, and ignore what they are
    given.
    """
    for thread in (0, _KTHREADD):
        with contextlib.suppress(OSError):
            policy, _, slice_ns = get_scheduling(thread)
            if policy in ORDINARY:
                return slice_ns > 0
    return True


def takes_slice(thread: int) -> bool:
    """Tell whether a thread runs that may have a time slice of its own, on a kernel with slices."""
    with contextlib.suppress(OSError):
        policy, _, slice_ns = get_scheduling(thread)
        return policy in SLICED and slice_ns > 0
    return False


def _set(thread: int, policy: int, flags: int, nice: int, slice_ns: int, priority: int = 0) -> None:
    attributes = _ATTRIBUTES.pack(_ATTRIBUTES.size, policy, flags, nice, priority, slice_ns, 0, 0)
    _call(_SET, thread, ctypes.create_string_buffer(attributes), 0)


def _call(numbers: dict[str, int], thread: int, *arguments: object) -> None:
    if _syscall(numbers[os.uname().machine], thread, *arguments) < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"scheduling of thread {thread}: {os.strerror(code)}")

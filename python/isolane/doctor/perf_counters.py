"""Probes hardware performance counters by reading one."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from isolane.doctor import syscalls
from isolane.doctor.answers import Answer, Probe

_ATTRIBUTE_SIZE: Final = 112  # PERF_ATTR_SIZE_VER5
_HARDWARE: Final = 0
_EVENTS: Final = {"cycles": 0, "instructions": 1, "cache-misses": 3}
_ANY_CPU: Final = -1
_NO_GROUP: Final = -1


def _perf() -> Mapping[str, Answer]:
    working = []
    reason = ""
    for name, config in _EVENTS.items():
        try:
            if _count(config) > 0:
                working.append(name)
        except OSError as error:
            reason = error.strerror or str(error)
    if len(working) == len(_EVENTS):
        return {"perf": Answer("yes", f"counted {', '.join(working)}")}
    if working:
        lacking = ", ".join(name for name in _EVENTS if name not in working)
        return {"perf": Answer("limited", f"counted {', '.join(working)}, but not {lacking}")}
    paranoid = Path("/proc/sys/kernel/perf_event_paranoid")
    level = paranoid.read_text().strip() if paranoid.exists() else "unknown"
    return {"perf": Answer("no", f"no counter works: {reason} (perf_event_paranoid {level})")}


def _count(config: int) -> int:
    """Count one hardware event of this process over a short loop."""
    # struct perf_event_attr: type, size, config; no sampling, no flags: counts at once.
    head = struct.pack("=IIQ", _HARDWARE, _ATTRIBUTE_SIZE, config)
    attributes = ctypes.create_string_buffer(head, _ATTRIBUTE_SIZE)
    file = syscalls.call("perf_event_open", attributes, 0, _ANY_CPU, _NO_GROUP, ctypes.c_ulong(0))
    try:
        sum(range(100_000))
        (count,) = struct.unpack("=Q", os.read(file, 8))
        return int(count)
    finally:
        os.close(file)


PROBES: tuple[Probe, ...] = (Probe(("perf",), _perf),)

"""Probes the machine: rights, kernel, cores, clocks, memory."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from isolane.doctor.answers import Answer, Probe
from isolane.procfs import all_ticks

OLDEST_KERNEL: Final = (5, 18)
"""The first kernel with BPF_F_TEST_XDP_LIVE_FRAMES."""

_STEAL_LIMIT: Final = 0.01
_STEAL_WINDOW_S: Final = 0.3
_CAPABILITIES: Final = {"NET_ADMIN": 12, "SYS_ADMIN": 21, "BPF": 39}
"""Bits of /proc/self/status CapEff (include/uapi/linux/capability.h)."""


def _rights() -> Mapping[str, Answer]:
    effective = re.search(
        r"^CapEff:\s*([0-9a-f]+)", Path("/proc/self/status").read_text(), re.MULTILINE
    )
    bits = int(effective.group(1), 16) if effective else 0
    lacking = [name for name, bit in _CAPABILITIES.items() if not bits >> bit & 1]
    if os.geteuid() != 0:
        return {"root": Answer("no", f"running as user {os.geteuid()}")}
    if lacking:
        return {"root": Answer("limited", f"root, but without CAP_{', CAP_'.join(lacking)}")}
    return {"root": Answer("yes", "with all capabilities that Isolane needs")}


def kernel_version(release: str) -> tuple[int, int]:
    """Return the major and minor number of a kernel release such as ``6.1.0-18-amd64``."""
    numbers = re.match(r"(\d+)\.(\d+)", release)
    return (int(numbers.group(1)), int(numbers.group(2))) if numbers else (0, 0)


def _kernel() -> Mapping[str, Answer]:
    release = platform.release()
    fits = platform.system() == "Linux" and kernel_version(release) >= OLDEST_KERNEL
    return {"kernel": Answer("yes" if fits else "no", f"{platform.system()} {release}")}


def _cores() -> Mapping[str, Answer]:
    usable = len(os.sched_getaffinity(0))
    total = os.cpu_count() or usable
    detail = f"{usable} usable of {total}" if usable < total else f"{total} cores"
    return {"cores": Answer("yes" if usable >= 2 else "no", detail)}


def _clock() -> Mapping[str, Answer]:
    path = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    if not path.exists():
        return {"clock": Answer("unknown", f"no {path}")}
    source = path.read_text().strip()
    # Other clocks are correct too, but each reading takes a microsecond or a hypervisor call.
    cheap = source in {"tsc", "arch_sys_counter", "kvm-clock"}
    return {"clock": Answer("yes" if cheap else "limited", f"clocksource {source}")}


def _frequency() -> Mapping[str, Answer]:
    files = sorted(Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor"))
    governors = sorted({text for text in map(_text, files) if text})
    if not governors:
        return {
            "frequency": Answer(
                "unknown", "the host shows no frequency control, like most virtual machines"
            )
        }
    steady = governors == ["performance"]
    return {
        "frequency": Answer("yes" if steady else "limited", f"governor {', '.join(governors)}"),
    }


def _text(file: Path) -> str:
    with suppress(OSError):  # its core was switched off
        return file.read_text().strip()
    return ""


def _steal() -> Mapping[str, Answer]:
    before = all_ticks()
    time.sleep(_STEAL_WINDOW_S)
    after = all_ticks()
    spent = after.since(before)
    now = spent.steal / max(1, spent.total)
    ever = after.steal / max(1, after.total)
    detail = f"the hypervisor took {now:.1%} of CPU time now, {ever:.2%} since boot"
    return {"steal": Answer("limited" if max(now, ever) > _STEAL_LIMIT else "yes", detail)}


PROBES: tuple[Probe, ...] = (
    Probe(("root",), _rights),
    Probe(("kernel",), _kernel),
    Probe(("cores",), _cores),
    Probe(("clock",), _clock),
    Probe(("frequency",), _frequency),
    Probe(("steal",), _steal),
)

"""HTB in the kernel's terms: handles, bursts and quanta, and its classes read by netlink.

The size table adds the 24 bytes of preamble, gap and checksum to every frame, so that rates, shares
and the kernel's counters are right for small frames, too.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

from isolane import rtnl
from isolane.spec.units import WIRE_OVERHEAD_BYTES
from isolane.testbed.netns import Namespace

MAJOR = 0x15A
ROOT_CLASS, DEFAULT_CLASS, FIRST_CLASS = 1, 2, 16
LEAVES = 0x4000
"""Handle of the pfifo below class 0; the one below class n has this plus n."""
_MAX_TICKS = (1 << 32) - 1
WIRE_OVERHEAD = WIRE_OVERHEAD_BYTES + 4
"""Preamble, start of frame, gap and frame check sequence, bytes."""
FULL_FRAME = 1514 + WIRE_OVERHEAD
"""The largest frame, bytes on the wire."""
QUANTUM = 1600
"""Bytes that a class of weight 1 sends per turn: at least a full frame on the wire."""


@dataclass(frozen=True)
class ClassSettings:
    """How a class is to work."""

    rate: int
    """What it gets in any case, bytes/s."""
    ceil: int
    """What it gets at most, bytes/s."""
    burst: int
    """Bytes that may exceed the rate at once."""
    prio: int
    """Whose turn it is first when there is more than all rates; 0 to 7."""
    quantum: int
    """Bytes that it sends in its turn."""


def class_id(minor: int) -> int:
    """Return the class identifier as ``skb->priority`` holds it."""
    return MAJOR << 16 | minor


def size_table() -> bytes:
    """Return a TCA_STAB that only adds overhead (struct tc_sizespec, linux/pkt_sched.h)."""
    spec = struct.pack("=BBhiIIII", 0, 0, 0, WIRE_OVERHEAD, 1, 0, 0, 0)
    return struct.pack("=HH", 4 + len(spec), 1) + spec


def burst_bytes(rate: int, asked: int | None = None) -> int:
    """Return how many bytes may exceed a rate (bytes/s) at once.

    By default 10 ms of the rate, since a hypervisor may stop a virtual machine for that long; at
    least two full frames. The kernel keeps bursts as 32 bits of clock ticks, so the result is
    rounded up to a tick and limited to some minutes of the rate.
    """
    smallest = max(2 * FULL_FRAME, rate // 100_000)  # 10 us: the kernel counts in whole us
    wanted = max(smallest, rate // 100 if asked is None else asked)
    return _bytes_of(min(rtnl.calc_xmittime(rate, wanted), _MAX_TICKS), rate) if rate else wanted


def read_classes(namespace: Namespace, index: int) -> dict[int, ClassSettings]:
    """Return the settings of all classes of ours, by minor number."""
    classes = {}
    for found in namespace.links.get_classes(index):
        if found["handle"] >> 16 != MAJOR:
            continue
        options = found.get_attr("TCA_OPTIONS")
        parms = options.get_attr("TCA_HTB_PARMS") if options is not None else None
        if parms is not None:
            rate = options.get_attr("TCA_HTB_RATE64") or parms["rate"]
            ceil = options.get_attr("TCA_HTB_CEIL64") or parms["ceil"]
            burst = _bytes_of(parms["buffer"], rate)
            classes[found["handle"] & 0xFFFF] = ClassSettings(
                rate, ceil, burst, parms["prio"], parms["quantum"]
            )
    return classes


def read_leaves(namespace: Namespace, index: int) -> dict[int, int]:
    """Return the limits (frames) of our classes' queues, by the class's minor number."""
    limits = {}
    for found in namespace.links.get_qdiscs(index):
        handle, options = found["handle"] >> 16, found.get_attr("TCA_OPTIONS")
        if handle > LEAVES and found["parent"] >> 16 == MAJOR and options is not None:
            limits[handle - LEAVES] = options["limit"]
    return limits


def leaf_frames(rate: int) -> int:
    """Return the queue limit for a rate (bytes/s): 20 ms of full frames, 64 to 1000 frames."""
    return max(64, min(1000, rate // 50 // FULL_FRAME))


def class_bytes(namespace: Namespace, index: int) -> dict[int, tuple[int, int, int]]:
    """Return (bytes on the wire, frames, drops) of our classes, by minor number."""
    counts = {}
    for found in namespace.links.get_classes(index):
        if found["handle"] >> 16 == MAJOR:
            stats: Any = found.get_attr("TCA_STATS2")
            basic, queue = stats.get_attr("TCA_STATS_BASIC"), stats.get_attr("TCA_STATS_QUEUE")
            counts[found["handle"] & 0xFFFF] = (basic["bytes"], basic["packets"], queue["drops"])
    return counts


def _bytes_of(ticks: int, rate: int) -> int:
    """Return the largest size that takes this many ticks of the packet scheduler's clock."""
    return bisect_right(range(1 << 32), ticks, key=lambda size: rtnl.calc_xmittime(rate, size)) - 1

"""The probe before each trial: how fast each DUT core is just now, and how much is taken away.

A fixed computation, SHA-256 of 32 KiB, runs over and over on the core for some milliseconds. It
fits the first-level cache, so its time follows the core's clock and whoever shares its execution
units. Then a loop that only reads the clock finds the stalls. All DUT cores are probed at once.

Last the generator's core and each of them throw a cache line to and fro: every frame takes that
way, and a hypervisor that moves the cores apart makes it four times as long.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from functools import partial
from statistics import median

from isolane import _native
from isolane.results.quality_models import CoreProbe
from isolane.testbed.namespace_thread import NamespaceThread

UNIT = bytes(32 * 1024)
SPEED_NS = 6_000_000
STALLS_NS = 8_000_000
"""Together with the set-up of threads under 20 ms a trial."""
STALL_NS = 50_000
"""A longer gap is a stall; shorter ones are interrupts."""
TRANSFER_LIMIT_NS = 10_000_000
"""For 960 round trips; where the cores are free, each takes 0.1 to 1.6 us."""


def probe(cores: Sequence[int], generator: int | None = None) -> tuple[CoreProbe, ...]:
    """Probe all these cores at the same time, then the way to each from the generator's, if given.

    Raises
    ------
    isolane._native.NativeError
        If a core cannot be used.
    """
    threads = [NamespaceThread() for _ in cores]
    try:
        begun = [
            thread.begin(partial(_probe, core)) for thread, core in zip(threads, cores, strict=True)
        ]
        probed = [ended() for ended in begun]
        return tuple(
            one.model_copy(update={"transfer_ns": _transfer_ns(generator, one.core)})
            for one in probed
        )
    finally:
        for thread in threads:
            thread.close()


def _probe(core: int) -> CoreProbe:
    os.sched_setaffinity(0, {core})  # of this thread alone
    unit_ns = _unit_ns()
    stalls = _native.measure_stalls(core=core, duration_ns=STALLS_NS, min_ns=STALL_NS)
    return CoreProbe(
        core=core,
        unit_ns=unit_ns,
        stalled=min(1.0, stalls.lost_ns / STALLS_NS),
        longest_stall_ns=stalls.gaps.max_ns or 0,
    )


def _unit_ns() -> float:
    """Return the median CPU time of a unit of work: others on the core do not count in it."""
    times: list[int] = []
    end_ns = time.perf_counter_ns() + SPEED_NS
    while not times or time.perf_counter_ns() < end_ns:
        began_ns = time.thread_time_ns()
        hashlib.sha256(UNIT).digest()
        times.append(time.thread_time_ns() - began_ns)
    return median(times)


def _transfer_ns(near: int | None, far: int) -> int | None:
    if near is None:
        return None
    return _native.measure_transfer(near=near, far=far, limit_ns=TRANSFER_LIMIT_NS)

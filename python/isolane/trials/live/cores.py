"""Divides the host's cores: the last ones are the device under test, the others measure."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from isolane.errors import NotSupported


@dataclass(frozen=True)
class Cores:
    """The host's cores, divided."""

    dut: tuple[int, ...]
    measure: tuple[int, ...]
    """Generator on the first, receiver on the last."""


def divide(dut_cores: int, available: tuple[int, ...] | None = None) -> Cores:
    """Give the last ``dut_cores`` cores to the DUT and the others to generator and receiver.

    Core 0 does the host's own work, interrupts mostly, so it measures. There that work delays some
    departures, which the generator reports; on a DUT core it would take router capacity unseen.

    Raises
    ------
    NotSupported
        If no core is left for measuring.
    """
    cores = available if available is not None else tuple(sorted(os.sched_getaffinity(0)))
    if len(cores) <= dut_cores:
        raise NotSupported(
            f"not supported on this host: {dut_cores} core(s) for the device under test and at "
            f"least one to generate and receive are needed, and {len(cores)} may be used"
        )
    return Cores(dut=cores[-dut_cores:], measure=cores[:-dut_cores])


def spared(dut_cores: int) -> Cores:
    """Leave the last cores alone, for routers that may run there and that Isolane knows nothing of.

    Raises
    ------
    NotSupported
        If no core is left for measuring.
    """
    return Cores(dut=(), measure=divide(dut_cores).measure)


@contextmanager
def awake() -> Iterator[None]:
    """Keep idle cores from halting, as measurements of latency do (PM QoS, cyclictest, tuned).

    A halted core takes tens of microseconds to wake, much more in a virtual machine whose
    hypervisor gives its core away meanwhile (steal). The kernel takes the request back when the
    file is closed, however this process ends. Without the file nothing changes.
    """
    try:
        request = os.open("/dev/cpu_dma_latency", os.O_WRONLY)
    except OSError:
        yield
        return
    try:
        os.write(request, (0).to_bytes(4, "little"))
        yield
    finally:
        os.close(request)


@contextmanager
def staying_on(cores: tuple[int, ...]) -> Iterator[None]:
    """Keep this process, with threads that it starts, off the DUT's cores within the context."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)

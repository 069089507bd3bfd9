"""Samples where the cores of a test bed are in the window of a trial, and tells for whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from isolane import _native
from isolane.cpu_profile.sampled_stacks import NICS
from isolane.cpu_profile.sampler import Owners, Sampled
from isolane.results.cpu_results import CorePartName
from isolane.results.results import CoreTrial
from isolane.results.trial_profile import TrialProfile, kept
from isolane.testbed import POLICY_NICS
from isolane.trials.live.cpu_accounting import workers
from isolane.trials.live.managed import Managed
from isolane.trials.live.measured_bed import MeasuredBed


@dataclass(frozen=True)
class Asked:
    """Which cores are sampled, and how often a second."""

    cores: tuple[int, ...]
    rate_hz: int


class CpuSampling:
    """Samples the cores of the device under test in the windows of a test bed's trials.

    Raises
    ------
    isolane._native.UnsupportedError
        If the kernel lacks what it takes.
    """

    def __init__(
        self, bed: MeasuredBed, managed: Managed, profiler: _native.Profiler, asked: Asked
    ) -> None:
        self._owners = owners_of(bed, managed)
        self._profiler = profiler
        self._profiler.forget_names()
        self._asked = asked
        self._window_ns = 0

    def begin(self, start_ns: int, end_ns: int) -> None:
        """Sample in the window to come, on ``CLOCK_MONOTONIC``."""
        self._window_ns = end_ns - start_ns
        self._profiler.begin(start_ns=start_ns, end_ns=end_ns)

    def taken(self, frames: Mapping[str, int], cores: Sequence[CoreTrial]) -> TrialProfile:
        """Return what was found in the window.

        Parameters
        ----------
        frames
            Frames of the window that came from each router.
        cores
            What the CPU accountant found of each core in it.
        """
        found, asked = self._profiler.taken(), self._asked
        clock = self._profiler.clock
        sampled = Sampled(clock, asked.rate_hz, self._window_ns, asked.cores, found)
        return kept(sampled.profile(self._owners, frames), busy_share(cores))


def busy_share(cores: Sequence[CoreTrial]) -> float | None:
    """Return the part of the time in which the cores of the device under test worked, 0 to 1.

    Interrupts as such are left out: no clock that is an interrupt itself meets them.
    """
    other: tuple[CorePartName, ...] = ("idle", "steal", "interrupts")
    parts = [core.parts for core in cores if core.part == "dut"]
    if not parts or not all(parts):
        return None
    worked = [1 - sum(one.get(name, 0.0) for name in other) for one in parts if one]
    return min(1.0, max(0.0, fmean(worked)))


def owners_of(bed: MeasuredBed, managed: Managed) -> Owners:
    """Return whose work the threads and interfaces of a test bed do."""
    threads: dict[int, str] = {}
    nics: dict[tuple[int, int], str] = {}
    for nic in bed.dut_interfaces:
        owner = nic.router or NICS
        nics[_number(nic.netns), nic.ifindex] = owner
        threads |= dict.fromkeys(bed.receive_threads.get(nic.ifname, ()), owner)
        if nic.ifname == POLICY_NICS[0]:
            threads |= dict.fromkeys(managed.nic_threads, NICS)
    for router, side in bed.host_sides.items():
        nics[_number(side.netns), side.ifindex] = router
    shared = (*bed.back_end_threads[0], *managed.pacemaker_threads)
    threads |= dict.fromkeys(shared, NICS)
    guests = bed.guest_threads
    for router, its in workers(guests, bed, managed).items():
        threads |= dict.fromkeys(its, router)
    for router, parts in guests.items():
        threads |= {thread: router for its in parts.values() for thread in its}
    return Owners(threads, nics)


def _number(netns: str) -> int:
    """Return the number of a network namespace, as the kernel's programs know it."""
    return Path(netns).stat().st_ino

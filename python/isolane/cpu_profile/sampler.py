"""Takes samples of cores: which function each is in, at every tick of a clock."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from isolane import _native
from isolane.cpu_profile.sampled_stacks import HOST, CpuProfile, SampledStack

_DRAIN_S: Final = 0.1
"""How often samples are fetched: 5,000 of the longest fit into what the kernel keeps them in."""


@dataclass(frozen=True)
class Owners:
    """Whose work a sample is."""

    threads: Mapping[int, str] = field(default_factory=dict)
    """Thread -> owner."""
    nics: Mapping[tuple[int, int], str] = field(default_factory=dict)
    """Number of a namespace, and index of an interface there -> owner of softirqs that poll it."""

    def of(self, chain: _native.SampledChain) -> str:
        """Return the owner of samples; the host where nobody else is."""
        if chain.nic is not None:
            return self.nics.get(chain.nic, HOST)
        return HOST if chain.thread is None else self.threads.get(chain.thread, HOST)


def sample(
    cores: tuple[int, ...],
    rate_hz: int,
    duration_s: float,
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[float | Sampled]:
    """Sample cores for some time.

    Parameters
    ----------
    cores
        Which.
    rate_hz
        Samples of each core a second on average; a fifth more or less, and another rate every
        second, so that it beats with nothing that is periodic.
    duration_s
        How long, s.
    pause
        Waits for so many seconds; may raise to end the sampling.

    Yields
    ------
    float
        Several times a second, the time that has passed, s; the sampling goes on meanwhile.
    Sampled
        At the end: what was found.

    Raises
    ------
    isolane._native.UnsupportedError
        If the kernel lacks what it takes.
    """
    profiler = _native.Profiler(cores=list(cores), rate_hz=rate_hz)
    try:
        clock, began_ns = profiler.clock, time.monotonic_ns()
        end_ns = began_ns + int(duration_s * 1e9)
        while (now_ns := time.monotonic_ns()) < end_ns:
            yield (now_ns - began_ns) / 1e9
            pause(min(_DRAIN_S, (end_ns - now_ns) / 1e9))
            profiler.drain()
        took_ns = time.monotonic_ns() - began_ns
        yield Sampled(clock, rate_hz, took_ns, cores, profiler.finish())
    finally:
        profiler.close()


@dataclass(frozen=True)
class Sampled:
    """Samples that belong to nobody yet."""

    clock: str
    rate_hz: int
    duration_ns: int
    cores: tuple[int, ...]
    found: _native.Sampling

    def profile(self, owners: Owners, frames: Mapping[str, int]) -> CpuProfile:
        """Return them with their owners.

        Parameters
        ----------
        owners
            Whose work it was.
        frames
            Frames that each router forwarded meanwhile, where that is known.
        """
        found = self.found
        busy = sum(one.samples for one in found.chains)
        counts: Counter[tuple[str, int, str, tuple[str, ...], tuple[str, ...]]] = Counter()
        for one in found.chains:
            where = (owners.of(one), one.core, one.name, tuple(one.kernel), tuple(one.user))
            counts[where] += one.samples
        return CpuProfile(
            clock=self.clock,
            period_ns=round(1e9 / self.rate_hz),
            duration_ns=self.duration_ns,
            cores=self.cores,
            stacks=tuple(SampledStack(*where, samples) for where, samples in counts.items()),
            # Of idle cores a timer takes few samples, a counter of cycles none: time tells them.
            idle_samples=max(0, found.expected - busy - found.lost),
            lost_samples=found.lost,
            frames=frames,
            sampling_ns=found.program_ns,
        )

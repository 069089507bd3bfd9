"""What a sampler found on the cores: stacks with the router that they worked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

HOST: Final = "host"
"""Owner of work that is for no router."""

NICS: Final = "NICs"
"""Owner of the polling of interfaces that several routers share."""

SOFTIRQ: Final = "softirq"
"""Stands for a thread's name where there is none: a softirq on the idle task."""


@dataclass(frozen=True, slots=True)
class SampledStack:
    """One call chain, and how often a sample met it."""

    owner: str
    """A router's name, `NICS`, or `HOST`."""
    core: int
    thread: str
    """Name of the thread (``comm``); empty in a softirq on the idle task."""
    kernel: tuple[str, ...]
    """Functions, outermost first; empty where the sample was taken in user space, and only there:
    a chain of the kernel that could not be read is one function without a known name."""
    user: tuple[str, ...]
    """Functions, outermost first; may be empty."""
    samples: int

    def named_chain(self) -> tuple[str, ...]:
        """Return owner, thread, and all functions, outermost first: user space calls the kernel."""
        return (self.owner, self.thread or SOFTIRQ, *self.user, *self.kernel)


@dataclass(frozen=True)
class CpuProfile:
    """All samples of some cores over some time."""

    clock: str
    """``cpu-clock`` or ``cycles``."""
    period_ns: int
    """CPU time that a sample stands for."""
    duration_ns: int
    cores: tuple[int, ...]
    stacks: tuple[SampledStack, ...]
    idle_samples: int
    """Samples that would have met an idle core: those that time and period leave; in no stack."""
    lost_samples: int
    """Samples of which nothing but their number is known; they are in no stack."""
    sampling_ns: int = field(default=0, kw_only=True)
    """Time that taking the samples took on all cores, without the interrupts as such."""
    frames: Mapping[str, int]
    """Frames that each router forwarded in that time; a router of which none are known is
    missing."""

    @property
    def busy_samples(self) -> int:
        """Samples in stacks."""
        return sum(stack.samples for stack in self.stacks)

    @property
    def all_samples(self) -> int:
        """Samples that are accounted for: in stacks, or of idle cores. Lost ones are not."""
        return self.busy_samples + self.idle_samples

    def owners(self) -> tuple[str, ...]:
        """Return who has stacks: routers in the order of their names, NICs, the host."""
        found = {stack.owner for stack in self.stacks}
        others = [owner for owner in (NICS, HOST) if owner in found]
        return (*sorted(found.difference(others)), *others)

    def of(self, owner: str | None) -> Iterator[SampledStack]:
        """Yield the stacks of an owner; of all where it is None."""
        return (stack for stack in self.stacks if owner in (None, stack.owner))

"""What a CPU profiler found in the window of one trial, as it is on disk; and trials together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from isolane.cpu_profile.sampled_stacks import CpuProfile, SampledStack
from isolane.stored_model import StoredModel


class ProfiledStack(StoredModel):
    """One call chain; see :class:`isolane.cpu_profile.sampled_stacks.SampledStack`."""

    owner: str
    core: int
    thread: str
    kernel: tuple[str, ...]
    user: tuple[str, ...]
    samples: int


class TrialProfile(StoredModel):
    """The samples of one trial's window, on all cores of the device under test."""

    trial: int
    """Its number."""
    clock: str
    """``cpu-clock`` or ``cycles``."""
    window_ns: int
    cores: tuple[int, ...]
    busy_share: float | None
    """Part of the cores' time in which they worked, 0 to 1, as the CPU accountant measured it,
    interrupts as such not included; None where it could not tell."""
    idle_samples: int
    """What time and rate leave: a clock misses some of what is done in short stretches."""
    lost_samples: int
    sampling_ns: int
    """Time that taking the samples took on all cores, without the interrupts as such."""
    frames: dict[str, int]
    """Frames of the window that came from each router."""
    stacks: tuple[ProfiledStack, ...]


def kept(profile: CpuProfile, busy_share: float | None) -> TrialProfile:
    """Return a profile of one window for the disk; its trial is not known yet: 0."""
    return TrialProfile(
        trial=0,
        clock=profile.clock,
        window_ns=profile.duration_ns,
        cores=profile.cores,
        busy_share=busy_share,
        idle_samples=profile.idle_samples,
        lost_samples=profile.lost_samples,
        sampling_ns=profile.sampling_ns,
        frames=dict(profile.frames),
        stacks=tuple(
            ProfiledStack(
                owner=one.owner,
                core=one.core,
                thread=one.thread,
                kernel=one.kernel,
                user=one.user,
                samples=one.samples,
            )
            for one in profile.stacks
        ),
    )


def _idle(profile: TrialProfile) -> int:
    busy = sum(stack.samples for stack in profile.stacks)
    if not busy or not profile.busy_share:
        return profile.idle_samples
    return max(0, round(busy / profile.busy_share) - busy)


def together(profiles: Sequence[TrialProfile]) -> CpuProfile:
    """Return several trials as one profile.

    Parameters
    ----------
    profiles
        One or more, on the same cores and by the same clock.

    Notes
    -----
    How busy the cores were is measured, to the nanosecond; samples only tell with what. So idle
    samples are as many as make up that part, and a sample stands for the time of all cores over all
    samples.
    """
    counts: Counter[tuple[str, int, str, tuple[str, ...], tuple[str, ...]]] = Counter()
    frames: Counter[str] = Counter()
    for one in profiles:
        frames.update(one.frames)
        for stack in one.stacks:
            where = (stack.owner, stack.core, stack.thread, stack.kernel, stack.user)
            counts[where] += stack.samples
    idle = sum(map(_idle, profiles))
    lost = sum(one.lost_samples for one in profiles)
    duration_ns = sum(one.window_ns for one in profiles)
    cores = profiles[0].cores
    samples = counts.total() + idle + lost
    return CpuProfile(
        clock=profiles[0].clock,
        period_ns=round(duration_ns * len(cores) / samples) if samples else 0,
        duration_ns=duration_ns,
        cores=cores,
        stacks=tuple(SampledStack(*where, count) for where, count in counts.items()),
        idle_samples=idle,
        lost_samples=lost,
        frames=frames,
        sampling_ns=sum(one.sampling_ns for one in profiles),
    )

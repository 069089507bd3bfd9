"""The problem of a fit: targets, trials, and the costs that may change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from isolane.reproduce.trials import Figure, Key, mean
from isolane.spec.hostmodel import ProfileData
from isolane.trials.backend import Observation
from isolane.trials.sim.catalogue import SimHost
from isolane.trials.sim.trial import TrialJob
from isolane.trials.sim.web_requests import PEER

SMALLEST = 0.02
"""Share of a metric's largest target; errors of smaller targets are relative to this."""


@dataclass(frozen=True)
class Target:
    """A figure that the simulation should meet."""

    figure: Figure
    value: float
    """frames/s, a share of 1, or ns."""
    scale: float
    """The error is relative to this: the value itself, unless it is nearly 0."""
    weight: float = 1.0
    offset: float = 0.0
    """Added to the simulated figure, such as CPU time that the model leaves out."""

    def error(self, observations: Sequence[Observation]) -> float:
        """Return the relative error of the repeats' mean, simulated minus wanted."""
        found = mean(observations, self.figure.router, self.figure.metric)
        simulated = 0.0 if found is None else found + self.offset
        return (simulated - self.value) / self.scale


def targets_of(figures: Sequence[Figure]) -> tuple[Target, ...]:
    """Return targets of all figures that have a number."""
    known = [figure for figure in figures if figure.published is not None]
    largest: dict[str, float] = {}
    for figure in known:
        assert figure.published is not None
        largest[figure.metric] = max(largest.get(figure.metric, 0.0), figure.published)
    return tuple(
        Target(f, f.published, max(f.published, SMALLEST * largest[f.metric]))
        for f in known
        if f.published is not None
    )


@dataclass(frozen=True)
class Problem:
    """A profile, the trials that it is judged by, and the costs that may change."""

    host: SimHost
    jobs: Mapping[Key, Sequence[TrialJob]]
    targets: Sequence[Target]
    what: str
    """What the targets are, for the profile's `source`."""
    free: tuple[str, ...] = field(default=())
    """Dotted keys of the costs to fit; default: those that the profile lists and a trial uses."""
    start: Literal["profile", "limits", "middle"] = "profile"
    """Where the fit starts: at the profile's values; or where the limits say (default: in their
    middle), so that what the profile holds already has no influence; or in their middle."""
    command: str = ""
    """The command that poses this problem, for the profile's `source`."""

    def __post_init__(self) -> None:
        if not self.free:
            used = [key for key in self.profile.fitted if any(self.matters(key))]
            object.__setattr__(self, "free", tuple(used))

    @property
    def profile(self) -> ProfileData:
        """The profile to start from."""
        return self.host.profile

    def matters(self, key: str) -> list[bool]:
        """Tell for each trial whether a value of the profile affects it."""
        return [_takes_part(self.host, own[0], key) for own in self.jobs.values()]

    def blocks(self) -> list[tuple[str, ...]]:
        """Return the free costs in blocks that the search fits one after the other.

        A block is what takes part in an arm's trials and in no arm's before; arms with many targets
        come first, because they say most about what several of them share.
        """
        arms: dict[str, int] = {}
        for target in self.targets:
            arms[target.figure.arm] = arms.get(target.figure.arm, 0) + 1
        left = list(self.free)
        found = []
        for arm in sorted(arms, key=lambda name: -arms[name]):
            own = [job for jobs in self.jobs.values() for job in jobs[:1] if job.arm == arm]
            block = [key for key in left if any(key in self.relevant(job) for job in own)]
            left = [key for key in left if key not in block]
            if block:
                found.append(tuple(block))
        return [*found, tuple(left)] if left else found

    def relevant(self, job: TrialJob) -> tuple[str, ...]:
        """Return the free costs that affect a trial."""
        return tuple(key for key in self.free if _takes_part(self.host, job, key))


def _takes_part(host: SimHost, job: TrialJob, key: str) -> bool:
    part, _, rest = key.partition(".")
    name = rest.partition(".")[0]
    arm = next(arm for arm in job.experiment.resolved_arms() if arm.name == job.arm)
    path_of = partial(host.path_of, filtered=arm.bridge_netfilter)
    paths = [path_of(arm.router(router.group), router.mode) for router in job.routers]
    web = [router for router in job.routers if router.mode == "http"]
    paths += [path_of(arm.router(r.group), r.mode, in_kernel=True) for r in web]
    if part == "costs" and name == PEER:
        return bool(web)
    if part == "costs":
        stages = (stage for path in paths for stage in path.stages.values())
        return any(name in (*stage.cost, *(stage.drop or ())) for stage in stages)
    if part == "queues":
        return any(stage.queue == name for path in paths for stage in path.stages.values())
    if part == "rings":
        return any(path.ring == name for path in paths)
    if rest in {"wake_ns", "exit_ns", "cold_ns"}:
        return any(s.context in {"process", "domain"} for p in paths for s in p.stages.values())
    return True

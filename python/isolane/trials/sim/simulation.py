"""What the simulator is given, typed: cores, contexts, wires, stages, paths, traffic.

The keys are those of ``crates/sim/src/model``, in the order in which they are written. What is None
is left out, and the simulator takes its default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Final, Literal

from isolane.spec.schedulers import SchedulerName

ALWAYS: Final[Mapping[str, bool]] = {"always": True}
"""Of a field that is written also when it is None, which says something else than the default."""


@dataclass(frozen=True)
class SoftirqRules:
    """Rules of the receive softirq."""

    restart_time_ns: int | None = field(metadata=ALWAYS)
    """None: it goes on whatever time it has taken."""
    stop_for_threads: bool
    defer_to_ksoftirqd: bool


@dataclass(frozen=True)
class CurrentSoftirqRules:
    """The simulator's own, those of Linux 6, but for one that a later version took back."""

    defer_to_ksoftirqd: bool


@dataclass(frozen=True)
class CfsScheduler:
    """Linux's CFS."""

    kind: Literal["cfs"]
    latency_ns: int
    min_granularity_ns: int
    wakeup_granularity_ns: int
    tick_ns: int | None = None
    irq_time_accounting: bool | None = None


@dataclass(frozen=True)
class EevdfScheduler:
    """Linux's EEVDF scheduler."""

    kind: Literal["eevdf"]
    slice_ns: int
    beat_ns: int | None = None
    irq_time_accounting: bool | None = None


@dataclass(frozen=True)
class CreditScheduler:
    """Xen's."""

    kind: Literal["credit"]


@dataclass(frozen=True)
class Core:
    """A core."""

    name: str
    switch_ns: float
    tick_cost_ns: float
    mode: Literal["kernel", "hypervisor"]
    scheduler: CfsScheduler | EevdfScheduler | CreditScheduler


@dataclass(frozen=True)
class Group:
    """A CPU cgroup."""

    name: str
    shares: int


@dataclass(frozen=True)
class Context:
    """What runs on a core."""

    name: str
    kind: Literal["softirq", "thread", "process", "vcpu"]
    cores: tuple[str, ...]
    wake_ns: float | None = None
    exit_ns: float | None = None
    cold_ns: float | None = None
    wake_mode: Literal["hypervisor"] | None = None
    nice: int | None = None
    whole_polls: Literal[True] | None = None
    group: str | None = None
    slice_ns: int | None = None
    batch: Literal[True] | None = None


@dataclass(frozen=True)
class Ring:
    """A receive ring."""

    name: str
    capacity: int
    refill: int
    moderation_ns: float
    irq_ns: float
    timer: Literal[True] | None = None


@dataclass(frozen=True)
class Nic:
    """A NIC's wire and its rings."""

    name: str
    rate_bps: int
    latency_ns: int
    rings: tuple[Ring, ...]


@dataclass(frozen=True)
class FlowSettings:
    """What a router is guaranteed by a packet scheduler, and its limit."""

    flow: str
    weight: int | None = None
    priority: int | None = None
    rate_min_bps: int | None = None
    rate_max_bps: int | None = None
    burst_bytes: int | None = None


@dataclass(frozen=True)
class PacketScheduler:
    """The packet scheduler of a port or a queue."""

    kind: SchedulerName
    overhead_bytes: int
    settings: tuple[FlowSettings, ...]
    quantum_bytes: int | None = None
    random: bool | None = None
    """Of ``credit``: in which order it serves."""


@dataclass(frozen=True)
class PortAdmission:
    """What a router's frames must keep to get into a port."""

    router: str
    rate_pps: int | None = None
    burst_frames: int | None = None
    capacity: int | None = None


@dataclass(frozen=True)
class Port:
    """Where frames leave."""

    name: str
    rate_bps: int
    capacity: int
    scheduler: PacketScheduler | None = None
    admission: tuple[PortAdmission, ...] | None = None


@dataclass(frozen=True)
class QueueAdmission:
    """What a router's frames must keep to get into its queue."""

    router: str
    capacity: int
    burst: int
    rate_pps: int | None = None
    burst_frames: int | None = None
    rate_bps: int | None = None
    burst_bytes: int | None = None
    context: str | None = None
    cpu_pct: float | None = None


@dataclass(frozen=True)
class Queue:
    """Frames that wait for a stage."""

    capacity: int
    notify_ns: float
    shared: str | None = None
    admission: tuple[QueueAdmission, ...] | None = None
    scheduler: PacketScheduler | None = None
    back_pressure: Literal["on"] | None = None


@dataclass(frozen=True)
class Stage:
    """Work on frames."""

    name: str
    context: str
    frame_ns: float
    byte_ns: float
    cold_ns: float
    drop_ns: float | None = None
    mode: str | None = None
    ring: str | None = None
    queue: Queue | None = None
    poll_ns: float | None = None


@dataclass(frozen=True)
class Router:
    """A router's path: names of rings, stages and ports."""

    name: str
    path: tuple[str, ...]


@dataclass(frozen=True)
class Pattern:
    """How frames follow each other."""

    kind: Literal["cbr", "poisson", "on-off", "ramp"]
    rate_pps: float
    on_ns: int | None = None
    period_ns: int | None = None
    mid_ns: int | None = None


@dataclass(frozen=True)
class Begin:
    """When requests begin."""

    when: Literal["cbr", "poisson", "closed", "after"]
    rate_pps: float | None = None
    requests: int | None = None
    """Of ``closed``: so many are always under way."""
    traffic: str | None = None
    """Of ``after``: whose answers they follow."""


@dataclass(frozen=True)
class Turn:
    """One of the times that a request goes through a router."""

    router: str
    frame_bytes: int
    outside_ns: int
    """How long it is with client or server before."""
    busy_ns: int
    """How long it keeps them busy before, who serve one after the other."""


@dataclass(frozen=True)
class Requests:
    """Frames that go through routers several times."""

    begin: Begin
    turns: tuple[Turn, ...]
    kind: Literal["requests"] = "requests"


@dataclass(frozen=True)
class Traffic:
    """A stream of frames."""

    name: str
    router: str
    frame_bytes: int | tuple[int, ...]
    pattern: Pattern | Requests
    stop_ns: int | None = None
    start_ns: int = 0


@dataclass(frozen=True)
class Computing:
    """Work that takes all time that it can get."""

    kind: Literal["cpu"]


@dataclass(frozen=True)
class Requesting:
    """Work on requests of a disk, so many at a time, which sleeps while the disk is at work."""

    kind: Literal["disk"]
    depth: int
    cpu_ns: float
    """Of one request."""
    disk_ns: int
    blocking_permille: int
    """Requests of 1,000 that block all else meanwhile."""


@dataclass(frozen=True)
class Load:
    """Work of a context besides the traffic."""

    name: str
    context: str
    load: Computing | Requesting
    stop_ns: int
    start_ns: int = 0


@dataclass(frozen=True)
class Change:
    """What a router is guaranteed by a packet scheduler from some time on."""

    set: Literal["flow"]
    at_ns: int
    at: str
    """The port, or the stage behind the queue."""
    settings: FlowSettings


@dataclass(frozen=True)
class Simulation:
    """All of it."""

    seed: int
    duration_ns: int
    warm_up_ns: int
    window_end_ns: int
    bin_ns: int
    softirq: SoftirqRules | CurrentSoftirqRules
    cores: tuple[Core, ...]
    groups: tuple[Group, ...]
    contexts: tuple[Context, ...]
    nics: tuple[Nic, ...]
    ports: tuple[Port, ...]
    stages: tuple[Stage, ...]
    routers: tuple[Router, ...]
    traffic: tuple[Traffic, ...]
    changes: tuple[Change, ...] = ()
    loads: tuple[Load, ...] = ()

    def written(self) -> dict[str, Any]:
        """Return the model as it is handed to the simulator."""
        model: dict[str, Any] = _written(self)
        return model

    def path(self, router: str) -> tuple[str, ...]:
        """Return the path of a router; empty if there is no such router."""
        return next((entry.path for entry in self.routers if entry.name == router), ())


def _written(value: Any) -> Any:
    if is_dataclass(value):
        return {
            each.name: _written(found)
            for each in fields(value)
            if (found := getattr(value, each.name)) is not None or each.metadata == ALWAYS
        }
    if isinstance(value, tuple):
        return [_written(each) for each in value]
    return value

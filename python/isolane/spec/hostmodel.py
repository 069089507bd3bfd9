"""Models of a simulated host: paths (the stages that frames pass) and profiles (their costs).

Both are data files in the format of experiments: YAML, unknown keys refused, each message with
file, line, key, value and what would be accepted.
"""

from __future__ import annotations

import math
from typing import Annotated, Final, Literal, Self

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator

from isolane.spec import fields as f
from isolane.spec.base import SpecModel
from isolane.spec.fields import Kind, NicModel, RouterPath
from isolane.spec.problems import Contradictions, Problem, Refused, listed, nearest, show

WIRE: Final = "wire"
"""Name of what follows the last stage of a path."""

ContextKind = Literal["softirq", "nic", "back-end", "thread", "server", "process", "domain", "dom0"]
RingKind = Literal["port", "vf", "guest"]
Generation = Literal["linux-3.2", "linux-6"]
CpuScheduler = Literal["cfs", "eevdf"]
_MIN_NS: Final = 1_000
_MAX_NS: Final = 1_000_000_000
Mode = Literal["kernel", "user", "hypervisor"]


def _nanoseconds(value: object) -> float:
    accepted = "a number of ns, 0 or more"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refused(f"{show(value)} is not a cost", accepted)
    if not math.isfinite(value) or value < 0:
        raise Refused(f"cost {show(value)} is {'negative' if value < 0 else 'no number'}", accepted)
    return float(value)


def _count(value: object) -> int:
    accepted = "a whole number from 1 to 1000000"
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1_000_000:
        raise Refused(f"{show(value)} is not a capacity in frames", accepted)
    return value


def _names(value: object) -> tuple[str, ...]:
    words = value if isinstance(value, list | tuple) else [value]
    for word in words:
        if not isinstance(word, str) or not word:
            raise Refused(f"{show(word)} is not the name of a cost", "a name, or a list of names")
    return tuple(words)


Nanoseconds = Annotated[
    float, PlainValidator(_nanoseconds), WithJsonSchema({"type": "number", "minimum": 0})
]
Capacity = Annotated[int, PlainValidator(_count), WithJsonSchema({"type": "integer", "minimum": 1})]
CostNames = Annotated[tuple[str, ...], PlainValidator(_names)]


class Stage(SpecModel):
    """One stage of a path: work on each frame, in one context."""

    context: ContextKind
    """Context that does the work: the softirq, the NIC's own thread (ahead of all others), the
    network back-end of all routers, a thread of the router, a server in it, a virtual machine's
    process, a Xen domain, dom0."""
    cost: CostNames
    """Costs of the profile that add up to this stage's."""
    next: str
    """The stage that follows, or wire."""
    queue: str | None = None
    """Queue of the profile before this stage; every change of context needs one."""
    shared: bool = False
    """One stage for all routers of the path, instead of one for each."""
    scheduler: Literal["uplink"] | None = None
    """Who is next in the queue: uplink, by the packet scheduler that the arm names; its queue then
    holds so many frames of each router, and the stage is the last one, shared by all."""
    account: str | None = None
    """What the CPU accounting calls it; default: its name."""
    mode: Mode | None = None
    """Whose CPU time it is; default: that of its context."""
    drop: CostNames | None = None
    """With it, the stage first looks whether the queue behind it has a free slot; these are the
    costs of a frame that finds none, instead of `cost`."""
    only: Literal["shared-link"] | None = None
    """Condition for this stage: shared-link, if a policy shares out the link."""


class PathData(SpecModel):
    """How frames get from the NIC to a router and back."""

    isolane: f.Version
    """Version of the format: 1."""
    kind: Kind
    """Kind of router that has this path."""
    path: RouterPath
    """The path's name in experiments."""
    nic: NicModel | None = None
    """NIC model of a virtual machine; nothing for other kinds."""
    title: f.ShortText
    """Title, one line."""
    source: f.LongText
    """Source of the stages."""
    ring: RingKind
    """First queue: the port's only ring, or one for each router, of a virtual function that the
    host drives, or that a guest drives itself."""
    first: str
    """The stage that serves the ring."""
    stages: dict[str, Stage]
    """All stages by name."""

    @property
    def name(self) -> str:
        """Name of the path, and of its file: kind, path and NIC model."""
        word = "" if self.path == "none" else f"-{self.path}"
        default = f"-{self.nic}" if self.nic and self.nic != "vfio" else ""
        return f"{self.kind}{word}{default}"

    def ordered(self) -> tuple[tuple[str, Stage], ...]:
        """Return the stages in the order in which a frame passes them."""
        found, name = [], self.first
        while name != WIRE:
            found.append((name, self.stages[name]))
            name = self.stages[name].next
        return tuple(found)

    @model_validator(mode="after")
    def _leads_to_the_wire(self) -> Self:
        problems = _chain(self) or _contexts(self)
        if problems:
            raise Contradictions(problems)
        return self


def _chain(path: PathData) -> list[Problem]:
    """Return unknown stages, a cycle, or stages that no frame passes."""
    known = (*path.stages, WIRE)
    problems = []
    for name, stage in path.stages.items():
        if stage.next not in known:
            what = f"unknown stage {show(stage.next)}"
            accepted = listed(known) + nearest(stage.next, known)
            problems.append(Problem(("stages", name, "next"), what, accepted))
    if path.first not in path.stages:
        what = f"unknown stage {show(path.first)}"
        accepted = listed(path.stages) + nearest(path.first, path.stages)
        problems.append(Problem(("first",), what, accepted))
    if problems:
        return problems
    seen: list[str] = []
    name = path.first
    while name != WIRE:
        if name in seen:
            cycle = " -> ".join((*seen[seen.index(name) :], name))
            what = f"the path goes in a cycle: {cycle}"
            return [Problem(("stages", seen[-1], "next"), what, "a way that ends at the wire")]
        seen.append(name)
        name = path.stages[name].next
    return [
        Problem(("stages", lost), f"no frame comes to stage {show(lost)}", "stages on the way")
        for lost in path.stages
        if lost not in seen
    ]


def _contexts(path: PathData) -> list[Problem]:
    problems = []
    before: str | None = None
    for name, stage in path.ordered():
        loc = ("stages", name, "queue")
        if before is None and stage.queue is not None:
            problems.append(Problem(loc, "a queue before the first stage", "none: it has the ring"))
        if before is not None and before != stage.context and stage.queue is None:
            what = f"no queue between {before} and {stage.context}"
            problems.append(Problem(("stages", name), what, "queue: a queue of the profile"))
        before = stage.context
    return problems or _demultiplexer(path)


def _demultiplexer(path: PathData) -> list[Problem]:
    """Return misplaced stages: a NIC's own, or that drop, schedule, or are not always there."""
    problems = []
    for name, stage in path.ordered():
        behind = path.stages[stage.next].queue if stage.next != WIRE else None
        if stage.context == "nic" and (name != path.first or not stage.shared):
            what = "a NIC's own thread serves its ring, for all routers"
            problems.append(Problem(("stages", name), what, "the first stage, with shared: true"))
        if stage.drop is not None and (behind is None or not _polls(path, name)):
            what = "drop, but nothing to look at"
            accepted = "a stage with the ring or a queue before it and a queue behind it"
            problems.append(Problem(("stages", name, "drop"), what, accepted))
        if stage.scheduler and not (stage.queue and stage.shared and stage.next == WIRE):
            what = "a scheduler, but not of all routers' frames to the wire"
            accepted = "the last stage, with queue and shared: true"
            problems.append(Problem(("stages", name, "scheduler"), what, accepted))
        if stage.only is not None and _polls(path, name):
            what = f"only {stage.only}, with the ring or a queue before it"
            problems.append(Problem(("stages", name, "only"), what, "a stage without a queue"))
    return problems


def _polls(path: PathData, name: str) -> bool:
    return name == path.first or path.stages[name].queue is not None


class Cost(SpecModel):
    """What one operation costs, ns; all parts add up."""

    frame_ns: Nanoseconds
    """Each frame."""
    byte_ns: Nanoseconds = 0.0
    """Each byte of a frame."""
    poll_ns: Nanoseconds = 0.0
    """Each visit to the ring or queue, however many frames it takes."""
    cold_ns: Nanoseconds = 0.0
    """Extra cost of a frame of another router than the last: cold caches."""
    source: f.ShortText
    """Source of the figures."""


class QueueSize(SpecModel):
    """A queue between two contexts."""

    capacity: Capacity
    """Capacity, frames."""
    notify_ns: Nanoseconds = 0.0
    """Cost of waking the context that serves it, ns."""
    shared: bool = False
    """One for all stages of a core that name it, taken over whole by a poll that has nothing left:
    the kernel's backlog. Up to twice its capacity then waits."""
    source: f.ShortText
    """Source of the figures."""


class RingSize(SpecModel):
    """A receive ring."""

    capacity: Capacity
    """Descriptors."""
    refill: Capacity = 1
    """Descriptors that are given back at a time."""
    moderation_ns: Nanoseconds
    """The minimum time between two interrupts, ns."""
    timer: bool = False
    """Whether a timer takes the place of interrupts: it ends that long after each poll, whether
    frames came or not."""
    irq_ns: Nanoseconds
    """Cost of an interrupt, ns."""
    source: f.ShortText
    """Source of the figures."""

    @model_validator(mode="after")
    def _timer_takes_time(self) -> Self:
        if self.timer and self.moderation_ns < _MIN_NS:
            what = f"moderation_ns: a timer cannot end after {self.moderation_ns:g} ns"
            raise Contradictions([Problem(("moderation_ns",), what, f"{_MIN_NS} or more")])
        return self


class Host(SpecModel):
    """Cores and the kernel's rules on them."""

    kernel: Generation
    """Rules for softirqs: before Linux 3.10 nothing stops them, later they yield to threads."""
    switch_ns: Nanoseconds
    """Cost of a context switch, ns."""
    wake_ns: Nanoseconds
    """Cost of waking a virtual machine that was idle: interrupt, entry, ns."""
    exit_ns: Nanoseconds = 0.0
    """Cost of an interrupt to the virtual machine that it finds running: exit and entry, ns."""
    cold_ns: Nanoseconds = 0.0
    """Cold caches of a virtual machine, for each other one that ran since on its core, ns."""
    tick_cost_ns: Nanoseconds = 0.0
    """Cost of a timer tick, ns."""
    scheduler: CpuScheduler = "cfs"
    """Linux's CPU scheduler: ``cfs`` until 6.5, ``eevdf`` since 6.6. Xen has its own."""
    irq_time_accounting: bool = True
    """Whether the time of interrupts and softirqs is kept off the account of the thread that they
    interrupt (`CONFIG_IRQ_TIME_ACCOUNTING`)."""
    slice_ns: Nanoseconds = 2_800_000.0
    """EEVDF: how long a turn lasts, ns."""
    latency_ns: Nanoseconds = 24_000_000.0
    """CFS: period in which each runs once, ns."""
    min_granularity_ns: Nanoseconds = 3_000_000.0
    """CFS: minimum granularity, ns."""
    wakeup_granularity_ns: Nanoseconds = 4_000_000.0
    """CFS: lead that a woken task must have to take the core at once, ns."""
    egress_frames: Capacity = 1256
    """Frames that wait for the line: qdisc and transmit ring."""
    line_rate: f.LineRate | None = None
    """Rate of its NICs, bit/s: no load may be more; default: what the experiment says."""
    wire_ns: Nanoseconds = 0.0
    """Constant part of the one-way delay: wires, NICs, the receiver, ns."""
    peer_ns: Nanoseconds = 0.0
    """Time in which a client or a web server sends its next frame, their NICs included, ns."""
    source: f.ShortText
    """Source of the figures."""

    @model_validator(mode="after")
    def _has_figures_of_its_scheduler(self) -> Self:
        if self.scheduler == "eevdf" and self.kernel != "linux-6":
            what = f"host.scheduler: {self.kernel} has no EEVDF scheduler"
            raise Contradictions([Problem(("scheduler",), what, "cfs, or kernel: linux-6")])
        others = {"cfs": _OF_EEVDF, "eevdf": _OF_CFS}[self.scheduler]
        problems = [
            Problem((key,), f"host.{key}: scheduler {self.scheduler} has no such figure", "none")
            for key in others
            if getattr(self, key) != type(self).model_fields[key].default
        ]
        if problems:
            raise Contradictions(problems)
        if not _MIN_NS <= self.slice_ns <= _MAX_NS:
            what = f"host.slice_ns: a turn cannot last {self.slice_ns:g} ns"
            raise Contradictions([Problem(("slice_ns",), what, f"{_MIN_NS} to {_MAX_NS}")])
        return self


_OF_CFS: Final = ("latency_ns", "min_granularity_ns", "wakeup_granularity_ns")
_OF_EEVDF: Final = ("slice_ns",)


class Limits(SpecModel):
    """Limits within which a fit may move a cost."""

    low: Nanoseconds
    """Smallest plausible value, ns."""
    high: Nanoseconds
    """Largest plausible value, ns."""
    start: Nanoseconds | None = None
    """Where a fit that forgets the fitted costs starts; default: in the middle, ns."""
    why: f.ShortText
    """Reason for these limits."""
    interval: tuple[Nanoseconds | None, Nanoseconds | None] | None = None
    """95 % interval that the fit found, ns; null for a side on which the figures set no bound
    within the limits; default: not known."""


class ProfileData(SpecModel):
    """A host profile: the costs of everything on it."""

    isolane: f.Version
    """Version of the format: 1."""
    name: f.Slug
    """Name, as in --profile."""
    title: f.ShortText
    """Title: the machine."""
    source: f.LongText
    """Source: what the profile was fitted to."""
    host: Host
    """Cores and kernel."""
    rings: dict[RingKind, RingSize]
    """Receive rings of ports and of virtual functions."""
    queues: dict[str, QueueSize] = Field(default_factory=dict)
    """Queues by the names that paths use."""
    costs: dict[str, Cost]
    """Costs by the names that paths use."""
    fitted: dict[str, Limits] = Field(default_factory=dict)
    """Figures that a fit may change, such as costs.forward.frame_ns, with their limits."""
    error: f.LongText = ""
    """Errors of its predictions of figures that it was not fitted to."""
    paths: tuple[str, ...] = ()
    """Path files (relative to this one) that replace those of Isolane."""

    @model_validator(mode="after")
    def _names_what_it_has(self) -> Self:
        problems = [
            Problem(("fitted", key), f"there is no {show(key)} to be fitted", "a key of this file")
            for key in self.fitted
            if self.figure(key) is None
        ]
        if problems:
            raise Contradictions(problems)
        return self

    def figure(self, key: str) -> float | None:
        """Return the figure at a dotted key, ns; None if there is none."""
        here: object = self
        for word in key.split("."):
            if isinstance(here, dict):
                here = here.get(word)
            elif isinstance(here, SpecModel) and word in type(here).model_fields:
                here = getattr(here, word)
            else:
                return None
        if isinstance(here, bool) or not isinstance(here, int | float):
            return None
        return float(here)

    def replaced(self, figures: dict[str, float]) -> Self:
        """Return a profile with other figures at these dotted keys."""
        data = self.model_dump(mode="json")
        for key, value in figures.items():
            *parents, last = key.split(".")
            here = data
            for word in parents:
                here = here[word]
            here[last] = round(value) if isinstance(here[last], int) else value
        return type(self).model_validate(data)

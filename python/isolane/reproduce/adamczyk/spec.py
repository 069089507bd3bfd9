"""What the Xen experiments are made of: a host, and variants of netback, guests and disk load.

Both are YAML files in the format of experiments: unknown keys refused, messages with file, line,
key, value and what would be accepted.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator

from isolane.spec import fields as f
from isolane.spec.base import SpecModel
from isolane.spec.hostmodel import Capacity, Nanoseconds
from isolane.spec.problems import Contradictions, Problem, Refused, show

VmName = Literal["vm1", "vm2"]
"""The two guests; the names are those of the model, too."""
SchedulerName = Literal["credit", "wrr", "drr", "wfq", "hierarchical"]


def _number(low: float, high: float, unit: str) -> PlainValidator:
    def read(value: object) -> float:
        accepted = f"a number of {unit} from {low:g} to {high:g}"
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Refused(f"{show(value)} is not a number", accepted)
        if not math.isfinite(value) or not low <= value <= high:
            raise Refused(f"{show(value)} is out of range", accepted)
        return float(value)

    return PlainValidator(read)


def _schema(low: float, high: float) -> WithJsonSchema:
    return WithJsonSchema({"type": "number", "minimum": low, "maximum": high})


Seconds = Annotated[float, _number(0, 10_000, "s"), _schema(0, 10_000)]
Mbps = Annotated[float, _number(0.001, 100_000, "Mbit/s"), _schema(0.001, 100_000)]
Permille = Annotated[float, _number(0, 1000, "1/1000"), _schema(0, 1000)]


class Cost(SpecModel):
    """Work on a frame."""

    frame_ns: Nanoseconds
    """Each frame, ns."""
    source: f.ShortText
    """Where the figure comes from."""


class Cpu(SpecModel):
    """Xen's CPU scheduler and what it costs."""

    slice_ns: Nanoseconds
    """Time slice of the credit scheduler, ns."""
    tick_ns: Nanoseconds
    """Tick at which the running vCPU pays, ns."""
    switch_ns: Nanoseconds
    """Cost of a switch between vCPUs, ns."""
    wake_ns: Nanoseconds
    """Cost of waking a vCPU: the event and the way into the guest, ns."""
    notify_ns: Nanoseconds
    """Cost of sending an event to the other side of a shared ring, ns."""
    source: f.ShortText
    """Where the figures come from."""


class Buffers(SpecModel):
    """What holds frames, in frames."""

    socket: Capacity
    """Socket buffer of one connection."""
    adapter: Capacity
    """Requests that a guest's adapter holds for netback."""
    output: Capacity
    """Output buffer of the physical adapter."""
    source: f.ShortText
    """Where the figures come from."""


class Sender(SpecModel):
    """iperf in a guest."""

    pace_mbps: Mbps
    """What a connection tries to send, UDP payload, Mbit/s."""
    source: f.ShortText
    """Where the figure comes from."""


class Background(SpecModel):
    """What else a guest does now and then."""

    cpu_ns: Nanoseconds
    """CPU time of an operation, ns."""
    every_s: Seconds
    """Mean time between two, s."""
    source: f.ShortText
    """Where the figures come from."""


class Disk(SpecModel):
    """A guest's heavy disk use, as the driver domain sees it."""

    depth: Capacity
    """Requests at a time."""
    cpu_ns: Nanoseconds
    """CPU time of a request in dom0, ns."""
    disk_ns: Nanoseconds
    """Time the disk takes in the mean, ns."""
    blocking_permille: Permille
    """Of 1,000 requests, how many block dom0 while the disk is at work."""
    source: f.ShortText
    """Where the figures come from."""


class XenHost(SpecModel):
    """A Xen host of the experiments: two guests, dom0, one link."""

    isolane: f.Version
    """Version of the format: 1."""
    name: f.Slug
    """Name of the profile."""
    title: f.ShortText
    """What machine it is."""
    source: f.LongText
    """Where its figures come from, all in all."""
    link_mbps: Mbps
    """Rate of the link, Mbit/s."""
    credit_period_ns: Nanoseconds
    """Period of netback's rate, ns."""
    cpu: Cpu
    """Xen's CPU scheduler."""
    buffers: Buffers
    """Buffers."""
    sender: Sender
    """iperf."""
    background: Background
    """What else the guests do."""
    disk: Disk
    """Disk load, where an experiment has it."""
    costs: dict[Literal["send", "netback", "bridge", "driver"], Cost]
    """Costs of a frame: in the guest, in netback, in dom0's bridge and driver."""

    @model_validator(mode="after")
    def _has_all_costs(self) -> Self:
        lacking = [
            name for name in ("send", "netback", "bridge", "driver") if name not in self.costs
        ]
        if lacking:
            problems = [
                Problem(
                    ("costs",), f"cost {show(name)} is missing", f"an entry {name} with frame_ns"
                )
                for name in lacking
            ]
            raise Contradictions(problems)
        return self


class Guest(SpecModel):
    """A guest of a variant."""

    connections: f.Flows = 1
    """Connections of iperf; 0 is not possible: leave the guest out."""
    start: Seconds = 0.0
    """When it begins to send, s."""
    payload: tuple[int, ...] = (1472,)
    """UDP payload of its datagrams, bytes; each value is as likely as the others."""
    rate_max: Mbps | None = None
    """Netback's `rate`, Mbit/s."""
    rate_min: Mbps | None = None
    """Minimum rate, Mbit/s (scheduler hierarchical)."""
    weight: f.Weight = 1
    """Priority in WRR, weight in DRR, WFQ and hierarchical."""


class Sweep(SpecModel):
    """Weights that change every second, from the first guest's favour to the other's."""

    favoured: f.Weight = Field(alias="most")
    """Weight of the favoured guest; the other has 1."""


class DiskLoad(SpecModel):
    """The other guest's disk load."""

    start: Seconds
    """When it begins, s."""
    stop: Seconds
    """When it ends, s."""
    protected: bool = False
    """Whether dom0's CPU is shared out: netback in one part, the disk back-end in the other."""


class Variant(SpecModel):
    """One setting of an experiment."""

    name: f.Slug
    """Its name."""
    title: f.ShortText
    """What it is, in a line."""
    scheduler: SchedulerName = "credit"
    """Netback's scheduler; credit is that of the unmodified driver."""
    random: bool = True
    """Whether the credit scheduler's order is drawn by lot."""
    look: bool = False
    """Whether netback looks at the output buffer before it sends."""
    own_cores: bool = False
    """Whether each guest has a core of its own."""
    guests: dict[VmName, Guest]
    """The guests."""
    sweep: Sweep | None = None
    """Weights that change in time."""
    disk: DiskLoad | None = None
    """Disk load."""


class XenExperiment(SpecModel):
    """An experiment of the paper, or one beyond it."""

    isolane: f.Version
    """Version of the format: 1."""
    name: f.Slug
    """Its name."""
    figure: f.ShortText
    """What the paper calls its result."""
    title: f.ShortText
    """What it is, in a line."""
    description: f.LongText
    """What is done, and where the paper says so."""
    duration: Seconds
    """Simulated time, s."""
    bin: Seconds = 1.0
    """Width of the throughput's bins, s."""
    repeats: f.Repeats = 1
    """How often, each with another seed."""
    variants: tuple[Variant, ...] = Field(min_length=1)
    """The settings."""

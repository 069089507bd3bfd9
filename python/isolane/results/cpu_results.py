"""The part of the result format that tells where CPU time went, and how far to believe it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from isolane.stored_model import StoredModel

CorePart = Literal["dut", "measure", "other"]

CpuPart = Literal["own", "receive", "drop", "backlog", "transmit"]
"""Why a router used CPU time: in its own threads and polls; for its frames in a NIC's poll that
several routers share; for those of its frames that were dropped there; in the backlog of a core; in
the sending that a qdisc had put off."""
CPU_PARTS: tuple[CpuPart, ...] = ("own", "receive", "drop", "backlog", "transmit")

GuestCpu = Literal["host", "processors", "programs", "emulator"]
"""What a virtual machine's own CPU time was for: polls of its NIC on the host, and threads of its
policy; its virtual CPUs (under User-Mode Linux its kernel); programs in it, under User-Mode Linux;
all else that the hypervisor does for it."""
GUEST_CPU: tuple[GuestCpu, ...] = ("host", "processors", "programs", "emulator")

CorePartName = Literal[
    "own",
    "shared",
    "interrupts",
    "softirqs",
    "other_nics",
    "kernel_threads",
    "processes",
    "steal",
    "idle",
]
"""Where a core's time can have gone: routers' own work, their part of shared work, and the rest."""


class CoreAudit(StoredModel):
    """How far the CPU accountant's figures of one core can be believed.

    Two figures of the same time, from two sources: ``accountant`` is what BPF measured between its
    tracepoints, ``kernel`` what the kernel itself has counted.
    """

    core: int
    accounted: float
    """Sum of all accounts over the window; 1 if nothing is missing and nothing is there twice."""
    accountant_tasks_ns: int
    """Time of all threads and processes in the window, with softirqs and interrupts on top."""
    kernel_tasks_ns: int
    """The same from ``sum_exec_runtime`` of these tasks."""
    tasks_difference: float
    """Accountant's minus kernel's, as a share of the window."""
    uncompared: float
    """Share of the window with tasks of which the kernel's figure is not known: those that were
    still on the core when figures were read, and a few whose switch the accountant did not see."""
    early: float = 0.0
    """Share of the window of interrupts and softirqs that woke up a task on an idle core, with
    which the kernel may charge the task; runs of older versions have none."""
    idle_difference: float | None
    """Share of the trial that the core idled, accountant's minus kernel's (/proc/stat); None where
    the kernel counts idle time in ticks only."""
    events: int
    """How often the accountant's programs ran on this core in the window."""
    overhead: float
    """Estimate of what that cost: ``events`` times ``ns_per_event``, as a share of the window."""
    ns_per_event: float
    """As ``benches/accountant.py`` measures it."""


class CoreTrial(StoredModel):
    """Where one core's time went in the window, as fractions that add up to 1."""

    core: int
    part: CorePart
    user: float
    system: float
    softirq: float
    idle: float
    routers: float
    """Part of the above that is charged to routers (threads or softirq NAPI)."""
    steal: float
    """Taken by the hypervisor; overlaps the rest. Tick resolution where ``parts`` has none."""
    parts: dict[CorePartName, float] | None = None
    """The same time by what it was for; adds up to 1. None in runs of older versions."""


class CoreCell(StoredModel):
    """One core at one point in one arm: means of the fractions over the repeats.

    Means, because medians of parts would not add up to a whole.
    """

    arm: str
    point: int
    point_label: str
    core: int
    part: str
    user: float
    system: float
    softirq: float
    idle: float
    routers: float
    steal: float
    parts: dict[CorePartName, float] = Field(default_factory=dict)
    """Means of ``CoreTrial.parts``; empty where an older version measured."""

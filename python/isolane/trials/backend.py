"""The interface between a run and its back end: the run asks for trials, a back end does them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from isolane.results.cpu_results import CoreAudit
from isolane.results.error_budget import ErrorBudget
from isolane.results.invalid import InvalidReason
from isolane.results.priming import Priming
from isolane.results.quality_models import CoreProbe
from isolane.results.results import (
    CoreTrial,
    Drawing,
    GeneratorAudit,
    HostFacts,
    NotMeasured,
    Placement,
    RouterTrial,
)
from isolane.results.series import TrialSeries
from isolane.results.trial_profile import TrialProfile
from isolane.spec import Arm, PointRouter
from isolane.spec.demands import Demand

KERNEL_OVERLOAD_PPS = 2_000_000.0
"""More small frames/s than one core of Linux forwards, fewer than one core generates."""


@dataclass(frozen=True)
class Setting:
    """One trial to be carried out."""

    demands: tuple[Demand, ...]
    warmup_ns: int
    window_ns: int
    label: str = ""
    """Unique in a run; a simulation derives its random numbers from it."""
    budget: ErrorBudget = field(default_factory=ErrorBudget)
    """How large the trial's own faults may be."""
    as_sent: bool = False
    """Whether the trial counts at the load that was sent, where that is a little less."""
    peak_pps: float = 0.0
    """Highest offered load of all points that are compared with this one, frames/s; the generator
    treats all of them alike. 0: this one's."""
    priming: Priming | None = None
    """What the warm-up begins with; None: with the trial's own load."""
    capture: bool = False
    """Whether to keep its frames for a file."""
    cpu_profile: bool = False
    """Whether to sample its window, where the experiment asks for a CPU profile."""

    @property
    def mid_ns(self) -> int:
        """The middle of the window, ns since the start: there a ramp has grown to its load."""
        return self.warmup_ns + self.window_ns // 2

    def priming_pps(self, demand: Demand) -> float:
        """Return what one router is offered while the warm-up primes, frames/s: its share."""
        offered_pps = sum(each.offered_pps for each in self.demands)
        if self.priming is None or not offered_pps:
            return 0.0
        return self.priming.offered_pps * demand.offered_pps / offered_pps


@dataclass(frozen=True)
class Expected:
    """A trial that a back end will be asked for."""

    arm: Arm
    routers: tuple[PointRouter, ...]
    setting: Setting


@dataclass(frozen=True)
class Observation:
    """The result of one trial."""

    routers: tuple[RouterTrial, ...]
    cores: tuple[CoreTrial, ...]
    generator: GeneratorAudit
    placement: Placement | None
    conserved: bool
    invalid: tuple[InvalidReason, ...] = field(default=())
    """Why this trial gives no verdict about the device under test; empty when it does."""
    cpu_audit: tuple[CoreAudit, ...] = ()
    """How far the CPU figures agree with the kernel's, by core."""
    series: TrialSeries | None = None
    """Its trial number is not known yet: 0."""
    receiver_dropped: int = 0
    """Frames that the receiver had no room for, of all routers; they are part of `egress`."""
    capture: bytes | None = None
    """A file (pcapng) of the frames at the capture points; None where it was not asked for."""
    profile: TrialProfile | None = None
    """Its trial number is not known yet: 0. None where it was not asked for."""


class Bench(Protocol):
    """A device under test, ready for trials."""

    def trial(self, setting: Setting) -> Observation:
        """Carry out one trial.

        Raises
        ------
        MeasurementError
            If it cannot be finished; the bench is of no further use then.
        """

    def drawing(self) -> Drawing:
        """Draw the set-up."""

    def limits(self) -> tuple[NotMeasured, ...]:
        """Return what this set-up does not measure, or measures with limited accuracy."""

    def nics(self) -> tuple[dict[str, str], ...]:
        """Describe the interfaces that the DUT receives on: name, driver, offloads."""


class BackEnd(Protocol):
    """Carries out trials: with real frames on this host, or on a simulated one."""

    def check(self, arms: Sequence[Arm]) -> None:
        """Raise NotSupported, naming what is missing, unless all arms can be carried out."""

    def host(self) -> HostFacts:
        """Describe the host."""

    def bench(self, arm: Arm, routers: Sequence[PointRouter]) -> AbstractContextManager[Bench]:
        """Build a device under test; leaving the context takes it down."""

    def overload_pps(self, arm: Arm) -> float:
        """Return the highest load that capacity is measured with, frames/s."""


@runtime_checkable
class Probing(Protocol):
    """A bench that can tell how fast its machine is just now."""

    def probe(self) -> tuple[CoreProbe, ...]:
        """Probe the DUT's cores, in under 20 ms."""


@runtime_checkable
class WithNullDut(Protocol):
    """A back end that can leave the device under test out."""

    def null_dut(self, arm: Arm, routers: Sequence[PointRouter]) -> AbstractContextManager[Bench]:
        """Build wires from generator to receiver, one for each router, measured as on `arm`."""


@runtime_checkable
class WithGenerator(Protocol):
    """A back end whose generator has a maximum that is not known before it has been tried."""

    def flood_pps(self) -> float:
        """Return a load that it cannot send, frames/s."""


@runtime_checkable
class Foreseeing(Protocol):
    """A back end that can start early on trials that it will be asked for."""

    def foresee(self, expected: Sequence[Expected]) -> None:
        """Receive the coming trials in their order; the back end may begin with them."""

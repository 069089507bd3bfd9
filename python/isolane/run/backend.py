"""What a back end must offer: the run asks for trials and does not know who carries them out."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from isolane.run.invalid import InvalidReason
from isolane.run.results import (
    CoreTrial,
    Drawing,
    GeneratorAudit,
    HostFacts,
    NotMeasured,
    Placement,
    RouterTrial,
)
from isolane.spec import Arm, PointRouter

KERNEL_OVERLOAD_PPS = 2_000_000.0
"""Small frames/s above what one core of Linux forwards, below what one core generates."""


@dataclass(frozen=True)
class Demand:
    """What one router is offered in a trial."""

    router: PointRouter
    offered_pps: float
    load_x: float | None
    """The same as a multiple of the capacity, where there is one."""


@dataclass(frozen=True)
class Setting:
    """One trial to be carried out."""

    demands: tuple[Demand, ...]
    warmup_ns: int
    window_ns: int
    label: str = ""
    """What tells this trial from all others of a run: a simulation draws its randomness by it."""


@dataclass(frozen=True)
class Expected:
    """A trial that a back end will be asked for."""

    arm: Arm
    routers: tuple[PointRouter, ...]
    setting: Setting


@dataclass(frozen=True)
class Observation:
    """What came of it."""

    routers: tuple[RouterTrial, ...]
    cores: tuple[CoreTrial, ...]
    generator: GeneratorAudit
    placement: Placement | None
    conserved: bool
    invalid: tuple[InvalidReason, ...] = field(default=())
    """Why this trial gives no verdict about the device under test; empty when it does."""


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
        """Say what this set-up does not measure, or only to some accuracy."""

    def nics(self) -> tuple[dict[str, str], ...]:
        """Describe the device under test's receiving interfaces: name, driver, offloads."""


class BackEnd(Protocol):
    """Carries out trials: live on this host, or another one."""

    def check(self, arms: Sequence[Arm]) -> None:
        """Raise NotSupported, naming what is missing, unless all arms can be carried out."""

    def host(self) -> HostFacts:
        """Describe the host."""

    def bench(self, arm: Arm, routers: Sequence[PointRouter]) -> AbstractContextManager[Bench]:
        """Build a device under test; leaving the context takes it down."""

    def overload_pps(self) -> float:
        """Return the offered load that capacity is measured with, frames/s."""


@runtime_checkable
class Foreseeing(Protocol):
    """A back end that makes use of knowing what it will be asked for."""

    def foresee(self, expected: Sequence[Expected]) -> None:
        """Take note of the trials to come, in order; they may be begun with."""

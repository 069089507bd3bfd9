"""What carries out the trials: a test bed that mirrors the policy, or another one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from isolane.run.backend import KERNEL_OVERLOAD_PPS, Bench, Demand, Setting
from isolane.run.invalid import InvalidKind, InvalidReason
from isolane.run.live import LiveBackEnd
from isolane.run.live.cores import divide
from isolane.run.results import CoreTrial, RouterTrial
from isolane.spec import PointRouter, Policy, Role, format_pps
from isolane.testbed import Journal
from isolane.verify.mirror import Mirror, mirror
from isolane.verify.report_data import Tolerance
from isolane.verify.scenarios import Scenario

HARDLY: Final = 0.3
"""Part of an overload that must be made: a generator that runs so late counts in no window."""


@dataclass(frozen=True)
class Seen:
    """One router in one trial."""

    sent_pps: float
    """Frames made for it, a second."""
    received_pps: float
    """Of these, that came out of it."""
    cpu: float | None
    """CPU time of its threads, as a share of one core; None where it is not known."""
    lost_at_link: int = 0
    """Frames that its class of the link dropped in the whole trial."""


@dataclass(frozen=True)
class Measured:
    """What came of one trial."""

    routers: Mapping[str, Seen]
    """By router of the policy."""
    idle: float
    """Idle part of the cores that the routers share, 0 to 1."""
    invalid: tuple[InvalidReason, ...] = ()
    """Why this trial gives no verdict; empty when it does."""


class Trials(Protocol):
    """Routers of the policy, under their entitlements, ready for trials."""

    def trial(self, scenario: Scenario, label: str) -> Measured:
        """Carry out one trial; MeasurementError if it cannot be finished."""


class Place(Protocol):
    """Where a policy is verified."""

    @property
    def mode(self) -> Literal["test bed", "real interfaces"]:
        """What kind of place it is."""

    @property
    def most_cores(self) -> int | None:
        """How many cores there are for the routers; None: they have them already."""

    @property
    def overload_pps(self) -> float:
        """Small frames/s that are more than any router forwards."""

    def reaches(self, nic: str) -> bool:
        """Tell whether frames that leave by a NIC of the policy come to the receiver."""

    def open(
        self, routers: tuple[str, ...], *, frame_bytes: int, line_bps: float, fold: bool
    ) -> AbstractContextManager[Trials]:
        """Have routers of the policy ready; see :func:`isolane.verify.mirror.mirror`."""


@dataclass(frozen=True)
class TestBed:
    """A test bed of this host, made for the purpose."""

    __test__ = False  # the name starts with "Test": pytest is not to collect it

    policy: Policy
    journal: Journal
    window_ns: int
    tolerance: Tolerance
    mode: Literal["test bed", "real interfaces"] = "test bed"

    @property
    def most_cores(self) -> int:
        """One core at least is left to generate and receive."""
        cores = divide(1)
        return len(cores.dut) + len(cores.measure) - 1

    @property
    def overload_pps(self) -> float:
        """Return what overloads a router on one core."""
        return KERNEL_OVERLOAD_PPS

    def reaches(self, nic: str) -> bool:
        """Tell that the bed's wire stands for any NIC."""
        return nic in self.policy.nics

    @contextmanager
    def open(
        self, routers: tuple[str, ...], *, frame_bytes: int, line_bps: float, fold: bool
    ) -> Iterator[Trials]:
        """Build the bed; it is taken down afterwards."""
        made = mirror(self.policy, routers, frame_bytes=frame_bytes, line_bps=line_bps, fold=fold)
        (arm,) = made.experiment.resolved_arms()
        (point,) = made.experiment.points()
        back_end = LiveBackEnd(made.experiment, self.journal)
        back_end.check((arm,))
        with back_end.bench(arm, point.routers) as bench:
            yield _BedTrials(made, point.routers, bench, self)


@dataclass(frozen=True)
class _BedTrials:
    """The test bed's bench, spoken to in the policy's names."""

    mirror: Mirror
    routers: tuple[PointRouter, ...]
    bench: Bench
    bed: TestBed

    def trial(self, scenario: Scenario, label: str) -> Measured:
        """Carry out one trial."""
        by_bed = {short: name for name, short in self.mirror.names.items()}
        demands = tuple(_demand(router, by_bed[router.name], scenario) for router in self.routers)
        setting = Setting(demands, scenario.warmup_ns, self.bed.window_ns, label)
        seen = self.bench.trial(setting)
        dut = [core for core in seen.cores if core.part == "dut"]
        routers = {by_bed[router.router]: _seen(router, len(dut)) for router in seen.routers}
        return Measured(
            routers,
            sum(core.idle for core in dut) / len(dut) if dut else 0.0,
            (
                *(self._disturbed(dut) if scenario.about_cpu else ()),
                *too_few(scenario, routers),
                *seen.invalid,
            ),
        )

    def _disturbed(self, cores: Sequence[CoreTrial]) -> Iterator[InvalidReason]:
        for core in cores:
            used = {"processes of others": core.user, "the hypervisor": core.steal}
            yield from disturbances(core.core, used, self.bed.tolerance)


def too_few(scenario: Scenario, routers: Mapping[str, Seen]) -> Iterator[InvalidReason]:
    """Yield overloaded routers whose frames were hardly made: the generator was starved."""
    for name in sorted(scenario.overloaded):
        wanted, sent = scenario.offered_pps[name], routers[name].sent_pps
        if sent < HARDLY * wanted:
            text = f"the generator was the limit: it sent {format_pps(sent)} for {name}"
            yield InvalidReason(InvalidKind.GENERATOR_LIMIT, text)


def disturbances(
    core: int, used: Mapping[str, float], tolerance: Tolerance
) -> Iterator[InvalidReason]:
    """Yield what kept a core of the routers' from being theirs: who -> part of it, 0 to 1."""
    for who, part in used.items():
        if part > tolerance.others:
            text = f"{who} used {100 * part:.0f} % of core {core}"
            yield InvalidReason(InvalidKind.DISTURBED, text)


def _seen(router: RouterTrial, cores: int) -> Seen:
    cpu = None if router.cpu_share is None else router.cpu_share * cores
    return Seen(router.generated_pps, router.received_pps, cpu, router.lost["egress"])


def _demand(router: PointRouter, name: str, scenario: Scenario) -> Demand:
    role: Role = "aggressor" if name in scenario.overloaded else "router"
    member = PointRouter(router.name, router.group, role, router.load, router.address)
    return Demand(member, scenario.offered_pps.get(name, 0.0), None)

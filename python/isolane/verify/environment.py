"""The test environment: where trials are carried out. Here: a test bed that mirrors the policy.

The other environment, the running routers between real interfaces, is :mod:`isolane.verify.real`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from isolane.enforce import RouterSample, Sample
from isolane.results.error_budget import ErrorBudget
from isolane.results.invalid import ABOUT_DELAY, MADE_AGAIN, VALID, InvalidKind, InvalidReason
from isolane.results.results import DropPoint, RouterTrial
from isolane.spec import PointRouter, Policy, Role, format_pps
from isolane.spec.demands import Demand
from isolane.spec.patterns import PLAIN
from isolane.testbed import Journal
from isolane.trials.backend import KERNEL_OVERLOAD_PPS, Bench, Setting
from isolane.trials.live.cores import divide
from isolane.trials.live.live_backend import LiveBackEnd
from isolane.trials.live.testbed_policy import enforcer
from isolane.verify.mirror import Mirror, mirror
from isolane.verify.report_data import Tolerance
from isolane.verify.scenarios import Scenario

HARDLY: Final = 0.3
"""Part of an overload that the generator must really send for the trial to count."""


@dataclass(frozen=True)
class Seen:
    """What was measured of one router in one trial."""

    offered_pps: float
    """Frames/s that it was to be sent."""
    sent_pps: float
    """Frames/s that the generator sent to it."""
    received_pps: float
    """Frames/s of these that arrived at the receiver."""
    cpu: float | None
    """CPU time of its threads, as a share of one core; None where it is not known."""
    caused_cpu: float | None = None
    """The same, and what its frames cost the NICs' threads where it pays for that, as the kernel
    and the packet path count it: what counts against its weight."""
    lost_at_link: int = 0
    """Frames that its HTB class dropped in the whole trial."""
    nic_cpu: float | None = None
    """Of ``caused_cpu``, what the NICs' threads spent; None where it does not pay for that."""
    lost: Mapping[DropPoint, int] = field(default_factory=dict)
    """Frames that it lost in the whole trial by where; empty where that is not known."""


@dataclass(frozen=True)
class Measured:
    """The result of one trial."""

    routers: Mapping[str, Seen]
    """By router of the policy."""
    idle: float
    """Idle part of the cores that the routers share, 0 to 1."""
    invalid: tuple[InvalidReason, ...] = ()
    """Why this trial gives no verdict, or is made again; empty when it is good."""

    def is_valid(self, *, last: bool) -> bool:
        """Tell whether the trial counts.

        Parameters
        ----------
        last
            Whether it does although the machine was paused.
        """
        return all(last and reason.kind in MADE_AGAIN for reason in self.invalid)


class Trials(Protocol):
    """Routers with the policy in force, ready for trials."""

    def trial(self, scenario: Scenario, label: str) -> Measured:
        """Carry out one trial; MeasurementError if it cannot be finished."""


class Environment(Protocol):
    """The test environment in which a policy is verified."""

    @property
    def mode(self) -> Literal["test bed", "real interfaces"]:
        """Which kind of environment it is."""

    @property
    def max_cores(self) -> int | None:
        """Cores that can be given to the routers; None: they have their cores already."""

    @property
    def overload_pps(self) -> float:
        """Load of small frames, frames/s, that is more than any router forwards."""

    def reaches(self, nic: str) -> bool:
        """Tell whether frames that the routers send by a NIC arrive at the receiver."""

    def open(
        self, routers: tuple[str, ...], *, frame_bytes: int, line_bps: float, fold: bool
    ) -> AbstractContextManager[Trials]:
        """Set up routers of the policy for trials; see :func:`isolane.verify.mirror.mirror`."""


@dataclass(frozen=True)
class TestBed:
    """A test bed on this host, built for the verification."""

    __test__ = False  # the name starts with "Test": pytest is not to collect it

    policy: Policy
    journal: Journal
    window_ns: int
    tolerance: Tolerance
    mode: Literal["test bed", "real interfaces"] = "test bed"

    @property
    def max_cores(self) -> int:
        """Return the cores for routers: one is kept for generator and receiver."""
        cores = divide(1)
        return len(cores.dut) + len(cores.measure) - 1

    @property
    def overload_pps(self) -> float:
        """Return the load that overloads a router on one core."""
        return KERNEL_OVERLOAD_PPS

    def reaches(self, nic: str) -> bool:
        """Tell whether the policy has the NIC: one wire stands for each of its NICs."""
        return nic in self.policy.nics

    @contextmanager
    def open(
        self, routers: tuple[str, ...], *, frame_bytes: int, line_bps: float, fold: bool
    ) -> Iterator[Trials]:
        """Build the test bed; take it down afterwards."""
        made = mirror(self.policy, routers, frame_bytes=frame_bytes, line_bps=line_bps, fold=fold)
        (arm,) = made.experiment.resolved_arms()
        (point,) = made.experiment.points()
        with closing(LiveBackEnd(made.experiment, self.journal)) as back_end:
            back_end.check((arm,))
            with (
                back_end.bench(arm, point.routers) as bench,
                closing(enforcer().samples()) as samples,
            ):
                yield _BedTrials(made, point.routers, bench, self, samples)


@dataclass(frozen=True)
class _BedTrials:
    """Trials on the test bed, with the names that the routers have in the policy."""

    mirror: Mirror
    routers: tuple[PointRouter, ...]
    bench: Bench
    bed: TestBed
    samples: Iterator[Sample | None]
    """Each is taken when it is asked for."""

    def trial(self, scenario: Scenario, label: str) -> Measured:
        """Carry out one trial."""
        by_bed = {short: name for name, short in self.mirror.names.items()}
        demands = tuple(_demand(router, by_bed[router.name], scenario) for router in self.routers)
        setting = Setting(
            demands, scenario.warmup_ns, self.bed.window_ns, label, budget_of(self.bed.tolerance)
        )
        before = next(self.samples)
        seen = self.bench.trial(setting)
        samples = before, next(self.samples)
        dut = [core for core in seen.cores if core.part == "dut"]
        routers = {
            by_bed[router.router]: _seen(router, len(dut), samples) for router in seen.routers
        }
        return Measured(
            routers,
            sum(core.idle for core in dut) / len(dut) if dut else 0.0,
            (
                *too_few(scenario, routers),
                *(
                    reason
                    for reason in seen.invalid
                    if reason.kind not in ABOUT_DELAY
                    and (scenario.about_cpu or reason.kind not in VALID - MADE_AGAIN)
                ),
            ),
        )


def budget_of(tolerance: Tolerance) -> ErrorBudget:
    """Return the error budget of trials that are judged with these tolerances."""
    return ErrorBudget(min(0.5, tolerance.retained * tolerance.factor))


def too_few(scenario: Scenario, routers: Mapping[str, Seen]) -> Iterator[InvalidReason]:
    """Yield a reason for each overloaded router that the generator sent far too little to."""
    for name in sorted(scenario.overloaded):
        wanted, sent = scenario.offered_pps[name], routers[name].sent_pps
        if sent < HARDLY * wanted:
            text = (
                f"the generator was the limit: it sent {format_pps(sent)} to {name} instead of "
                f"{format_pps(wanted)}"
            )
            yield InvalidReason(InvalidKind.GENERATOR_LIMIT, text)


def _seen(router: RouterTrial, cores: int, samples: Samples) -> Seen:
    return Seen(
        offered_pps=router.offered_pps,
        sent_pps=router.generated_pps,
        received_pps=router.received_pps,
        cpu=None if router.cpu_share is None else router.cpu_share * cores,
        caused_cpu=caused_cpu(router.router, samples),
        lost_at_link=router.lost["egress"],
        nic_cpu=nic_cpu(router.router, samples),
        lost={point: frames for point, frames in router.lost.items() if point != "generator"},
    )


Samples = tuple[Sample | None, Sample | None]
"""Before a trial and after it; None where no policy is in force."""


def caused_cpu(router: str, samples: Samples) -> float | None:
    """Return what a router caused between two samples, in cores: see :class:`Seen`."""
    return _spent(router, samples, lambda seen: seen.cpu_ns + (seen.nic_cpu_ns or 0))


def nic_cpu(router: str, samples: Samples) -> float | None:
    """Return what of that the NICs' threads spent, in cores."""
    return _spent(router, samples, lambda seen: seen.nic_cpu_ns)


def _spent(
    router: str, samples: Samples, ns_of: Callable[[RouterSample], int | None]
) -> float | None:
    before, after = samples
    if before is None or after is None:
        return None
    told = [ns_of(each) for s in (before, after) for each in s.routers if each.name == router]
    known = [ns for ns in told if ns is not None]
    if len(known) < len(samples):
        return None
    return (known[1] - known[0]) / (after.at_ns - before.at_ns)


def _demand(router: PointRouter, name: str, scenario: Scenario) -> Demand:
    role: Role = "aggressor" if name in scenario.overloaded else "router"
    pattern = scenario.patterns.get(name, PLAIN)
    member = PointRouter(router.name, router.group, role, router.load, router.address, pattern)
    return Demand(member, scenario.offered_pps.get(name, 0.0), None)

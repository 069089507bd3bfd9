"""Verifies the running routers, with the policy in force, between two real interfaces.

The generator sends from an interface of this host that is cabled to the NIC that the routers share.
The routers forward the frames to a second interface of this host. The user names both.
"""

from __future__ import annotations

import ipaddress
import os
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Literal

from isolane import _native
from isolane.enforce import Enforcer, FoundRouter, InForce, MissingRouter, Sample
from isolane.errors import MeasurementError, NotSupported, SpecError
from isolane.procfs import TICK_NS, CoreTicks, core_ticks
from isolane.results.error_budget import ErrorBudget
from isolane.results.invalid import MADE_AGAIN, InvalidKind, InvalidReason, disturbances, proven
from isolane.spec import Load, PointRouter, Policy, Traffic
from isolane.spec.demands import Demand
from isolane.testbed import Wire
from isolane.testbed.host_links import interface_index, netns_path, with_links
from isolane.trials.backend import KERNEL_OVERLOAD_PPS
from isolane.trials.live.cores import awake
from isolane.trials.live.generator_streams import segments_of, stream
from isolane.trials.live.target import resolve
from isolane.trials.live.traffic import GRACE_S, Target, host_cookie
from isolane.verify.environment import (
    Measured,
    Seen,
    Trials,
    budget_of,
    caused_cpu,
    nic_cpu,
    too_few,
)
from isolane.verify.report_data import Options, Tolerance
from isolane.verify.scenarios import Scenario

FLOWS = 100
LEAD_NS = 20_000_000
DRAIN_S = 0.1
"""Wait for the frames that are still on their way when the generator has ended."""


@dataclass(frozen=True)
class Port:
    """An interface of this host, in a network namespace (None: this one)."""

    ifname: str
    netns: str | None = None

    @classmethod
    def read(cls, text: str) -> Port:
        """Read ``eth3`` or ``eth3@NETNS``."""
        ifname, _, netns = text.partition("@")
        return cls(ifname, netns or None)

    def index(self) -> tuple[str | None, int]:
        """Return namespace (a path) and index.

        Raises
        ------
        SpecError
            If there is no such interface.
        """
        path = netns_path(self.netns)
        return path, with_links(path, lambda links: interface_index(links, self.ifname))


@dataclass(frozen=True)
class Wiring:
    """How frames reach the routers and come back."""

    sending: Port
    receiving: Port
    destinations: Mapping[str, str]
    """By router of the policy: an address that it forwards to ``receiving``, as ``ADDRESS`` or
    ``ADDRESS@INTERFACE``, where INTERFACE is the router's interface that receives the frames."""
    nic: str | None = None
    """NIC of the policy that ``receiving`` is cabled to."""
    source: str | None = None
    """Source address of the frames; None: that of ``sending``."""


@dataclass(frozen=True)
class RealInterfaces:
    """The running routers as a test environment; see the module."""

    policy: Policy
    enforcer: Enforcer
    wiring: Wiring
    window_ns: int
    tolerance: Tolerance
    targets: Mapping[str, Target] = field(default_factory=dict)
    core: int = 0
    """Core of the generator."""
    mode: Literal["test bed", "real interfaces"] = "real interfaces"
    max_cores: None = None

    @property
    def overload_pps(self) -> float:
        """Return the load that overloads a router on one core."""
        return KERNEL_OVERLOAD_PPS

    def reaches(self, nic: str) -> bool:
        """Tell whether frames that the routers send by a NIC arrive at the receiver."""
        return nic == self.wiring.nic or len(self.policy.nics) == 1

    @contextmanager
    def open(
        self,
        routers: tuple[str, ...],
        *,
        frame_bytes: int,
        line_bps: float,  # noqa: ARG002 - a real link has the rate that it has
        fold: bool,  # noqa: ARG002 - the routers have the cores that they have
    ) -> Iterator[Trials]:
        """Attach the receiver; detach it afterwards."""
        netns, index = self.wiring.receiving.index()
        cookie = host_cookie()
        try:
            receiver = _native.Receiver(
                interfaces=[_native.Interface(netns=netns, ifindex=index)],
                cookie=cookie,
                flows=[FLOWS] * len(routers),
            )
        except _native.UnsupportedError as error:
            raise NotSupported(f"not supported on this host: {error}") from error
        except _native.NativeError as error:
            raise MeasurementError(str(error)) from error
        samples = self.enforcer.samples()
        with awake(), closing(receiver), closing(samples):
            yield _RealTrials(self, routers, frame_bytes, receiver, samples)


@dataclass(frozen=True)
class _RealTrials:
    environment: RealInterfaces
    routers: tuple[str, ...]
    frame_bytes: int
    receiver: _native.Receiver
    samples: Generator[Sample | None]

    def trial(self, scenario: Scenario, label: str) -> Measured:  # noqa: ARG002 - of simulations
        """Carry out one trial."""
        try:
            return self._trial(scenario)
        except _native.NativeError as error:
            raise MeasurementError(str(error)) from error

    def _trial(self, scenario: Scenario) -> Measured:
        source = self._generator(scenario)
        cores = {
            core for name in self.routers for core in self.environment.policy.routers[name].cores
        }
        cores = cores or os.sched_getaffinity(0) - {self.environment.core}
        self.receiver.reset()
        start_ns = _native.monotonic_ns() + LEAD_NS
        end_ns = start_ns + scenario.warmup_ns + self.environment.window_ns
        try:
            source.start(start_ns)
            _until(start_ns + scenario.warmup_ns)
            before, ticks = self._sample(), core_ticks()
            _until(end_ns)
            after, later = self._sample(), core_ticks()
            if not source.wait(GRACE_S):
                raise MeasurementError(
                    f"the generator did not finish within {GRACE_S:g} s after the trial"
                )
        finally:
            source.stop()
        time.sleep(DRAIN_S)
        used = {core: later[core].since(ticks[core]) for core in cores & later.keys()}
        return self._measured(scenario, source.report(), (before, after), used)

    def _generator(self, scenario: Scenario) -> _native.Generator:
        end_ns = scenario.warmup_ns + self.environment.window_ns
        traffic = Traffic(frame_size=self.frame_bytes, flows=FLOWS)
        targets = [self.environment.targets[name] for name in self.routers]
        return _native.Generator(
            netns=targets[0].netns,
            core=self.environment.core,
            cookie=host_cookie(),
            streams=[
                stream(
                    demand := _demand(name, scenario),
                    _wire(name, target),
                    traffic,
                    segments_of(demand, end_ns),
                )
                for name, target in zip(self.routers, targets, strict=True)
            ],
            window_start_ns=scenario.warmup_ns,
            window_end_ns=end_ns,
            end_ns=end_ns,
        )

    def _sample(self) -> Sample:
        sample = next(self.samples)
        if sample is None:
            raise MeasurementError(
                "the policy is no longer in force: somebody cleared it during the verification"
            )
        return sample

    def _measured(
        self,
        scenario: Scenario,
        report: _native.GeneratorReport,
        samples: tuple[Sample, Sample],
        ticks: dict[int, CoreTicks],
    ) -> Measured:
        window_s = self.environment.window_ns / 1e9
        counts = self.receiver.counts()
        seen: dict[str, Seen] = {}
        invalid: list[InvalidReason] = []
        budget = budget_of(self.environment.tolerance)
        invalid += (
            reason
            for reason in _disturbed(ticks, budget)
            if scenario.about_cpu or reason.kind in MADE_AGAIN
        )
        for number, name in enumerate(self.routers):
            sent = report.streams[number].sent_window
            received = counts[number].received_window
            wanted = scenario.offered_pps.get(name, 0.0)
            seen[name] = Seen(
                offered_pps=wanted,
                sent_pps=sent / window_s,
                received_pps=received / window_s,
                cpu=_cpu(name, samples),
                caused_cpu=caused_cpu(name, samples),
                lost_at_link=_lost_at_link(name, samples),
                nic_cpu=nic_cpu(name, samples),
            )
            if name not in scenario.overloaded and sent / window_s < (1 - budget.limit) * wanted:
                text = f"the generator was the limit for {name}"
                invalid.append(InvalidReason(InvalidKind.GENERATOR_LIMIT, text))
        invalid += too_few(scenario, seen)
        idle = [used.idle / max(1, used.total) for used in ticks.values()]
        return Measured(seen, sum(idle) / len(idle) if idle else 0.0, tuple(invalid))


def connect(
    policy: Policy, enforcer: Enforcer, wiring: Wiring, options: Options
) -> tuple[RealInterfaces, dict[str, str]]:
    """Return the test environment, and the routers that cannot be reached with the reason.

    Raises
    ------
    SpecError
        If another policy, or none, is in force; an interface or address is wrong; a router has no
        destination.
    """
    state = enforcer.status()
    _same(policy, state)
    unknown = [name for name in wiring.destinations if name not in policy.routers]
    if unknown:
        accepted = ", ".join(policy.routers)
        raise SpecError(f"--destination {unknown[0]}: not in the policy; accepted: {accepted}")
    if wiring.nic is not None and wiring.nic not in policy.nics:
        raise SpecError(
            f"--nic {wiring.nic}: not in the policy; accepted: {', '.join(policy.nics)}"
        )
    for name, destination in wiring.destinations.items():
        _check_address(name, destination)
    wiring.sending.index()
    wiring.receiving.index()
    targets, missing = {}, {}
    for router in state.found:
        if isinstance(router, MissingRouter):
            missing[router.name] = f"it does not run: {router.reason}"
        elif router.name not in wiring.destinations:
            missing[router.name] = (
                f"no destination was given for it (--destination {router.name}=ADDRESS)"
            )
        else:
            targets[router.name] = _target(router, wiring)
    free = sorted(os.sched_getaffinity(0) - {c for r in policy.routers.values() for c in r.cores})
    if not free:
        raise NotSupported(
            "not supported on this host: the policy's routers use all cores, and the generator "
            "needs one of its own; change `cores` in the policy"
        )
    environment = RealInterfaces(
        policy, enforcer, wiring, options.window_ns, options.tolerance, targets, free[0]
    )
    return environment, missing


def _check_address(router: str, destination: str) -> None:
    try:
        ipaddress.ip_address(destination.partition("@")[0])
    except ValueError:
        raise SpecError(
            f"--destination {router}={destination}: not an IP address; accepted: ADDRESS or "
            "ADDRESS@INTERFACE, such as 198.51.100.9"
        ) from None


def _same(policy: Policy, state: InForce) -> None:
    if state.policy is None:
        raise SpecError(
            f"no policy is in force; apply policy {policy.name} first: isolane apply FILE"
        )
    if state.policy != policy:
        raise SpecError(
            f"the policy in force ({state.policy.name}, applied {state.applied_at}) differs from "
            "this file; apply the file first: isolane apply FILE"
        )


def _target(router: FoundRouter, wiring: Wiring) -> Target:
    address, _, ifname = wiring.destinations[router.name].partition("@")
    inside = [i for i in router.interfaces if ifname in ("", i.ifname)]
    if not inside:
        there = ", ".join(i.ifname for i in router.interfaces)
        raise SpecError(f"router {router.name} has no interface {ifname}; accepted: {there}")
    if inside[0].vlan:
        raise SpecError(
            f"router {router.name}: {inside[0].ifname} is in a VLAN, and the generator sends "
            "untagged frames; name another interface: --destination ROUTER=ADDRESS@INTERFACE"
        )
    port = wiring.sending
    try:
        return resolve(
            port.ifname, address, source=wiring.source, mac=inside[0].mac, netns=port.netns
        )
    except SpecError as error:  # in the words of the options that this command has
        told = str(error).replace("--from", "--source").replace("--to", "--destination")
        raise SpecError(f"router {router.name}: {told}") from None


def _demand(name: str, scenario: Scenario) -> Demand:
    rate = scenario.offered_pps.get(name, 0.0)
    return Demand(PointRouter(name, name, "router", Load(rate, "pps")), rate, None)


def _wire(name: str, target: Target) -> Wire:
    return Wire(
        router=name,
        gen_netns=target.netns or "",
        gen_ifindex=target.ifindex,
        gen_ifname="",
        src_mac=target.src_mac,
        dst_mac=target.dst_mac,
        src_ip=target.src_ip,
        src_count=1,
        dst_ip=target.dst_ip,
        router_ip="",  # of no meaning: nothing is sent to the router itself
        rcv_netns="",
        rcv_ifindex=0,
        rcv_ifname="",
    )


def _cpu(name: str, samples: tuple[Sample, Sample]) -> float | None:
    """Return the CPU time of a router between two samples, as a share of one core."""
    before, after = ({r.name: r.cpu_ns for r in sample.routers} for sample in samples)
    between_ns = samples[1].at_ns - samples[0].at_ns
    return (after[name] - before[name]) / between_ns if name in before else None


def _lost_at_link(name: str, samples: tuple[Sample, Sample]) -> int:
    before, after = (
        sum(r.dropped.get("link", 0) for r in sample.routers if r.name == name)
        for sample in samples
    )
    return after - before


def _until(at_ns: int) -> None:
    time.sleep(max(0, at_ns - _native.monotonic_ns()) / 1e9)


def _disturbed(ticks: Mapping[int, CoreTicks], budget: ErrorBudget) -> Iterator[InvalidReason]:
    for core, spent in ticks.items():
        total = max(1, spent.total)
        others = proven((spent.user + spent.nice) / total, total * TICK_NS)
        stolen = proven(spent.steal / total, total * TICK_NS)
        yield from disturbances(core, others, stolen, budget)

"""The simulated back end: trials on a simulated host."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel

from isolane import __version__, _native
from isolane.errors import MeasurementError, NotSupported
from isolane.results.results import Drawing, HostFacts, NotMeasured
from isolane.spec import Arm, ArmRouter, Experiment, PointRouter, format_bps
from isolane.trials.backend import KERNEL_OVERLOAD_PPS, Bench, Expected, Observation, Setting
from isolane.trials.sim import host_drawing, simulated_policy
from isolane.trials.sim.catalogue import SimHost, find_host, simulates
from isolane.trials.sim.trial import TrialJob, run_trial
from isolane.trials.sim.worker import executor, stop, workers

OVERLOAD_PPS = 20_000_000.0
"""More than any router of any profile forwards; mostly the line limits it."""
FEW_FRAMES = 2_000_000
"""A run that offers fewer is over sooner without worker processes, which take a second to begin: at
4 million there is little between them, on two cores (benches/RESULTS.md, 2026-11-30)."""


def _refuse_machine(arm: Arm, router: ArmRouter) -> None:
    """Refuse a virtual machine whose costs no profile has."""
    what = None
    if router.image is not None:
        what = "an image of one's own"
    elif (router.vcpus or 1) > 1:
        what = f"{router.vcpus} virtual CPUs"
    if what is not None:
        raise NotSupported(
            f"arm {arm.name}: router {router.group} with {what} cannot be simulated: what it costs "
            "is not known; run it live"
        )


@dataclass
class SimBackEnd:
    """Simulated trials; see :class:`isolane.trials.backend.BackEnd`.

    Parameters
    ----------
    experiment
        What will be run.
    profile
        Name or file of the host profile; default: the one of Isolane.
    jobs
        Processes that simulate trials ahead; 1 simulates in this process. Default: one per core,
        and none for a run of a few frames.
    """

    experiment: Experiment
    profile: str | Path | None = None
    jobs: int | None = None
    _pool: ProcessPoolExecutor | None = None
    _ahead: dict[TrialJob, Future[Observation]] = field(default_factory=dict)
    _max_wire_bps: float = 0.0
    """The highest load that a wire is offered in a trial, bit/s."""

    def __post_init__(self) -> None:
        self.sim_host: SimHost = find_host(self.profile)

    def check(self, arms: Sequence[Arm]) -> None:
        """Raise NotSupported, naming what cannot be simulated; SpecError for a wrong profile."""
        _refuse_patterns(self.experiment)
        for arm in arms:
            kinds = {router.kind for router in arm.routers}
            if "xen" in kinds and len(kinds) > 1:
                raise NotSupported(
                    f"arm {arm.name}: kind xen cannot be simulated beside others on one host, "
                    "because Xen's CPU scheduler replaces Linux's"
                )
            for router in arm.routers:
                mode = self.experiment.traffic_of(router.group).mode
                if not simulates(router):
                    raise NotSupported(
                        f"arm {arm.name}: hypervisor {router.hypervisor} cannot be simulated, only "
                        "kvm (auto is kvm there), and uml on path netback"
                    )
                _refuse_machine(arm, router)
                filtered = arm.bridge_netfilter
                self.sim_host.path_of(router, mode, filtered=filtered)
                if mode == "http":
                    self.sim_host.path_of(router, mode, in_kernel=True, filtered=filtered)
            if arm.uplink.early_drop not in (None, "off"):
                raise NotSupported(
                    f"arm {arm.name}: early_drop {arm.uplink.early_drop} cannot be simulated, only "
                    "off: in the model each frame is copied before it is dropped"
                )
            simulated_policy.check(arm)

    def host(self) -> HostFacts:
        """Describe the simulated host."""
        profile = self.sim_host.profile
        rules = {"linux-3.2": "Linux 3.2", "linux-6": "Linux 6"}[profile.host.kernel]
        if profile.host.scheduler == "eevdf":
            rules = "Linux 6.17"
        return HostFacts(
            kernel=f"simulated, by the rules of {rules}",
            cpu=f"simulated: {profile.title} (profile {profile.name})",
            cores=max(arm.cores for arm in self.experiment.resolved_arms()),
            memory_bytes=0,
            versions={"isolane": __version__},
            clocksource="simulated time",
            hypervisor=None,
            mitigations="none: all costs are those of the profile",
            nics=(),
            simulated=profile.name,
        )

    def made_of(self) -> dict[str, BaseModel]:
        """Return the profile and the paths in use, which make up the simulated host."""
        arms = self.experiment.resolved_arms()
        made: dict[str, BaseModel] = {"profile": self.sim_host.profile}
        for arm, router in ((each, router) for each in arms for router in each.routers):
            mode = self.experiment.traffic_of(router.group).mode
            path = self.sim_host.path_of(router, mode, filtered=arm.bridge_netfilter)
            more = router.services or (mode if mode != "forward" else None)
            name = f"path.{path.name}" + (f" with {more}" if more else "")
            made[name + (" and netfilter" if arm.bridge_netfilter else "")] = path
        return made

    def overload_pps(self, arm: Arm) -> float:
        """Return the highest load that capacity is measured with, frames/s."""
        reference = self.experiment.capacity_reference()
        traffic = self.experiment.traffic_of(reference.router)
        router = arm.router(self.experiment.router(reference.router).name)
        overload_pps = OVERLOAD_PPS
        if router.policy is not None and router.kind != "vm":
            # Dropping a frame costs CPU time, as in a live run. Offer twice the rate that the
            # costs allow, where that is more.
            overload_pps = max(
                KERNEL_OVERLOAD_PPS,
                2e9 / self.sim_host.frame_ns(router, filtered=arm.bridge_netfilter),
            )
        return min(overload_pps, traffic.line_rate_bps / traffic.wire_bps(1.0))

    def foresee(self, expected: Sequence[Expected]) -> None:
        """Begin to simulate the coming trials, on all cores; nothing where they are soon done."""
        self._max_wire_bps = max((self._wire_bps(one) for one in expected), default=0.0)
        jobs = workers(self.jobs)
        if jobs == 1 or len(expected) < 2 or (self.jobs is None and _few(expected)):
            return
        self._pool = executor(jobs)
        for one in expected:
            job = self._job(one.arm, one.routers, one.setting)
            self._ahead[job] = self._pool.submit(run_trial, job)

    def _wire_bps(self, expected: Expected) -> float:
        """Return what the busiest wire of a trial is offered, bit/s."""
        wires: dict[str, float] = defaultdict(float)
        for demand in expected.setting.demands:
            of_arm = expected.arm.router(demand.router.group)
            wire = of_arm.wire if of_arm.shares_wire else demand.router.name
            traffic = self.experiment.traffic_of(demand.router.name)
            wires[wire] += traffic.wire_bps(demand.offered_pps)
        return max(wires.values(), default=0.0)

    def beyond_line(self) -> tuple[NotMeasured, ...]:
        """Return a remark if loads in x came out as more than the profile's NICs carry.

        Loads that are known beforehand are refused (:mod:`isolane.trials.limits`).
        """
        profile, wire_bps = self.sim_host.profile, self.experiment.traffic.line_rate_bps
        rate = profile.host.line_rate
        if rate is None or self._max_wire_bps <= rate:
            return ()
        why = (
            f"up to {format_bps(self._max_wire_bps)} are offered on a wire, the NICs of profile "
            f"{profile.name} carry {format_bps(rate)}, and the simulated wires "
            f"{format_bps(wire_bps)} (traffic.line_rate)"
        )
        return (NotMeasured(what="What the profile's own NICs would have let through", why=why),)

    def close(self) -> None:
        """Stop simulations that were begun ahead."""
        if self._pool is not None:
            stop(self._pool)
            self._pool = None

    @contextmanager
    def bench(self, arm: Arm, routers: Sequence[PointRouter]) -> Iterator[Bench]:
        """Hand out a simulated device under test."""
        yield SimBench(self, arm, tuple(routers))

    def trial(self, arm: Arm, routers: Sequence[PointRouter], setting: Setting) -> Observation:
        """Simulate one trial, or return its result if it was simulated ahead."""
        job = self._job(arm, routers, setting)
        ahead = self._ahead.pop(job, None)
        try:
            return ahead.result() if ahead is not None else run_trial(job)
        except _native.NativeError as error:
            raise MeasurementError(f"the simulation failed: {error}") from error

    def _job(self, arm: Arm, routers: Sequence[PointRouter], setting: Setting) -> TrialJob:
        return TrialJob(self.experiment, arm.name, tuple(routers), setting, self.profile)


@dataclass(frozen=True)
class SimBench:
    """A simulated device under test; see :class:`isolane.trials.backend.Bench`."""

    back_end: SimBackEnd
    arm: Arm
    routers: tuple[PointRouter, ...]

    def trial(self, setting: Setting) -> Observation:
        """Carry out one trial."""
        return self.back_end.trial(self.arm, self.routers, setting)

    def limits(self) -> tuple[NotMeasured, ...]:
        """Return the remarks of a prediction: nothing was measured, and how good the profile is."""
        profile = self.back_end.sim_host.profile
        error = profile.error or "has not been compared with figures that it was not fitted to"
        return (
            NotMeasured(
                what="Real frames",
                why=f"this is a prediction by simulation. Profile {profile.name}: "
                f"{' '.join(error.split())}",
            ),
            *self.back_end.beyond_line(),
            *self._of_requests(),
            *self._no_parts(),
            *self._without_influence(),
        )

    def _of_requests(self) -> Iterator[NotMeasured]:
        """Yield what a prediction of load balancers does not tell, or passes over."""
        if any(router.mode == "http" for router in self.routers):
            why = (
                "on the development machine a live 99th percentile beside a neighbour was up to "
                "fifteen times the simulated one; throughput and CPU time are what is predicted"
            )
            yield NotMeasured(what="How long the last answers take", why=why)
        for router in self.arm.routers:
            if router.haproxy is not None:
                why = "its costs are those of the shipped configuration"
                yield NotMeasured(what=f"What {router.haproxy} costs ({router.group})", why=why)

    def _no_parts(self) -> tuple[NotMeasured, ...]:
        plan = self.back_end.experiment.trial
        if not plan.stamps:
            return ()
        what = "Where the time goes" + (", and capture files" if plan.capture else "")
        why = "a simulated host has no capture points in this version; run it live"
        return (NotMeasured(what=what, why=why),)

    def _without_influence(self) -> Iterator[NotMeasured]:
        """Yield what an experiment asks for and this model does not know."""
        experiment = self.back_end.experiment
        if experiment.trial.cpu_profile:
            why = "a simulated core has no functions to sample; run it live"
            yield NotMeasured(what="Where the processor goes", why=why)
        if experiment.traffic.ip == 6:
            why = "a frame of IPv6 costs what one of IPv4 does, in this version"
            yield NotMeasured(what="What IPv6 costs", why=why)

    def nics(self) -> tuple[dict[str, str], ...]:
        """Describe the simulated receive rings."""
        rings = self.back_end.sim_host.profile.rings
        used = {self.back_end.sim_host.path_of(router).ring for router in self.arm.routers}
        return tuple(
            {
                "name": f"simulated {name} ring",
                "ring": f"{ring.capacity} frames",
                "moderation": f"{ring.moderation_ns:g} ns",
            }
            for name, ring in rings.items()
            if name in used
        )

    def drawing(self) -> Drawing:
        """Draw the set-up; see :class:`isolane.trials.backend.Bench`."""
        back_end = self.back_end
        return host_drawing.draw(back_end.sim_host, back_end.experiment, self.arm, self.routers)


def _few(expected: Sequence[Expected]) -> bool:
    """Whether these trials offer few frames, and no requests, of which each takes many turns."""
    if any(router.mode == "http" for one in expected for router in one.routers):
        return False
    offered = (
        demand.offered_pps * (one.setting.warmup_ns + one.setting.window_ns) * 1e-9
        for one in expected
        for demand in one.setting.demands
    )
    return sum(offered) < FEW_FRAMES


def _refuse_patterns(experiment: Experiment) -> None:
    for point in experiment.points():
        for router in point.routers:
            if router.pattern.frames:
                raise NotSupported(
                    f"router {router.group}: pattern {router.pattern} cannot be simulated, because "
                    "no profile says what such frames cost; run it live"
                )

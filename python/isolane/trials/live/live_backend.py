"""The live back end: it builds test beds on this host and carries out trials on them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

from isolane import _native
from isolane.errors import MeasurementError, NotSupported
from isolane.external.external_bed import ExternalBed
from isolane.results.results import HostFacts
from isolane.results.series import AFTER_NS
from isolane.spec import Arm, ArmRouter, Experiment, PointRouter, Policy
from isolane.spec.port_keys import port_keys
from isolane.spec.work_models import own_work
from isolane.testbed import (
    UML,
    BedPlan,
    DiskImage,
    Journal,
    Machine,
    RouterPlan,
    Testbed,
    WebPlan,
)
from isolane.trials.backend import KERNEL_OVERLOAD_PPS, Bench
from isolane.trials.live import guest_needs
from isolane.trials.live.bench import Equipment, LiveBench
from isolane.trials.live.cores import Cores, awake, divide, spared, staying_on
from isolane.trials.live.cpu_sampling import Asked, CpuSampling
from isolane.trials.live.generator_streams import flows_of
from isolane.trials.live.host import host_facts
from isolane.trials.live.host_check import check_host, externals
from isolane.trials.live.image_routers import answered
from isolane.trials.live.loaded import Loaded
from isolane.trials.live.managed import Managed, limits_own_wire, policy_of
from isolane.trials.live.measured_bed import MeasuredBed
from isolane.trials.live.measured_bench import CommonEquipment
from isolane.trials.live.stamped import Stamped, stamped
from isolane.trials.live.web_bench import WebBench
from isolane.trials.live.web_plans import web_plan

FLOOD_PPS = 5_000_000.0
"""More frames/s than one core sends."""


class LiveBackEnd:
    """Real frames on this host; see :class:`isolane.trials.backend.BackEnd`.

    Parameters
    ----------
    experiment
        The experiment to run.
    journal
        Journal of the test bed's changes, from :func:`isolane.testbed.exclusive`.
    """

    def __init__(self, experiment: Experiment, journal: Journal) -> None:
        self._experiment = experiment
        self._journal = journal
        self._cookie = secrets.randbelow(1 << 16)
        self._loaded = Loaded()

    def close(self) -> None:
        """Unload what stays loaded from one bench to the next."""
        self._loaded.close()

    def check(self, arms: Sequence[Arm]) -> None:
        """Raise NotSupported, naming everything that is missing."""
        check_host(self._experiment, arms)

    def host(self) -> HostFacts:
        """Describe this host."""
        return host_facts()

    def overload_pps(self, arm: Arm) -> float:
        """Return the highest load that capacity is measured with, frames/s."""
        reference = self._experiment.capacity_reference()
        traffic = self._experiment.traffic_of(reference.router)
        line_pps = traffic.line_rate_bps / traffic.wire_bps(1.0)
        # What an external router is made of, and how many cores it has, nobody knows.
        return min(FLOOD_PPS if arm.external else KERNEL_OVERLOAD_PPS, line_pps)

    def flood_pps(self) -> float:
        """Return a load that none sends; see :class:`isolane.trials.backend.WithGenerator`."""
        return FLOOD_PPS

    @contextmanager
    def bench(self, arm: Arm, routers: Sequence[PointRouter]) -> Iterator[Bench]:
        """Build a test bed and put generator, receiver and CPU accountant on it."""
        if arm.external:
            with self._external_bench(arm, routers) as bench:
                yield bench
            return
        arm = guest_needs.decided(arm)
        plans = tuple(
            replace(
                _router_plan(arm, r, web_plan(self._experiment, arm, r)),
                works=own_work(self._experiment.router(r.group).work),
                shaped=self._experiment.trial.stamps or limits_own_wire(arm.router(r.group)),
            )
            for r in routers
        )
        with self._bench(arm, routers, plans) as bench:
            yield bench

    @contextmanager
    def null_dut(self, arm: Arm, routers: Sequence[PointRouter]) -> Iterator[Bench]:
        """Build wires without routers; see :class:`isolane.trials.backend.WithNullDut`."""
        plans = tuple(RouterPlan(r.name, "container", "wire", _subnet(r)) for r in routers)
        bare = tuple(replace(r, kind="native", path="none", policy=None) for r in arm.routers)
        with self._bench(replace(arm, routers=bare), routers, plans) as bench:
            yield bench

    @contextmanager
    def _bench(
        self, arm: Arm, routers: Sequence[PointRouter], plans: tuple[RouterPlan, ...]
    ) -> Iterator[Bench]:
        cores = divide(arm.cores)
        plan = BedPlan(
            routers=plans,
            receive=arm.receive,
            moderation_ns=arm.moderation_ns,
            dut_cores=cores.dut,
            measure_cores=cores.measure,
            ip=self._experiment.traffic_of(routers[0].name).ip,
            uplink=arm.uplink,
            bridge_netfilter=arm.bridge_netfilter,
        )
        with awake(), staying_on(cores.measure), Testbed(plan, self._journal) as bed:
            if self._experiment.web:
                with self._web_bench(arm, routers, bed, cores) as web:
                    yield web
                return
            policy = policy_of(arm, routers, bed, cores, self._experiment.traffic.line_rate_bps)
            applied = None if policy is None else (bed, policy)
            with answered(bed), self._measuring(arm, routers, bed, cores, applied) as bench:
                yield bench

    @contextmanager
    def _web_bench(
        self, arm: Arm, routers: Sequence[PointRouter], bed: MeasuredBed, cores: Cores
    ) -> Iterator[Bench]:
        """Put clients and CPU accountant on a bed whose routers are load balancers."""
        try:
            accountant = self._loaded.accountant()
        except _native.UnsupportedError as error:
            raise NotSupported(f"not supported on this host: {error}") from error
        with Managed(None) as managed:
            sampling = self._sampling(bed, managed, cores)
            equipment = CommonEquipment(bed, accountant, cores, managed, sampling)
            yield WebBench(self._experiment, arm, routers, equipment)

    @contextmanager
    def _external_bench(self, arm: Arm, routers: Sequence[PointRouter]) -> Iterator[Bench]:
        """Put generator and receiver on the user's interfaces, and look that the routers answer."""
        cores = spared(arm.cores)
        with (
            awake(),
            staying_on(cores.measure),
            ExternalBed(externals(arm, routers), cores.measure) as bed,
            self._measuring(arm, routers, bed, cores, None) as bench,
        ):
            yield bench

    @contextmanager
    def _measuring(
        self,
        arm: Arm,
        routers: Sequence[PointRouter],
        bed: MeasuredBed,
        cores: Cores,
        applied: tuple[Testbed, Policy] | None,
    ) -> Iterator[Bench]:
        """Put generator, receiver and CPU accountant on a bed, and the policy that it has."""
        with ExitStack() as stack:
            try:
                accountant = self._loaded.accountant()
                receiver = stack.enter_context(closing(self._receiver(bed, routers)))
                points = self._stamped(bed, routers)
            except _native.UnsupportedError as error:
                raise NotSupported(f"not supported on this host: {error}") from error
            except _native.NativeError as error:
                raise MeasurementError(str(error)) from error
            if points is not None:
                stack.enter_context(closing(points))
            managed = stack.enter_context(Managed(applied))
            sampling = self._sampling(bed, managed, cores)
            common = (bed, accountant, cores, managed, sampling)
            equipment = Equipment(*common, receiver, self._loaded, self._cookie, points)
            yield LiveBench(self._experiment, arm, routers, equipment)

    def _sampling(self, bed: MeasuredBed, managed: Managed, cores: Cores) -> CpuSampling | None:
        """Make ready to sample the routers' cores, where the experiment asks for it."""
        asked = Asked(cores.dut, self._experiment.trial.cpu_profile)
        if not asked.rate_hz or not asked.cores:
            return None
        try:
            profiler = self._loaded.profiler(asked.cores, asked.rate_hz)
        except _native.UnsupportedError as error:
            raise NotSupported(f"not supported on this host: {error}") from error
        except _native.NativeError as error:
            raise MeasurementError(str(error)) from error
        return CpuSampling(bed, managed, profiler, asked)

    def _stamped(self, bed: MeasuredBed, routers: Sequence[PointRouter]) -> Stamped | None:
        """Put programs at the capture points of a bed, where the experiment asks for them."""
        trial = self._experiment.trial
        if not trial.stamps:
            return None
        each = [(r, self._experiment.traffic_of(r.name)) for r in routers]
        streams = [(r, flows_of(r.pattern, traffic.flows)) for r, traffic in each]
        return stamped(bed.capture_points, streams, self._cookie, captures=trial.capture)

    def _receiver(self, bed: MeasuredBed, routers: Sequence[PointRouter]) -> _native.Receiver:
        receiving = dict.fromkeys((wire.rcv_netns, wire.rcv_ifindex) for wire in bed.wires)
        interfaces = [_native.Interface(netns=netns, ifindex=index) for netns, index in receiving]
        flows = [self._experiment.traffic_of(router.name).flows for router in routers]
        plan = self._experiment.trial
        return _native.Receiver(
            interfaces=interfaces,
            cookie=self._cookie,
            flows=flows,
            series_ns=plan.warmup_ns + plan.duration_ns + AFTER_NS,
        )


def _subnet(router: PointRouter) -> str | None:
    return str(router.address) if router.address else None


def _router_plan(arm: Arm, router: PointRouter, web: WebPlan | None) -> RouterPlan:
    kind = arm.router(router.group)
    # refuse_simulated() has refused every other kind and path.
    assert kind.kind in ("native", "container", "vm")
    assert kind.path != "sriov"
    assert kind.path != "sriov-macvtap"
    assert kind.path != "sriov-passthrough"
    assert kind.path != "dom0"
    return RouterPlan(
        name=router.name,
        kind=kind.kind,
        path=kind.path,
        subnet=_subnet(router),
        machine=_machine(kind),
        port=port_keys(kind.policy, arm.uplink.scheduler) if kind.path == "netback" else {},
        mode=router.mode,
        services=kind.services,
        web=web,
    )


def _machine(router: ArmRouter) -> Machine:
    hypervisor, nic, image = router.live_hypervisor, router.live_nic, router.image
    if hypervisor is None:
        return UML  # of no meaning: it is no virtual machine
    assert hypervisor != "auto"
    assert nic in ("vector", "virtio", "e1000")
    disk = None
    if image is not None:
        disk = DiskImage(
            file=str(Path(image.file).absolute()),
            ingress=str(image.ingress) if image.ingress else None,
            egress=str(image.egress) if image.egress else None,
            cloud_init=image.cloud_init,
        )
    return Machine(hypervisor, nic, router.memory_mb, router.vcpus or 1, disk)

"""What all live benches have in common: a bed, the cores' accountant, and what they tell of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

from isolane import _native
from isolane.errors import MeasurementError
from isolane.procfs import core_ticks
from isolane.results.quality_models import CoreProbe
from isolane.results.results import Drawing, Edge, Node
from isolane.spec import Arm, ArmRouter, PointRouter
from isolane.trials.backend import Observation, Setting
from isolane.trials.live import cpu_accounting
from isolane.trials.live.cores import Cores
from isolane.trials.live.cpu_accounting import Accounts, CpuAccounting
from isolane.trials.live.cpu_agreement import Agreement, IdleReading, kernel_times_idle
from isolane.trials.live.cpu_sampling import CpuSampling
from isolane.trials.live.host import nic_facts
from isolane.trials.live.managed import Managed
from isolane.trials.live.measured_bed import MeasuredBed
from isolane.trials.live.speed_probe import probe


@dataclass(frozen=True)
class CommonEquipment:
    """What every bench needs; all of it outlives a trial."""

    bed: MeasuredBed
    accountant: _native.CpuAccountant
    cores: Cores
    managed: Managed
    """The policy that is applied on the bed, if any."""
    sampling: CpuSampling | None
    """None where no core is known to be the routers'."""


class MeasuredBench(ABC):
    """A built test bed; see :class:`isolane.trials.backend.Bench`."""

    def __init__(
        self, arm: Arm, routers: Sequence[PointRouter], equipment: CommonEquipment
    ) -> None:
        self._arm = arm
        self._kinds: dict[str, ArmRouter] = {r.name: arm.router(r.group) for r in routers}
        self._common = equipment
        names = [router.name for router in routers]
        self._accounts: Accounts = cpu_accounting.open_accounts(
            equipment.accountant, equipment.bed, names, equipment.managed
        )

    def trial(self, setting: Setting) -> Observation:
        """Carry out one trial; see :class:`isolane.trials.backend.Bench`."""
        try:
            return self._profiled(setting, self._trial(setting))
        except _native.NativeError as error:
            self._common.bed.check_alive()  # whatever failed, this would be why
            raise MeasurementError(str(error)) from error

    @abstractmethod
    def _trial(self, setting: Setting) -> Observation:
        """Carry out one trial."""

    def _profiled(self, setting: Setting, found: Observation) -> Observation:
        """Add the CPU profile of the window, where one was asked for."""
        sampling = self._common.sampling
        if sampling is None or not setting.cpu_profile:
            return found
        frames = {router.router: router.received_frames for router in found.routers}
        return replace(found, profile=sampling.taken(frames, found.cores))

    def probe(self) -> tuple[CoreProbe, ...]:
        """Probe the DUT's cores; see :class:`isolane.trials.backend.Probing`."""
        try:
            cores = self._common.cores
            return probe(cores.dut, generator=cores.measure[0])
        except (_native.NativeError, OSError) as error:
            raise MeasurementError(f"the DUT's cores could not be probed: {error}") from error

    def _watch(self, setting: Setting, window_ns: int) -> None:
        """Have the cores watched in the window that begins then."""
        end_ns = window_ns + setting.window_ns
        self._common.accountant.begin(start_ns=window_ns, end_ns=end_ns)
        if self._common.sampling is not None and setting.cpu_profile:
            self._common.sampling.begin(window_ns, end_ns)

    def _cpu(self, setting: Setting, before: IdleReading) -> tuple[CpuAccounting, Agreement]:
        """Read the CPU accountant, and what the kernel says of the same time."""
        tools, ticks = self._common, core_ticks()
        cores = 1 + max(before.ticks)  # some between may be offline
        after = IdleReading.take(tools.accountant, ticks)
        uses = tools.accountant.read(cores=cores)
        accounting = CpuAccounting(
            uses,
            self._accounts,
            tools.cores,
            setting.window_ns,
            (before.ticks, ticks),
            tools.accountant.poll_sums(),
        )
        events = tools.accountant.events(cores=cores)
        idle = (before, after) if kernel_times_idle() else None
        uncompared = tools.accountant.uncompared_ns(cores=cores)
        early = tools.accountant.early_ns(cores=cores)
        online = accounting.online
        audit = Agreement(uses, setting.window_ns, events, uncompared, early, idle, online)
        return accounting, audit

    def nics(self) -> tuple[dict[str, str], ...]:
        """Describe the DUT's receiving interfaces; see :class:`isolane.trials.backend.Bench`."""
        return tuple(nic_facts(netns, ifname) for netns, ifname in self._common.bed.nics)

    def drawing(self) -> Drawing:
        """Draw the set-up; see :class:`isolane.trials.backend.Bench`."""
        chosen = {name: self._common.managed.cores(name) for name in self._kinds}
        nodes, edges = self._common.bed.drawing({n: c for n, c in chosen.items() if c})
        return Drawing(
            arm=self._arm.name,
            nodes=tuple(Node(**vars(node)) for node in nodes),
            edges=tuple(Edge(**vars(edge)) for edge in edges),
        )

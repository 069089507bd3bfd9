"""A live bench: a test bed with generator, receiver and CPU accountant, and a trial on it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from isolane import _native
from isolane.errors import MeasurementError
from isolane.procfs import core_ticks
from isolane.run.backend import Observation, Setting
from isolane.run.live import cpu_accounting, frame_accounting, guest_needs
from isolane.run.live.cores import Cores
from isolane.run.live.cpu_accounting import Accounts, CpuAccounting
from isolane.run.live.cpu_agreement import Agreement, IdleReading, kernel_times_idle
from isolane.run.live.cpu_sampling import CpuSampling
from isolane.run.live.draining import QUIET_S, drained
from isolane.run.live.external_limits import external_limits
from isolane.run.live.generator_streams import trial_of
from isolane.run.live.host import nic_facts
from isolane.run.live.live_observation import Raw, came_in_window, observe
from isolane.run.live.loaded import Loaded
from isolane.run.live.managed import Managed
from isolane.run.live.measured_bed import MeasuredBed
from isolane.run.live.speed_probe import probe
from isolane.run.live.stamped import Stamped
from isolane.run.live.timed_changes import TimedChanges
from isolane.run.quality_models import CoreProbe
from isolane.run.results import Drawing, Edge, Node, NotMeasured
from isolane.run.series import RouterSeries, TrialSeries, bins_of, padded
from isolane.spec import Arm, ArmRouter, Experiment, PointRouter, format_ns
from isolane.testbed import Counters

LEAD_NS = 15_000_000
"""Time from the call to the first departure; the kernel takes some ms to set up the run."""
STUCK_S = 5.0
LATE_S = 2.0
"""How long to wait for frames that neither arrived nor were counted as lost."""
FAR_QUIET_S = 0.2
"""How long nothing may arrive any more before the rest is lost, where routers do not tell."""


@dataclass(frozen=True)
class Equipment:
    """The parts of a bench; all of them outlive a trial."""

    bed: MeasuredBed
    receiver: _native.Receiver
    accountant: _native.CpuAccountant
    loaded: Loaded
    """What outlives the bed, too: the accountant is from there."""
    cores: Cores
    cookie: int
    managed: Managed
    """The policy that is applied on the bed, if any."""
    points: Stamped | None = None
    """The capture points, where they are asked for."""
    sampling: CpuSampling | None = None
    """None where no core is known to be the routers'."""


class LiveBench:
    """A built test bed, ready for trials."""

    def __init__(
        self,
        experiment: Experiment,
        arm: Arm,
        routers: Sequence[PointRouter],
        equipment: Equipment,
    ) -> None:
        self._arm = arm
        self._kinds: dict[str, ArmRouter] = {r.name: arm.router(r.group) for r in routers}
        self._traffic = [experiment.traffic_of(router.name) for router in routers]
        self._equipment = equipment
        self._wants_parts = experiment.trial.capture_points
        self._changes = TimedChanges(arm, routers)
        names = [router.name for router in routers]
        self._accounts: Accounts = cpu_accounting.open_accounts(
            equipment.accountant, equipment.bed, names, equipment.managed
        )

    @property
    def equipment(self) -> Equipment:
        """What it works with."""
        return self._equipment

    def trial(self, setting: Setting) -> Observation:
        """Carry out one trial; see :class:`isolane.run.backend.Bench`."""
        try:
            return self._profiled(setting, self._trial(setting))
        except _native.NativeError as error:
            self._equipment.bed.check_alive()  # whatever failed, this would be why
            raise MeasurementError(str(error)) from error

    def _profiled(self, setting: Setting, found: Observation) -> Observation:
        """Add the CPU profile of the window, where one was asked for."""
        sampling = self._equipment.sampling
        if sampling is None or not setting.cpu_profile:
            return found
        frames = {router.router: router.received_frames for router in found.routers}
        return replace(found, profile=sampling.taken(frames, found.cores))

    def probe(self) -> tuple[CoreProbe, ...]:
        """Probe the DUT's cores; see :class:`isolane.run.backend.Probing`."""
        try:
            cores = self._equipment.cores
            return probe(cores.dut, generator=cores.measure[0])
        except (_native.NativeError, OSError) as error:
            raise MeasurementError(f"the DUT's cores could not be probed: {error}") from error

    def _trial(self, setting: Setting) -> Observation:
        tools = self._equipment
        wires = tools.bed.wires
        source = tools.loaded.generator(
            trial_of(
                setting,
                wires,
                self._traffic,
                core=tools.cores.measure[0],
                cookie=tools.cookie,
                bin_ns=tools.receiver.bin_ns(),
            )
        )
        tools.receiver.reset()
        if tools.points is not None:
            tools.points.reset()
        before, ticks = self._counters(), core_ticks()
        idle = IdleReading.take(tools.accountant, ticks)
        tools.bed.receive_often()
        self._send(source, setting)
        tools.bed.check_alive()
        report = source.report()
        counts, lost = self._drained(sum(sent.sent for sent in report.streams), before, setting)
        cpu, agreement = self._cpu(setting, idle)
        accounts = [
            frame_accounting.Account(
                demand.router.name,
                scheduled=sent.sent + sent.missed,
                sent=sent.sent,
                received=count.received - count.duplicated,
            )
            for demand, sent, count in zip(setting.demands, report.streams, counts, strict=True)
        ]
        at_receiver = [frame_accounting.receiver_lost(account, lost) for account in accounts]
        streams = [
            (i, sent, came_in_window(sent, count, gone))
            for i, (sent, count, gone) in enumerate(
                zip(report.streams, counts, at_receiver, strict=True)
            )
        ]
        raw = Raw(
            setting=setting,
            kinds=self._kinds,
            sent=report,
            received=counts,
            delays=[
                tools.receiver.delays(i, lost=max(0, sent.sent_window - came))
                for i, sent, came in streams
            ],
            due_delays=[
                tools.receiver.due_delays(
                    i, lost=max(0, sent.sent_window + sent.missed_window - came)
                )
                for i, sent, came in streams
            ],
            lost=frame_accounting.lost_frames(accounts, lost, tools.bed.untold),
            receiver_dropped=lost.receiver_dropped,
            at_receiver=at_receiver,
            cpu=cpu,
            agreement=agreement,
            series=self._series(source, setting),
            parts=tools.points.times() if tools.points is not None else {},
            receiver_pause_ns=tools.bed.receiver_moderation_ns,
        )
        return observe(raw)

    def _cpu(self, setting: Setting, before: IdleReading) -> tuple[CpuAccounting, Agreement]:
        """Read the CPU accountant, and what the kernel says of the same time."""
        tools, cores = self._equipment, len(before.ticks)
        ticks = core_ticks()
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
        return accounting, Agreement(uses, setting.window_ns, events, uncompared, early, idle)

    def _drained(
        self, sent: int, before: Counters, setting: Setting
    ) -> tuple[list[_native.StreamReceived], Counters]:
        """Read what arrived and what was lost, once all frames did either.

        Where the machine has just stopped a core of the DUT, the last ones are late, and would be
        taken for unaccounted.
        """
        limit, quiet_s = time.monotonic() + LATE_S, QUIET_S
        routers = [demand.router for demand in setting.demands]
        asked = {router.name for router in routers if "to-router" in router.pattern.frames}
        while True:
            counts = drained(self._equipment.receiver.counts, quiet_s)
            self._equipment.bed.receive_rarely()
            lost = (self._counters() - before).with_delivered(asked)
            found = sum(count.received - count.duplicated for count in counts) + lost.total
            if found >= sent or quiet_s == FAR_QUIET_S or time.monotonic() > limit:
                return counts, lost
            if self._equipment.bed.untold:  # nobody counts the rest: once more, and longer
                quiet_s = FAR_QUIET_S

    def _series(self, source: _native.Generator, setting: Setting) -> TrialSeries | None:
        """Read the time series; None where the trial is longer than the receiver's table."""
        receiver, sent = self._equipment.receiver, source.series()
        bin_ns = receiver.bin_ns()
        bins = bins_of(setting.warmup_ns, setting.window_ns, bin_ns)
        routers = []
        for i, demand in enumerate(setting.demands):
            received, delays = receiver.series(i)
            if len(received) < bins:
                return None
            routers.append(
                RouterSeries(
                    router=demand.router.name,
                    sent=padded(sent[i], bins),
                    received=tuple(received[:bins]),
                    delay_p99_ns=tuple(delays[:bins]),
                    gaps=tuple(receiver.gaps(i)),
                )
            )
        return TrialSeries(
            trial=0,
            bin_ns=bin_ns,
            warmup_ns=setting.warmup_ns,
            window_ns=setting.window_ns,
            routers=tuple(routers),
        )

    def _counters(self) -> Counters:
        """Read all loss counters, those of the policy included."""
        managed = self._equipment.managed
        counters = self._equipment.bed.counters().plus(managed.dropped())
        return replace(counters, passed_on=managed.passed_on())

    def _send(self, source: _native.Generator, setting: Setting) -> None:
        """Run the generator, before all that its core is wanted for; this thread included."""
        lead_ns = LEAD_NS + self._changes.lead_ns
        start_ns = _native.monotonic_ns() + lead_ns
        window_ns = start_ns + setting.warmup_ns
        self._changes.plan(start_ns - LEAD_NS, window_ns)
        end_ns = window_ns + setting.window_ns
        self._equipment.accountant.begin(start_ns=window_ns, end_ns=end_ns)
        if self._equipment.sampling is not None and setting.cpu_profile:
            self._equipment.sampling.begin(window_ns, end_ns)
        limit_s = (lead_ns + setting.warmup_ns + setting.window_ns) / 1e9 + STUCK_S
        self._equipment.receiver.begin(start_ns)
        try:
            # On wires that are not Isolane's, the kernel's threads may have to work on that core.
            source.start(start_ns, first=self._equipment.bed.own)
            finished = source.wait(limit_s)
        finally:
            source.stop()
        if not finished:
            raise MeasurementError(f"the generator had not finished after {limit_s:.1f} s")

    def limits(self) -> tuple[NotMeasured, ...]:
        """Return how exact the delays are; see :class:`isolane.run.backend.Bench`."""
        if self._arm.external:
            return external_limits(self._arm, stamped=self._wants_parts)
        pause = format_ns(self._equipment.bed.receiver_moderation_ns)
        return (
            *guest_needs.limits(self._arm),
            NotMeasured(
                what="Delays more exactly than the receiver polls",
                why=f"on {self._arm.name} it polls its interfaces every {pause} (and some tens of "
                "microseconds late in a virtual machine), so each delay is up to so much too long",
            ),
        )

    def nics(self) -> tuple[dict[str, str], ...]:
        """Describe the DUT's receiving interfaces; see :class:`isolane.run.backend.Bench`."""
        return tuple(nic_facts(netns, ifname) for netns, ifname in self._equipment.bed.nics)

    def drawing(self) -> Drawing:
        """Draw the set-up; see :class:`isolane.run.backend.Bench`."""
        chosen = {name: self._equipment.managed.cores(name) for name in self._kinds}
        nodes, edges = self._equipment.bed.drawing({n: c for n, c in chosen.items() if c})
        return Drawing(
            arm=self._arm.name,
            nodes=tuple(Node(**vars(node)) for node in nodes),
            edges=tuple(Edge(**vars(edge)) for edge in edges),
        )

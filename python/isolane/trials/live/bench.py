"""A live bench: a test bed with generator, receiver and CPU accountant, and a trial on it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress

from isolane import _native
from isolane.errors import MeasurementError
from isolane.procfs import core_ticks
from isolane.results.results import NotMeasured
from isolane.results.series import RouterSeries, TrialSeries, bins_of, padded
from isolane.spec import Arm, Experiment, PointRouter, format_ns
from isolane.testbed import Counters
from isolane.trials.backend import Observation, Setting
from isolane.trials.live import frame_accounting, guest_needs
from isolane.trials.live.bridge_limits import bridge_limits
from isolane.trials.live.cpu_agreement import IdleReading
from isolane.trials.live.draining import QUIET_S, drained
from isolane.trials.live.external_limits import external_limits
from isolane.trials.live.generator_streams import trial_of
from isolane.trials.live.live_observation import Raw, came_in_window, observe
from isolane.trials.live.loaded import Loaded
from isolane.trials.live.measured_bench import CommonEquipment, MeasuredBench
from isolane.trials.live.stamped import Stamped
from isolane.trials.live.timed_changes import TimedChanges
from isolane.trials.live.traffic import GRACE_S
from isolane.trials.live.trial_work import TrialWork

LEAD_NS = 15_000_000
"""Time from the call to the first departure; the kernel takes some ms to set up the run."""
LATE_S = 10.0
"""How long to wait for frames that neither arrived nor were counted as lost."""
FAR_QUIET_S = 0.2
"""How long nothing may arrive any more before the rest is lost, where routers do not tell."""


@dataclass(frozen=True)
class Equipment(CommonEquipment):
    """The parts of a bench; all of them outlive a trial."""

    receiver: _native.Receiver
    loaded: Loaded
    """What outlives the bed, too: the accountant is from there."""
    cookie: int
    points: Stamped | None = None
    """The capture points, where they are asked for."""


class LiveBench(MeasuredBench):
    """A built test bed, ready for trials."""

    def __init__(
        self,
        experiment: Experiment,
        arm: Arm,
        routers: Sequence[PointRouter],
        equipment: Equipment,
    ) -> None:
        super().__init__(arm, routers, equipment)
        self._traffic = [experiment.traffic_of(router.name) for router in routers]
        self._equipment = equipment
        self._plan = experiment.trial
        self._changes = TimedChanges(arm, routers)

    @property
    def equipment(self) -> Equipment:
        """What it works with."""
        return self._equipment

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
            tools.points.reset(captures=setting.capture)
        before, ticks = self._counters(), core_ticks()
        idle = IdleReading.take(tools.accountant, ticks)
        tools.bed.receive_often()
        routers = [demand.router for demand in setting.demands]
        work = TrialWork(tools.bed, routers, setting.window_ns)
        with work.going_on():
            self._send(source, setting, work)
        tools.bed.check_alive()
        report = source.report()
        counts, lost = self._drained([sent.sent for sent in report.streams], before, setting)
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
        return self._captured(observe(raw), setting)

    def _captured(self, found: Observation, setting: Setting) -> Observation:
        """Add the frames that were at the capture points, where they are kept."""
        points = self._equipment.points
        loads = (f"{each.router.name} {each.offered_pps:g} pps" for each in setting.demands)
        about = f"arm {self._arm.name}: {', '.join(loads)}"
        return found if points is None else replace(found, capture=points.capture_file(about))

    def _drained(
        self, sent: Sequence[int], before: Counters, setting: Setting
    ) -> tuple[list[_native.StreamReceived], Counters]:
        """Read what arrived and what was lost, once all frames did either.

        Where the machine has just stopped a core of the DUT, the last ones are late, and would be
        taken for unaccounted. What is missing of routers that do not tell is not waited for long.
        """
        limit, quiet_s = time.monotonic() + LATE_S, QUIET_S
        untold = self._equipment.bed.untold
        told = [demand.router.name not in untold for demand in setting.demands]
        routers = [demand.router for demand in setting.demands]
        asked = {router.name for router in routers if "to-router" in router.pattern.frames}
        while True:
            late = time.monotonic() > limit  # what is read from then on is the last reading
            counts = drained(self._equipment.receiver.counts, quiet_s)
            self._equipment.bed.receive_rarely()
            lost = (self._counters() - before).with_delivered(asked)
            came = [count.received - count.duplicated for count in counts]
            if late or sum(came) + lost.total >= sum(sent):
                return counts, lost
            if quiet_s == FAR_QUIET_S and _of(came, told) + lost.total >= _of(sent, told):
                return counts, lost
            if untold:  # nobody counts the rest: once more, and longer
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

    def _send(self, source: _native.Generator, setting: Setting, work: TrialWork) -> None:
        """Run the generator, before all that its core is wanted for; this thread included."""
        lead_ns = LEAD_NS + self._changes.lead_ns + work.lead_ns
        start_ns = _native.monotonic_ns() + lead_ns
        window_ns = start_ns + setting.warmup_ns
        work.plan(start_ns, window_ns, by_ns=start_ns - LEAD_NS)
        self._changes.plan(start_ns - LEAD_NS, window_ns)
        self._watch(setting, window_ns)
        limit_s = (lead_ns + setting.warmup_ns + setting.window_ns) / 1e9 + GRACE_S
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
        """Return how exact the delays are; see :class:`isolane.trials.backend.Bench`."""
        if self._arm.external:
            return external_limits(self._arm, self._plan)
        pause = format_ns(self._equipment.bed.receiver_moderation_ns)
        return (
            *guest_needs.limits(self._arm),
            *bridge_limits(self._arm, self._traffic[0].ip),
            NotMeasured(
                what="Delays more exactly than the receiver polls",
                why=f"on {self._arm.name} it polls its interfaces every {pause} (and some tens of "
                "microseconds late in a virtual machine), so each delay is up to so much too long",
            ),
        )


def _of(frames: Sequence[int], those: Sequence[bool]) -> int:
    return sum(compress(frames, those))

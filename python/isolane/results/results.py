"""The result format: one model for what is on disk, in tables and in reports.

A run folder holds ``trials.jsonl`` (one :class:`Trial` a line, written and synced as soon as the
trial ends), ``trials.parquet`` (one row per trial and router), ``summary.json``
(:class:`Summary`), ``host.json`` (:class:`HostFacts`) and the experiment as it was given.
"""

from __future__ import annotations

from typing import Literal, get_args

from isolane.results.aggregate_models import Aggregate as Aggregate  # noqa: PLC0414 - of a summary
from isolane.results.arm_test_models import ArmTests
from isolane.results.cpu_results import CoreAudit, CpuPart, GuestCpu
from isolane.results.cpu_results import CoreCell as CoreCell  # noqa: PLC0414 - a part of a summary
from isolane.results.cpu_results import CorePart as CorePart  # noqa: PLC0414 - the same
from isolane.results.cpu_results import CoreTrial as CoreTrial  # noqa: PLC0414 - a part of a trial
from isolane.results.delays import HELD_UP_NS
from isolane.results.delays import Delay as Delay  # noqa: PLC0414 - a part of a trial
from isolane.results.delays import GeneratorAudit as GeneratorAudit  # noqa: PLC0414 - of a trial
from isolane.results.delays import Lateness as Lateness  # noqa: PLC0414 - the same
from isolane.results.delays import NullDut as NullDut  # noqa: PLC0414 - a part of a summary
from isolane.results.generator_models import GeneratorMaximum, MovedPoint
from isolane.results.host_models import HostFacts as HostFacts  # noqa: PLC0414 - in a folder, too
from isolane.results.interval import Interval as Interval  # noqa: PLC0414 - a part of a summary
from isolane.results.invalid import InvalidKind
from isolane.results.missing import MissingPoint
from isolane.results.objective_models import ObjectiveFinding
from isolane.results.parts import PartCell, PartTime
from isolane.results.priming import Priming
from isolane.results.profile_models import ArmProfile
from isolane.results.published_models import PublishedCell as PublishedCell  # noqa: PLC0414 - of it
from isolane.results.quality_models import CoreProbe, Quality
from isolane.results.quality_models import NotMeasured as NotMeasured  # noqa: PLC0414 - of a summary
from isolane.results.setup_drawing import Drawing as Drawing  # noqa: PLC0414 - a part of a summary
from isolane.results.setup_drawing import Edge as Edge  # noqa: PLC0414 - the same
from isolane.results.setup_drawing import Node as Node  # noqa: PLC0414 - the same
from isolane.results.steady_models import Gaps, Unsteady, WindowShift
from isolane.results.verdict_models import Answer as Answer  # noqa: PLC0414 - a part of a summary
from isolane.results.verdict_models import ArmVerdict as ArmVerdict  # noqa: PLC0414 - the same
from isolane.results.verdict_models import Finding as Finding  # noqa: PLC0414 - the same
from isolane.results.verdict_models import Verdict as Verdict  # noqa: PLC0414 - the same
from isolane.results.web_results import WebTrial
from isolane.spec.fields import Mode
from isolane.spec.work_models import NO_WORK, Work
from isolane.stored_model import StoredModel, former

Status = Literal["ok", "no-verdict", "failed"]
Purpose = Literal["capacity", "measure", "twin", "search", "null-dut", "generator"]
"""``search``: of a search; ``null-dut``: one without a router, the floor of the delays;
``generator``: a flood, which tells what can be sent; ``twin``: of an older version, in no figure
(the second copy of an arm)."""
DropPoint = Literal[
    "generator",
    "nic_queue",
    "router_queue",
    "no_route",
    "unanswered",
    "egress",
    "in_router",
    "unaccounted",
]
"""``unanswered``: reached a router that was to answer them, mostly to find its socket full.
``in_router``: in or behind a router that does not tell Isolane where it drops frames."""

DROP_POINTS: tuple[DropPoint, ...] = get_args(DropPoint)
"""Where a frame can be lost, in the order in which a frame passes them."""


class RouterTrial(StoredModel):
    """What one router did in one trial.

    ``*_frames`` count the frames that departed inside the measuring window, and
    ``received_frames`` the window's part of ``receiver_lost`` as well; ``*_total`` and
    ``lost`` count the whole trial with its warm-up, because only there does the
    frame accounting come out even: ``offered_total = received_total + sum(lost.values())``, with
    duplicates left out.
    """

    router: str
    group: str
    role: Literal["victim", "aggressor", "router"]
    kind: str
    path: str
    load_x: float | None
    """Offered load as a multiple of the measured capacity; None without a capacity."""
    offered_pps: float
    """What the generator was asked for."""
    generated_pps: float
    """What it sent."""
    received_pps: float
    offered_frames: int
    generated_frames: int
    received_frames: int
    offered_total: int
    received_total: int
    """Without what the receiver's wires dropped, which is part of ``lost`` at ``egress``."""
    lost: dict[DropPoint, int]
    loss_ratio: float | None
    """1 - received/generated in the window; None when nothing was generated."""
    delay: Delay | None
    """Since the frame was written; ``lost`` are frames that left and never arrived."""
    reordered: int
    duplicated: int
    cpu_ns: int | None
    """Own CPU time in the window, ns: what ran in the router's own threads and polls; None where it
    has neither. (Older: also the NIC's of a router alone on a shared path.)"""
    cpu_share: float | None
    """``cpu_ns`` over the window times the number of DUT cores, 0 to 1."""
    cpu_ns_per_frame: float | None
    cpu_reason: str | None
    """Why the CPU figures are None."""
    cpu_parts: dict[CpuPart, int] | None = None
    """CPU time that this router caused in the window, ns, by why it was spent; None in older runs,
    which did not tell."""
    cpu_guest: dict[GuestCpu, int] | None = None
    """``cpu_ns`` of a virtual machine by what it was for, ns; None for others, with too many of
    them, and from older versions."""
    cpu_caused_ns: int | None = None
    """Sum of ``cpu_parts``."""
    cpu_caused_share: float | None = None
    """``cpu_caused_ns`` over the window times the number of DUT cores, 0 to 1."""
    cpu_caused_ns_per_frame: float | None = None
    """``cpu_caused_ns`` over the received frames in the window, so drops make it larger."""
    due_delay: Delay | None = None
    """Since the frame was due: ``lost`` are also those that the generator missed. It cannot be
    shortened by a generator that waits (coordinated omission). None from older versions."""
    lateness: Lateness | None = None
    """None for a router that was offered nothing, and from older versions."""
    intended_pps: float | None = None
    """What the experiment asks for, where that is more than can be sent; None: `offered_pps`."""
    pattern: str = "constant"
    """When its frames were sent, and what was unusual about them."""
    work: Work = NO_WORK
    mode: Mode = "forward"
    """Where it answered its frames, delays are round-trip times, and answers are received."""
    receiver_lost: int | None = None
    """Forwarded, and then dropped by the receiver's full wires, in all; None: not told."""
    parts: tuple[PartTime, ...] | None = None
    """How long its frames took on each part of their way; None where that was not asked for."""
    negative_delays: int = 0
    """Frames that arrived before they were written: the clocks differ. In no percentile."""
    window_shift: WindowShift | None = None
    gaps: Gaps | None = None
    """The shift is None in short windows, gaps are without frames and in simulations."""
    hypervisor: str | None = None
    """What ran it with real frames, if it is a virtual machine: its figures are no other's."""
    nic: str | None = None
    """NIC model of that virtual machine; None from older versions."""
    web: WebTrial | None = None
    """Of a load balancer, whose requests stand for frames in all other fields: ``received_pps``
    are answers that were complete within the window, ``lost`` is what failed."""

    @property
    def closed(self) -> bool:
        """Whether it was asked in a closed loop, so that `offered_pps` is an outcome."""
        return self.web is not None and self.web.closed

    @property
    def asked_pps(self) -> float:
        """What it was to be offered; 0 of a closed loop, where nobody says how much that is."""
        return 0.0 if self.closed else self.offered_pps

    @property
    def held_up(self) -> bool:
        """Whether what the generator missed is gone in a few stalls, and the others were on time.

        Then somebody else had its core, which is noise as on the DUT's cores; else it was at its
        limit. False where an older version did not keep its lateness.
        """
        return self.lateness is not None and self.lateness.p50_ns < HELD_UP_NS


class Placement(StoredModel):
    """Whether receive processing ran on the DUT's cores and nowhere else."""

    polls_on_dut: int
    polls_elsewhere: int
    frames_on_dut: int
    frames_elsewhere: int
    ok: bool


class Trial(StoredModel):
    """One run at one setting."""

    trial: int
    """Number in order of execution, from 0."""
    arm: str
    point: int
    point_label: str
    repeat: int
    """Round, from 0; all arms and points of a round come before the next round."""
    invocation: int = 0
    """Which of the run's invocations the round belongs to, from 0. 0 in folders of method 1."""
    purpose: Purpose = "measure"
    started_unix_s: float
    window_s: float
    status: Status
    reason: str | None
    """Why a trial failed, gives no verdict, or tells no delays; else None."""
    conserved: bool
    routers: tuple[RouterTrial, ...] = ()
    cores: tuple[CoreTrial, ...] = ()
    generator: GeneratorAudit | None = None
    placement: Placement | None = None
    attempt: int = 0
    """How many attempts at this trial were invalid before; they stand before it."""
    probe: tuple[CoreProbe, ...] = ()
    """The DUT's cores just before the trial; empty where there was no probe."""
    invalid: tuple[InvalidKind, ...] | None = None
    """Kinds of the invalid reasons; None where an older version did not keep them."""
    cpu_audit: tuple[CoreAudit, ...] = ()
    """How far the CPU figures agree with the kernel's, by core; empty where none were measured."""
    receiver_dropped: int = 0
    """Frames of all routers that were forwarded and found the receiver's wires full, in the whole
    trial; part of ``lost`` at ``egress``. 0 from older versions."""
    priming: Priming | None = None
    """What its warm-up began with."""


class Cell(StoredModel):
    """One router at one point in one arm, over the repeats."""

    arm: str
    point: int
    point_label: str
    router: str
    group: str
    role: str
    load_x: float | None
    offered_pps: Interval
    throughput_pps: Interval
    throughput_x: Interval | None
    """Throughput over the capacity measured in this run."""
    loss_ratio: Interval | None
    delay_p50_ns: Interval | None
    delay_p99_ns: Interval | None
    """Percentiles are infinite where more frames were lost than they leave out."""
    delay_max_ns: Interval | None
    """The maximum over the repeats (as ``median`` and ``high``), of the frames that arrived."""
    cpu_share: Interval | None
    cpu_ns_per_frame: Interval | None
    retained: Interval | None
    """Victims: throughput over that at the point where the aggressors offer least, paired."""
    delay_inflation: Interval | None
    """Victims: p99 delay over that at the same reference point; infinite where this p99 is, and
    None where the reference's is."""
    share_error: Interval | None
    """Share of forwarded frames minus the fair (demand-limited, by weight) one, in pp."""
    lost: dict[DropPoint, float]
    """Mean frames per trial lost at each drop point."""
    generated_pps: Interval | None = None
    """What the generator really sent of the offered load."""
    delay_p90_ns: Interval | None = None
    delay_p999_ns: Interval | None = None
    delay_p9999_ns: Interval | None = None
    offered_total: float = 0.0
    """Mean frames per trial offered over the whole trial: what `lost` is a part of."""
    reordered: float = 0.0
    """Mean frames per trial."""
    duplicated: float = 0.0
    """Mean frames per trial."""
    aggressor_x: float | None = None
    """Offered load of all aggressors at this point together, in capacities; None without any."""
    aggressor_pps: float | None = None
    """The same in frames per second."""
    working: int = 0
    """Aggressors at this point that worked besides."""
    delivered: Interval | None = None
    """Received over generated frames in the window; None where there were none, or before
    method 2."""
    reference: int | None = None
    """Victims: the point that it is compared with; None without one, or before method 2."""
    retained_reason: str | None = None
    """Why `retained` and `delay_inflation` are refused though there is a reference point."""
    cpu_caused_share: Interval | None = None
    """All CPU time that the router caused, over the window times the number of DUT cores."""
    cpu_caused_ns_per_frame: Interval | None = None
    """The same over the received frames."""
    arrived_p50_ns: Interval | None = None
    """Median delay of the frames that arrived."""
    due_p50_ns: Interval | None = None
    """Delay since the frames were due."""
    due_p99_ns: Interval | None = None
    due_max_ns: Interval | None = None
    lateness_p50_ns: Interval | None = None
    lateness_p99_ns: Interval | None = None
    negative_delays: float = 0.0
    """Mean frames per trial."""
    mode: Mode = "forward"
    """Whether it passed its frames on, or answered them: then delays are round-trip times."""
    parts: tuple[PartCell, ...] = ()
    object_bytes: int | None = None
    """Of a load balancer: what it was asked for."""
    closed: bool = False
    """Whether so many requests were always under way: `offered_pps` is what was asked then."""
    content_bps: Interval | None = None
    """Content of its answers that were complete in the window, bit/s, without headers."""

    @property
    def attack(self) -> tuple[int, float]:
        """How heavy the attack is: how many aggressors work besides, then their load."""
        return self.working, self.aggressor_pps or 0.0


class Capacity(StoredModel):
    """What 1x is: the maximum forwarding rate (RFC 2285, 3.6.2) of one router; method 1: FRMOL."""

    arm: str
    router: str
    pps: Interval
    source: str | None = None
    """The run or rate that it was taken from (``--capacity-from``); None: measured in this run."""
    at_least: bool = False
    """Whether the generator could not overload the router: it forwards so much or more."""


class ArmCapacity(StoredModel):
    """What one router alone forwards in one arm, found from below (RFC 2285, 3.6)."""

    arm: str
    router: str
    mfr_pps: Interval
    """Maximum forwarding rate (3.6.2): over fresh trials at the best load, `mfr_load_pps`."""
    mfr_load_pps: float
    frmol_pps: float
    """Forwarding rate at maximum offered load (3.6.1), median."""
    max_load_pps: float
    """The maximum offered load: the most that the generator could send, or the line carries."""
    at_least: bool
    """Whether even the maximum offered load did not overload the router: MFR is a lower bound."""
    trials: int


class Summary(StoredModel):
    """Everything that the table and the report show."""

    _former = former("twins")

    isolane: str
    """Version of Isolane."""
    name: str
    title: str
    description: str
    started_unix_s: float
    finished_unix_s: float
    complete: bool
    """False for an interrupted run."""
    verdict: Verdict
    capacity: Capacity | None
    cells: tuple[Cell, ...]
    cores: tuple[CoreCell, ...]
    published: tuple[PublishedCell, ...]
    published_source: str | None
    drawings: tuple[Drawing, ...]
    not_measured: tuple[NotMeasured, ...]
    told_by_beds: tuple[NotMeasured, ...] = ()
    """Those of them that come from beds: a resumed run may build none that tells them again."""
    trials: int
    trials_failed: int
    trials_without_verdict: int
    trials_repeated: int = 0
    """Of those without verdict: how many were made again with one."""
    trials_disturbed: int = 0
    """Valid trials in which others had more than a little of a DUT core; all figures have them."""
    aggregates: tuple[Aggregate, ...] = ()
    simulated: str | None = None
    """Profile of the simulated host that this is a prediction for; None for measurements."""
    arms: tuple[str, ...] = ()
    """Names of the arms that were asked for, in the order of the experiment."""
    capacities: tuple[ArmCapacity, ...] = ()
    """By arm; empty where no load needed it, 1x was given, or an older version did not say."""
    missing: tuple[MissingPoint, ...] | None = None
    """Points that were asked for and gave nothing; None where an older version did not say."""
    null_dut: tuple[NullDut, ...] = ()
    """The floor of the delays; empty where it was not asked for, for a simulation, and from older
    versions."""
    method: int = 1
    """Version of the method (:mod:`isolane.results.method`); an older version did not write it."""
    quality: Quality | None = None
    """Lost trials and drift; None where an older version did not work them out."""
    unsteady: tuple[Unsteady, ...] | None = None
    """Where the warm-up was too short; None where an older version did not look."""
    generator: GeneratorMaximum | None = None
    """None where the generator has no maximum, as in a simulation, and from older versions."""
    moved: tuple[MovedPoint, ...] = ()
    answer: Answer | None = None
    """None where an older version did not work it out."""
    objectives: tuple[ObjectiveFinding, ...] = ()
    """What became of the experiment's objectives, arm by arm."""
    arm_tests: ArmTests | None = None
    """None with one arm and one load, and from older versions."""
    cpu_profiles: tuple[ArmProfile, ...] = ()
    """By arm and point; empty where none were asked for, and from older versions."""

"""The data of an experiment file; each value is checked by itself.

How the values fit together is checked in :mod:`isolane.spec.checks`; the class to use is
:class:`isolane.spec.experiment.Experiment`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    StrictBool,
    WithJsonSchema,
)

from isolane.spec import fields as f
from isolane.spec.base import SpecModel
from isolane.spec.external_models import External
from isolane.spec.image_models import FileName, ImageValue, MemoryMb, Vcpus
from isolane.spec.objectives import ObjectiveValue
from isolane.spec.patterns import PLAIN, PatternValues
from isolane.spec.policy_models import PolicyKeys
from isolane.spec.quantities import Quantity, read_quantity
from isolane.spec.schedulers import EarlyDropWord, SchedulerWord, Switch
from isolane.spec.services_models import Services
from isolane.spec.trial_models import TrialPlan
from isolane.spec.units import Load, wire_bps
from isolane.spec.web_models import DEFAULT_OBJECT_BYTES, ObjectSizes
from isolane.spec.work_models import NO_WORK, WorkValues

DEFAULT_MODERATION_NS: Final = 50_000
IMIX: Final = ((64, 7), (594, 4), (1518, 1))
"""Simple IMIX: frame sizes with the checksum, bytes, and how many of each in twelve frames."""


MIN_FRAME_BYTES: Final = {4: 64, 6: 84}
"""Shortest frame that holds headers and the 18-byte signature, by IP version (RFC 5180, 5.1.1)."""


class Dut(SpecModel):
    """The device under test: what the routers share."""

    cores: f.Cores = 1
    """Host cores that the routers share."""
    receive: f.ReceiveWord = "softirq"
    """Where frames are processed: in the softirq of the NIC's core, or in kernel threads."""
    moderation_ns: f.Moderation | None = Field(default=None, alias="moderation")
    """Interrupt moderation of the DUT's NICs, 5us to 1ms; default 50us."""
    bridge_netfilter: Switch | None = None
    """Whether bridges hand their frames to netfilter (br_netfilter); default: as on this host."""


class Traffic(SpecModel):
    """The traffic that is sent to each router."""

    frame_size: f.FrameSize = 64
    """Ethernet frame size with the 4-byte checksum, bytes, or imix; IPv6 needs at least 84."""
    ip: f.IpVersion = 4
    """IP version, the same for all routers."""
    flows: f.Flows = 100
    """UDP flows of each router."""
    line_rate_bps: f.LineRate = Field(default=10e9, alias="line_rate")
    """Rate of every wire; an offered load above it is an error."""
    mode: f.ModeWord = "forward"
    """What becomes of a frame: the router passes it on (forward), or answers it: a UDP server that
    Isolane starts in the router (echo), or the router's kernel (icmp-echo, as ping does). Delays
    are round-trip times then. http: web requests in place of frames, through HAProxy in the router,
    to a web server behind it."""
    object_bytes: ObjectSizes = Field(default=(DEFAULT_OBJECT_BYTES,), alias="object")
    """In mode http: size of what a request asks for, 0B to 16MiB; a list sweeps it."""
    keep_alive: StrictBool = False
    """In mode http: many requests on a connection; else each has one of its own."""

    def frame_sizes(self) -> tuple[tuple[int, int], ...]:
        """Return the frame sizes (bytes with checksum) and their weights."""
        if self.frame_size == "imix":
            min_bytes = MIN_FRAME_BYTES[self.ip]
            return tuple((max(size, min_bytes), weight) for size, weight in IMIX)
        return ((int(self.frame_size), 1),)

    @property
    def mean_frame_bytes(self) -> float:
        """Mean frame size with the 4-byte checksum, bytes."""
        sizes = self.frame_sizes()
        return sum(size * weight for size, weight in sizes) / sum(weight for _, weight in sizes)

    def wire_bps(self, rate_pps: float) -> float:
        """Return what a packet rate of this traffic takes on the line, bit/s."""
        return wire_bps(rate_pps, self.mean_frame_bytes)


class TrafficOverride(SpecModel):
    """Keys that differ from ``traffic`` for one router."""

    frame_size: f.FrameSize | None = None
    """Ethernet frame size with the 4-byte checksum, bytes, or imix."""
    flows: f.Flows | None = None
    """UDP flows of the router."""
    mode: f.ModeWord | None = None
    """Whether it forwards its frames or answers them."""
    object_bytes: ObjectSizes | None = Field(default=None, alias="object")
    """In mode http: size of what a request asks for; a list sweeps it."""
    keep_alive: StrictBool | None = None
    """In mode http: whether a connection takes many requests."""
    pattern: PatternValues = (PLAIN,)
    """When its frames are sent: poisson, bursts (such as bursts 1ms/4ms), ramp, from (such as from
    2s: none before that time of the window); and what they are:
    new-flows (each frame is of a flow of its own), fragments (the first ones of datagrams without a
    rest), ttl-expired, no-route, to-router (for the router itself). Several with + between them, or
    nothing unusual: constant. A list sweeps it."""


class Router(SpecModel):
    """A virtual router, or a group of equal ones."""

    name: f.RouterName
    """Name; the members of a group are called name-1, name-2 and so on."""
    kind: f.KindWord = "container"
    """Kind: a container (its own network namespace), a virtual machine, native (the host), or
    external: a router that is there already, on this host or another machine."""
    path: f.PathWord | None = None
    """How frames get from the NIC to the router and back; none for native and external ones."""
    nic: f.NicWord | None = None
    """NIC model of a virtual machine; default: virtio, with passthrough vfio, with uml vector."""
    hypervisor: f.HypervisorWord | None = None
    """What runs a virtual machine: kvm, uml (User-Mode Linux), tcg (QEMU's emulation), or auto,
    the default: live kvm where it works, else uml; simulated kvm."""
    role: f.RoleWord = "router"
    """victim: its service is watched; aggressor: it is overloaded."""
    count: f.Counts = (1,)
    """Number of routers in this group; a list sweeps it."""
    traffic: TrafficOverride | None = None
    """Keys that differ from the experiment's traffic."""
    address: f.Subnet | None = None
    """Ingress subnet; further members of a group get the subnets that follow it."""
    policy: PolicyKeys | None = None
    """Its policy on path isolane; on direct cpu_weight and cores; of a virtual machine on other
    paths cpu_weight, cpu_max, cores and what its link keeps. Each member of a group has it by
    itself."""
    image: ImageValue | None = None
    """A disk image (qcow2) that a virtual machine starts from, in place of Isolane's own guest."""
    memory: MemoryMb | None = None
    """Memory of a virtual machine; default: what Isolane's own guest needs, with an image 512MB."""
    vcpus: Vcpus | None = None
    """Virtual CPUs of a virtual machine under kvm or tcg; default 1."""
    services: Services | None = None
    """Of a container: what it does with each frame besides passing it on."""
    work: WorkValues = (NO_WORK,)
    """What a program in it does besides: none, cpu (it takes all of its core that it can get, in
    trials only), or of a virtual machine disk (it reads its disk). A list sweeps it."""
    work_from_ns: f.WindowTime | None = Field(default=None, alias="work_from")
    """When the work begins, from the start of the measuring window; default: with the frames."""
    work_until_ns: f.WindowTime | None = Field(default=None, alias="work_until")
    """When it stops; default: with the frames."""
    external: External | None = None
    """Of an external router: the interfaces that lead to it, and its addresses there."""
    haproxy: FileName | None = None
    """With mode http: a configuration for HAProxy in it; default: the one that is shipped."""

    @property
    def works_in_part(self) -> bool:
        """Whether it works in a part of the window."""
        return (self.work_from_ns, self.work_until_ns) != (None, None)

    def member_names(self, count: int | None = None) -> tuple[str, ...]:
        """Return the names of the members when there are ``count`` (default: the largest count)."""
        largest = max(self.count)
        if self.count == (1,):
            return (self.name,)
        return tuple(f"{self.name}-{i + 1}" for i in range(largest if count is None else count))


def _few_changes(value: object) -> object:
    return f.check_length(value, 1000, shortest=0)


class TimedChange(SpecModel):
    """Shares that change while a trial runs."""

    at_ns: f.Warmup = Field(alias="at")
    """When, from the start of the measuring window, 0ms to 10min."""
    policy: dict[f.RouterName, PolicyKeys] = Field(min_length=1)
    """By router: keys that change then: link_weight, priority, rate_min, rate_max."""


class ArmChange(SpecModel):
    """One of the variants that the experiment compares: what it changes for all routers."""

    name: f.ArmName
    """Name of the arm."""
    path: f.PathWord | None = None
    """Path of all routers but native ones."""
    receive: f.ReceiveWord | None = None
    """Receive processing, instead of the DUT's."""
    moderation_ns: f.Moderation | None = Field(default=None, alias="moderation")
    """Interrupt moderation, instead of the DUT's."""
    bridge_netfilter: Switch | None = None
    """Whether bridges hand their frames to netfilter, instead of the DUT's."""
    kind: f.KindWord | None = None
    """Kind of all routers; with native and external they have no path."""
    cores: f.Cores | None = None
    """Number of DUT cores, instead of the DUT's."""
    nic: f.NicWord | None = None
    """NIC model of all virtual machines."""
    hypervisor: f.HypervisorWord | None = None
    """What runs all virtual machines."""
    image: ImageValue | None = None
    """What all virtual machines start from."""
    memory: MemoryMb | None = None
    """Memory of all virtual machines."""
    vcpus: Vcpus | None = None
    """Virtual CPUs of all virtual machines."""
    scheduler: SchedulerWord | None = None
    """On path netback: the packet scheduler that decides whose frame is sent next; default: drr."""
    uplink_rate: f.LineRate | None = None
    """Rate of the link that guests share, on path netback (default: what the NIC takes), and on
    bridge and macvtap where a policy shares it out (default: traffic.line_rate)."""
    uplink_burst: f.LinkBurst | None = None
    """On path netback: what the link takes ahead of its rate, as time, 1ms to 1s; default: 4ms."""
    back_pressure: Switch | None = None
    """On path netback: whether frames wait while the link takes none (on, the default), or are lost
    then (off)."""
    early_drop: EarlyDropWord | None = None
    """On path netback: where frames that a guest has no space for are dropped before they are
    copied: driver (default), socket, off."""
    changes: Annotated[tuple[TimedChange, ...], BeforeValidator(_few_changes)] = ()
    """On path netback: shares that change while a trial runs, one after the other."""
    policy: dict[f.RouterName, PolicyKeys] | None = None
    """By router: keys of its policy that this arm changes. On path direct, and of a virtual
    machine, an arm's policy makes it a managed one."""
    services: dict[f.RouterName, Services] | None = None
    """By router: what it does with each frame in this arm, in place of its own services."""
    external: dict[f.RouterName, External] | None = None
    """By router: where it is in this arm, if it is external."""
    haproxy: FileName | None = None
    """A configuration for HAProxy in all load balancers."""


class CapacityChoice(SpecModel):
    """The capacity, 1x, is that of one router alone, in one arm."""

    arm: f.ArmName | None = None
    """Name of the arm; default: the first."""
    router: f.RouterName | None = None
    """Name of the router; default: the first."""
    every_arm: StrictBool = True
    """Whether the capacity of the other arms is measured, too, which takes some seconds each."""


PublishedQuantity = Annotated[
    Quantity,
    PlainValidator(read_quantity),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["400kpps", "0.27x", "61%", "85us"]}),
]
Metric = Literal["throughput", "loss", "cpu", "cpu-kernel", "cpu-user", "delay"]


class PublishedRow(SpecModel):
    """One published figure; its arm may be one that this experiment does not have."""

    arm: f.ArmName
    """Arm of this experiment to compare it with, or any other name."""
    load: dict[str, f.Rate]
    """Offered load by router."""
    router: f.ArmName
    """Router (or group, then the sum) that the figure is about; total for all."""
    count: f.RouterCount | None = None
    """Number of routers, where the experiment sweeps it."""
    metric: Metric
    """The measured quantity."""
    value: PublishedQuantity | None = None
    """The figure; leave it out if no number was published."""
    note: f.ShortText = ""
    """A note on the figure for the reader."""


class Published(SpecModel):
    """Figures of a publication, shown beside the measured ones."""

    source: f.ShortText
    """The publication, and the table or figure in it."""
    capacity: f.Rate
    """The capacity, 1x, in the publication."""
    figure: f.ShortText | None = None
    """Number of the figure or table, in quotes."""
    rows: tuple[PublishedRow, ...] = ()
    """The figures."""

    def share(self, rate: Load | Quantity, mean_frame_bytes: float = 64.0) -> float:
        """Return a published rate as a multiple of the published capacity (dimensionless)."""
        load = rate if isinstance(rate, Load) else rate.as_load()
        if load.unit == "x":
            return load.value
        return load.to_pps(None, mean_frame_bytes) / self.capacity.to_pps(None, mean_frame_bytes)


class NotRunnable(SpecModel):
    """A host on which the experiment would not measure what it says."""

    host_cores_below: f.Cores
    """Not runnable on hosts with fewer cores than this."""
    why: f.ShortText
    """The reason, as a sentence."""


def _some_routers(value: object) -> object:
    return f.check_length(value, f.MAX_ROUTERS)


def _few_arms(value: object) -> object:
    return f.check_length(value, 64, shortest=0)


def _title(data: dict[str, Any]) -> str:
    return str(data.get("name", ""))


class ExperimentData(SpecModel):
    """An experiment: what is compared, with which load, how often."""

    isolane: f.Version
    """Version of the format: 1."""
    name: f.Slug
    """Name; the run folder is called after it."""
    title: f.ShortText = Field(default_factory=_title)
    """Heading of the report; default: the name."""
    description: f.LongText = ""
    """The question that the experiment answers, and how."""
    dut: Dut = Dut()
    """The device under test."""
    traffic: Traffic = Traffic()
    """Traffic of all routers."""
    routers: Annotated[tuple[Router, ...], BeforeValidator(_some_routers)]
    """The routers, or groups of equal ones."""
    load: dict[str, f.OfferedLoads]
    """Offered load by router (of a group: in total); all lists advance together, point by point."""
    arms: Annotated[tuple[ArmChange, ...], BeforeValidator(_few_arms)] = ()
    """The variants to compare; default: one, named after the path."""
    capacity: CapacityChoice | None = None
    """Arm and router that define 1x; default: the first router alone in the first arm."""
    trial: TrialPlan = TrialPlan()
    """How long and how often."""
    published: Published | None = None
    """Published figures to compare with."""
    objectives: Annotated[tuple[ObjectiveValue, ...], BeforeValidator(_few_arms)] = ()
    """What is to be reached, such as victim p99 <= 2x alone; a run that misses one ends with exit
    status 4."""
    not_runnable: NotRunnable | None = None
    """Hosts on which the experiment cannot be run."""

    def router(self, name: str) -> Router:
        """Return the group that ``name`` (of the group, or of a member) belongs to.

        Raises
        ------
        KeyError
            If there is no such router.
        """
        for router in self.routers:
            if name == router.name or name in router.member_names():
                return router
        raise KeyError(name)

    def traffic_of(self, router: str) -> Traffic:
        """Return the traffic of a router (group or member): the defaults with its overrides."""
        override = self.router(router).traffic
        if override is None:
            return self.traffic
        given = {name: getattr(override, name) for name in type(override).model_fields}
        changes = {k: v for k, v in given.items() if v is not None and k != "pattern"}
        return self.traffic.model_copy(update=changes)

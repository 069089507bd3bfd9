"""From an arm, its routers and their load to the model that the simulator runs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from isolane.enforce.cpu_cgroups import shares_of
from isolane.enforce.policy_plan import FEEDER_NICE, NIC_NICE
from isolane.results.series import BIN_NS
from isolane.spec import WIRE_OVERHEAD_BYTES, Arm, ArmRouter, Experiment, PointRouter
from isolane.spec.hostmodel import ContextKind, PathData, QueueSize
from isolane.trials.backend import Setting
from isolane.trials.sim import simulation as to
from isolane.trials.sim import uplink
from isolane.trials.sim.answering_paths import SERVER
from isolane.trials.sim.catalogue import SimHost
from isolane.trials.sim.segments import Segment, segments
from isolane.trials.sim.simulated_cores import core as simulated_core
from isolane.trials.sim.simulated_cores import of_policy
from isolane.trials.sim.simulated_policy import Managed, managed
from isolane.trials.sim.simulated_traffic import traffic
from isolane.trials.sim.simulated_work import add_work
from isolane.trials.sim.web_requests import ANSWER_NS, KERNEL, PEER, Peers

DRAIN_NS = 100_000_000
"""After the last frame was sent: whatever is in a queue then leaves it, or never will."""

MAX_BINS = 4096
"""In a router's time series; each takes up to 2 KiB while a trial is simulated."""


@dataclass(frozen=True)
class SimModel:
    """A model, and what its names mean."""

    host: SimHost
    arm: Arm
    simulation: to.Simulation
    segments: Mapping[str, Segment]
    owners: Mapping[str, str | None]
    """Context -> router; None for what serves several."""
    scheduled: Sequence[str] = ()
    """Stages behind the scheduler of an uplink."""
    servers: Sequence[str] = ()
    """Stages that answer, behind a socket each."""

    @property
    def json(self) -> dict[str, Any]:
        """The model as it is handed to the simulator; a new object each time."""
        return self.simulation.written()


def build(
    host: SimHost,
    experiment: Experiment,
    arm: Arm,
    routers: Sequence[PointRouter],
    setting: Setting,
) -> SimModel:
    """Return the model of one trial.

    Parameters
    ----------
    host
        Profile and paths.
    experiment
        Traffic and seed.
    arm, routers
        What is simulated.
    setting
        Offered loads and times.
    """
    line_bps = int(experiment.traffic.line_rate_bps)
    bytes_each = experiment.traffic_of(routers[0].name).mean_frame_bytes + WIRE_OVERHEAD_BYTES
    policy = managed(arm, routers, line_bps)
    parts = _Parts(host, arm, tuple(routers), policy, line_bps, bytes_each)
    for number, router in enumerate(routers):
        parts.add_router(router, number)
    xen = any(arm.router(router.group).kind == "xen" for router in routers)
    cfs = host.profile.host.scheduler == "cfs"
    beats = policy.beats_ns(arm, setting.demands, cfs=cfs)
    end_ns = setting.warmup_ns + setting.window_ns
    offered = traffic(experiment, setting, peers_of(host), end_ns)
    simulation = to.Simulation(
        seed=seed_of(experiment.trial.seed, setting.label),
        duration_ns=end_ns + drain_ns(routers) + parts.backlog_ns(offered),
        warm_up_ns=setting.warmup_ns,
        window_end_ns=end_ns,
        bin_ns=_bin_ns(end_ns),
        softirq=_softirq(host),
        cores=tuple(
            simulated_core(host, i, xen=xen, beat_ns=beats.get(i)) for i in range(arm.cores)
        ),
        groups=tuple(parts.groups),
        contexts=tuple(parts.contexts.values()),
        nics=tuple(parts.nics.values()),
        ports=tuple(parts.ports),
        stages=tuple(parts.stages),
        routers=tuple(parts.routers),
        traffic=offered,
        changes=tuple(
            change
            for stage in parts.scheduled
            for change in uplink.changes(arm, parts.served, stage, setting.warmup_ns)
        ),
    )
    cores = {r.name: f"cpu{parts.core(r, number)}" for number, r in enumerate(routers)}
    simulation, working = add_work(simulation, host, arm, setting, cores.__getitem__)
    owners = parts.owners | working
    return SimModel(host, arm, simulation, parts.segments, owners, parts.scheduled, parts.servers)


def peers_of(host: SimHost) -> Peers:
    """Return clients and web servers; without costs of theirs they are never busy."""
    cost = host.profile.costs.get(PEER)
    wait_ns = round(host.profile.host.peer_ns)
    return Peers(wait_ns, cost.frame_ns, cost.byte_ns) if cost else Peers(wait_ns, 0.0, 0.0)


def drain_ns(routers: Sequence[PointRouter]) -> int:
    """Return how long what was sent in the window may take to arrive, ns."""
    return ANSWER_NS if any(router.mode == "http" for router in routers) else DRAIN_NS


def _bin_ns(end_ns: int) -> int:
    """Return the width of a bin of the time series, ns: a very long trial has wide ones."""
    width_ns = BIN_NS
    while end_ns > MAX_BINS * width_ns:
        width_ns *= 2
    return width_ns


def seed_of(seed: int, label: str) -> int:
    """Return the seed of one trial: the same whatever was simulated before it."""
    digest = hashlib.blake2b(f"{seed}/{label}".encode(), digest_size=6).digest()
    return int.from_bytes(digest, "big")


def _softirq(host: SimHost) -> to.SoftirqRules | to.CurrentSoftirqRules:
    linux = host.profile.host
    if linux.kernel == "linux-6":
        # From 4.9 to 6.4 interrupts left softirqs to ksoftirqd; EEVDF came with 6.6.
        return to.CurrentSoftirqRules(defer_to_ksoftirqd=linux.scheduler == "cfs")
    # Linux 3.2 runs ten rounds whoever waits, and on every interrupt again.
    return to.SoftirqRules(restart_time_ns=None, stop_for_threads=False, defer_to_ksoftirqd=False)


@dataclass
class _Parts:
    """A model in the making: what routers that came so far need."""

    host: SimHost
    arm: Arm
    all_routers: tuple[PointRouter, ...]
    policy: Managed
    line_bps: int
    wire_bytes: float
    """What a frame takes of the line in the mean; of the first router, where they differ."""
    groups: list[to.Group] = field(default_factory=list)
    contexts: dict[str, to.Context] = field(default_factory=dict)
    nics: dict[str, to.Nic] = field(default_factory=dict)
    ports: list[to.Port] = field(default_factory=list)
    stages: list[to.Stage] = field(default_factory=list)
    routers: list[to.Router] = field(default_factory=list)
    segments: dict[str, Segment] = field(default_factory=dict)
    owners: dict[str, str | None] = field(default_factory=dict)
    cores: dict[str, str] = field(default_factory=dict)
    """Ring -> the core that serves it."""
    scheduled: list[str] = field(default_factory=list)
    """Stages behind the scheduler of an uplink."""
    servers: list[str] = field(default_factory=list)
    """Stages that answer, behind a socket each."""
    of_arm: dict[str, ArmRouter] = field(default_factory=dict)
    """Router -> what it is in this arm."""

    @property
    def served(self) -> list[PointRouter]:
        """The routers that the network back-end works for."""
        return [r for r in self.all_routers if self.arm.router(r.group).path == "netback"]

    def backlog_ns(self, traffic: Sequence[to.Traffic]) -> int:
        """Return how long all that may wait for a back-end's link needs at most, ns."""
        sizes = [entry.frame_bytes for entry in traffic]
        longest = max((s if isinstance(s, int) else max(s) for s in sizes), default=0)
        queues = [stage.queue for stage in self.stages if stage.name in self.scheduled]
        frames = [a.capacity for queue in queues if queue for a in queue.admission or ()]
        rates = uplink.rates_bps(self.arm, self.served, self.line_bps)
        each_ns = 8e9 * (longest + WIRE_OVERHEAD_BYTES)
        return round(each_ns * sum(n / rate for n, rate in zip(frames, rates, strict=True)))

    def add_router(self, router: PointRouter, number: int) -> None:
        """Add a router with all that is on its path and is not there yet."""
        of_arm = self.of_arm[router.name] = self.arm.router(router.group)
        filtered = self.arm.bridge_netfilter
        path = self.host.path_of(of_arm, router.mode, filtered=filtered)
        wire = of_arm.wire if of_arm.shares_wire else f"{of_arm.path}:{router.name}"
        core = f"cpu{self.core(router, number)}"
        ring = f"{wire}/{path.ring}" if path.ring == "port" else f"{wire}/{router.name}"
        self._add_wire(wire, of_arm.path)
        # Whoever polls a ring that is shared stays on the core of the first router behind it.
        shared = path.stages[path.first].context in _ON_THE_FIRST_CORE
        polled_on = self._add_ring(wire, ring, path, "cpu0" if shared else core)
        paths = {router.name: path}
        if router.mode == "http":
            paths[router.name + KERNEL] = self.host.path_of(
                of_arm, router.mode, in_kernel=True, filtered=filtered
            )
        for name, of_turns in paths.items():
            passed = [ring]
            for segment in segments(of_turns, router.name, wire, link=self.policy.shares_link()):
                if segment.name not in self.segments:
                    on = polled_on if segment.context in {"softirq", *_ON_THE_FIRST_CORE} else core
                    self._add_stage(segment, ring, on, first=len(passed) == 1)
                passed.append(segment.name)
                if segment.context == SERVER and router.answers:
                    self.servers.append(segment.name)
            self.routers.append(to.Router(name, (*passed, f"{wire}/out")))

    def core(self, router: PointRouter, number: int) -> int:
        """Return the core of a router: behind a wire that others share the first, as live."""
        if self.arm.router(router.group).path in _BY_ONE_QUEUE:
            return self.policy.core(router.name, 0)
        return self.policy.core(router.name, number)

    def _add_wire(self, wire: str, path: str) -> None:
        if wire in self.nics:
            return
        host = self.host.profile.host
        self.nics[wire] = to.Nic(wire, self.line_bps, int(host.wire_ns), rings=())
        out = f"{wire}/out"
        if path == "netback":
            link = uplink.link(out, self.arm, self.line_bps, host.egress_frames, self.wire_bytes)
            self.ports.append(link)
            return
        port = to.Port(out, self.line_bps, host.egress_frames)
        self.ports.append(self.policy.shaped(port) if path == "isolane" else port)

    def _add_ring(self, wire: str, name: str, path: PathData, core: str) -> str:
        """Add the ring unless it is there; return the core that serves it."""
        if name not in self.cores:
            size = self.host.profile.rings[path.ring]
            given = self.arm.moderation_given
            ring = to.Ring(
                name=name,
                capacity=size.capacity,
                refill=size.refill,
                moderation_ns=self.arm.moderation_ns if given else int(size.moderation_ns),
                irq_ns=size.irq_ns,
                timer=True if size.timer else None,
            )
            nic = self.nics[wire]
            self.nics[wire] = replace(nic, rings=(*nic.rings, ring))
            self.cores[name] = core
        return self.cores[name]

    def _add_stage(self, segment: Segment, ring: str, core: str, *, first: bool) -> None:
        costs_of = self.host.profile.costs
        costs = [costs_of[cost] for _, stage in segment.stages for cost in stage.cost]
        head = segment.stages[0][1]
        context = self._add_context(segment, ring, core)
        polled = first or head.queue is not None
        drop_ns = None if head.drop is None else sum(costs_of[cost].frame_ns for cost in head.drop)
        self.stages.append(
            to.Stage(
                name=segment.name,
                context=context,
                frame_ns=sum(cost.frame_ns for cost in costs),
                byte_ns=sum(cost.byte_ns for cost in costs),
                cold_ns=sum(cost.cold_ns for cost in costs),
                drop_ns=drop_ns,
                mode=head.mode,
                ring=ring if first else None,
                queue=None if head.queue is None else self._queue(segment, head.queue, context),
                poll_ns=sum(cost.poll_ns for cost in costs) if polled else None,
            )
        )
        self.segments[segment.name] = segment

    def _queue(self, segment: Segment, name: str, context: str) -> to.Queue:
        size = self.host.profile.queues[name]
        if segment.stages[0][1].scheduler:
            return self._scheduled_queue(segment, size)
        router = segment.router
        managed = name == "router" and router and self.policy.weight(router) is not None
        admission = self.policy.queue_admission(router, context) if router and managed else None
        shared = f"{context}/{name}" if size.shared else None
        return to.Queue(
            size.capacity, size.notify_ns, shared, None if admission is None else (admission,)
        )

    def _scheduled_queue(self, segment: Segment, size: QueueSize) -> to.Queue:
        """Return the queues that routers send by, which wait for the uplink's scheduler.

        Each is its router's own, whatever the scheduler: `fifo` has one queue for all.
        """
        self.scheduled.append(segment.name)
        return to.Queue(
            size.capacity * len(self.served),
            size.notify_ns,
            scheduler=uplink.packet_scheduler(self.arm, self.served),
            back_pressure="on" if self.arm.uplink.back_pressure else None,
            admission=tuple(
                to.QueueAdmission(router.name, size.capacity, burst=size.capacity)
                for router in self.served
            ),
        )

    def _add_context(self, segment: Segment, ring: str, core: str) -> str:
        """Return the name of the context that a segment runs in; it is added if it is new."""
        kind, router = segment.context, segment.router
        managed = router is not None and self.policy.weight(router) is not None
        threaded = kind == "softirq" and (self.arm.receive == "threaded" or managed)
        name = {
            "softirq": f"napi/{ring}" if threaded else f"softirq/{core}",
            "nic": f"nic/{ring}",
            "back-end": f"back-end/{ring}",
            "dom0": "dom0",
        }.get(kind, f"{kind}/{router}")
        if name in self.contexts:
            return name
        managed_thread = managed and (kind == "thread" or threaded)
        grouped = router is not None and (kind == "process" or managed_thread)
        if router is not None and grouped and router not in {group.name for group in self.groups}:
            self.groups.append(to.Group(router, shares_of(self.of_arm[router].cpu_weight)))
        guest = kind in {"process", "domain"}
        feeder = managed_thread and router is not None and self.of_arm[router].kind == "vm"
        host = self.host.profile.host
        context = to.Context(
            name=name,
            kind="thread" if threaded else _KINDS[segment.context],
            cores=("cpu0" if kind == "dom0" else core,),
            wake_ns=host.wake_ns if guest else None,
            exit_ns=host.exit_ns if guest else None,
            cold_ns=host.cold_ns if guest else None,
            wake_mode="hypervisor" if guest else None,
            nice=NIC_NICE if kind == "nic" else FEEDER_NICE if feeder else None,
            whole_polls=True if threaded or kind == "nic" or managed_thread else None,
            group=router if grouped else None,
        )
        if managed_thread or kind == "nic":
            own_wire = router is not None and not self.of_arm[router].shares_wire and not feeder
            context = of_policy(self.host, context, own_wire=own_wire)
        if kind == "process" and router is not None and self.of_arm[router].policy is not None:
            context = of_policy(self.host, context, own_wire=False)
        self.contexts[name] = context
        shared = kind in {"softirq", "nic", "back-end", "dom0"}
        self.owners[name] = None if shared and not threaded else router
        return name


_ON_THE_FIRST_CORE = ("nic", "back-end")
"""Contexts that a live test bed has on the first of the DUT's cores."""
_BY_ONE_QUEUE = ("bridge", "macvlan", "macvtap")
"""Paths of wires that routers share: a live NIC has one queue there, so all are on one core."""
_KINDS: Mapping[ContextKind, Literal["softirq", "thread", "process", "vcpu"]] = {
    "softirq": "softirq",
    "nic": "thread",
    "back-end": "thread",
    "thread": "thread",
    "server": "process",
    "process": "process",
    "domain": "vcpu",
    "dom0": "vcpu",
}

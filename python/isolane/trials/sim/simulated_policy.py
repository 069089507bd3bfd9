"""Paths ``isolane`` and ``direct``: what a policy makes of the model.

Queue limits, rates and classes are worked out by the code of `isolane apply`
(:mod:`isolane.enforce.fair_share`, :mod:`isolane.enforce.kernel_settings`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from isolane.enforce import htb
from isolane.enforce.fair_share import Link, wants_link
from isolane.enforce.kernel_settings import (
    MIN_CLASS_RATE,
    class_settings,
    limits,
    queue_limits,
)
from isolane.errors import NotSupported
from isolane.spec import (
    WIRE_OVERHEAD_BYTES,
    Arm,
    ArmRouter,
    NicEntry,
    PointRouter,
    Policy,
    build_policy,
)
from isolane.spec.demands import Demand
from isolane.spec.policy_models import OWN
from isolane.spec.port_keys import without_port_keys
from isolane.spec.work_models import NO_WORK
from isolane.trials.sim.simulated_cores import BEAT_NS, MACHINE_BEAT_NS, SAMPLE_NS
from isolane.trials.sim.simulation import (
    FlowSettings,
    PacketScheduler,
    Port,
    PortAdmission,
    QueueAdmission,
)

_NICS: Final = ("in", "out")
_NIC_CORE: Final = 0
"""The core of the thread that polls a NIC which routers share."""


@dataclass(frozen=True)
class Managed:
    """The policy of an arm's routers, as the simulator is told."""

    policy: Policy | None
    """None where no router is under a policy."""
    line_bps: int
    cores: int

    def shares_link(self) -> bool:
        """Tell whether the link has classes."""
        policy = self.policy
        return policy is not None and any(map(wants_link, policy.routers.values()))

    def beats_ns(self, arm: Arm, demands: Sequence[Demand], *, cfs: bool) -> Mapping[int, int]:
        """Return how often the pacemaker takes a core for a moment, by core, ns.

        Beside a program it does so for all routers that it works for, less often for virtual
        machines, else for routers on wires of their own: a NIC's thread wakes up as often by
        itself.

        Parameters
        ----------
        demands
            What all routers are offered, in their order, and which of them work.
        cfs
            Whether the host has CFS, under which who wakes goes first: only routers that compete
            need beats.
        """
        competing, machines, served, beside = Counter[int](), set[int](), set[int](), set[int]()
        for number, demand in enumerate(demands):
            router = demand.router
            core = self.core(router.name, number)
            if router.work != NO_WORK:
                beside.add(core)
            of_arm = arm.router(router.group)
            managed = of_arm.kind == "vm" and of_arm.policy is not None
            if managed and demand.offered_pps > 0 and router.work == NO_WORK:
                machines.add(core)
            if demand.offered_pps == 0 or self.weight(router.name) is None:
                continue
            served.add(core)
            if of_arm.shares_wire:
                served.add(_NIC_CORE)
            else:
                competing[core] += 1
        beats = {core: BEAT_NS for core, routers in competing.items() if routers > 1}
        if not cfs:
            beats |= dict.fromkeys(served & beside, BEAT_NS)
            beats = dict.fromkeys(machines & beside, MACHINE_BEAT_NS) | beats
            beats = dict.fromkeys(competing, SAMPLE_NS) | beats
        return beats

    def core(self, router: str, number: int) -> int:
        """Return the core of the router's thread: one of its own, in turn."""
        if self.policy is None or router not in self.policy.routers:
            return number % self.cores
        mine = self.policy.routers[router].cores
        return mine[number % len(mine)]

    def weight(self, router: str) -> int | None:
        """Return the CPU weight of a router; None if no policy is on the way of its frames."""
        if self.policy is None or router not in self.policy.routers:
            return None
        mine = self.policy.routers[router]
        return mine.cpu_weight if mine.interfaces else None

    def queue_admission(self, router: str, context: str) -> QueueAdmission | None:
        """Return what a router's frames must keep to get into its queue; None: nothing.

        Parameters
        ----------
        router
            Its name.
        context
            The thread that serves the queue.
        """
        policy = self._policy()
        mine = policy.routers[router]
        if OWN in mine.interfaces.values():
            return None
        queue = queue_limits(policy, router, policy.routers)
        ingress = limits(mine.rate_max.ingress, mine.burst)
        frames, bits = ingress.frames, ingress.bits
        return QueueAdmission(
            router=router,
            capacity=queue.limit,
            burst=queue.burst_limit,
            rate_pps=frames.rate or None,
            burst_frames=frames.depth if frames.rate else None,
            rate_bps=bits.rate or None,
            burst_bytes=bits.depth // 8 if bits.rate else None,
            context=context if mine.cpu_max else None,
            cpu_pct=mine.cpu_max or None,
        )

    def shaped(self, port: Port) -> Port:
        """Return the port under the policy: with classes of the link, and rates in frames."""
        policy = self._policy()
        link = Link("out", round(self.line_bps / 8), tuple(policy.routers))
        classes = {name: class_settings(mine, link) for name, mine in policy.routers.items()}
        shared = self.shares_link()
        admission = []
        for name, mine in policy.routers.items():
            frames = limits(mine.rate_max.egress, mine.burst, bits=False).frames
            admission.append(
                PortAdmission(
                    router=name,
                    rate_pps=frames.rate or None,
                    burst_frames=frames.depth if frames.rate else None,
                    capacity=htb.leaf_frames(classes[name].ceil) if shared else None,
                )
            )
        if not shared:
            return replace(port, admission=tuple(admission))
        scheduler = PacketScheduler(
            kind="hierarchical",
            quantum_bytes=htb.QUANTUM,
            overhead_bytes=WIRE_OVERHEAD_BYTES,
            settings=tuple(
                _class(name, settings, policy.routers[name].link_weight, link.rate)
                for name, settings in classes.items()
            ),
        )
        capacity = htb.leaf_frames(link.rate)
        return replace(port, capacity=capacity, scheduler=scheduler, admission=tuple(admission))

    def _policy(self) -> Policy:
        if self.policy is None:
            raise RuntimeError("asked of a model without a policy")
        return self.policy


def managed(arm: Arm, routers: Sequence[PointRouter], line_bps: int) -> Managed:
    """Return the policy of the routers that have one."""
    entries = {}
    for router in routers:
        of_arm = arm.router(router.group)
        values = of_arm.policy
        if values is not None and of_arm.path == "netback":
            values = without_port_keys(values)  # which the uplink's scheduler keeps
        if values is not None:
            mine = values.on(range(arm.cores))
            entries[router.name] = mine.in_netns(router.name, _leaves_by(of_arm))
    if not entries:
        return Managed(None, line_bps, arm.cores)
    nics = dict.fromkeys(_NICS, NicEntry.model_construct(rate_bps=float(line_bps)))
    policy = build_policy("simulated", nics, entries, f"arm {arm.name}")
    return Managed(policy, line_bps, arm.cores)


def _leaves_by(router: ArmRouter) -> dict[str, str]:
    """Return where a router's frames lead to; empty for a machine on a wire that nobody manages."""
    if router.path == "isolane":
        return {nic: nic for nic in _NICS}
    return {} if router.shares_wire else {"in": OWN}


def check(arm: Arm) -> None:
    """Raise NotSupported, naming the key, if the simulator cannot do what a policy asks."""
    for router in arm.routers:
        policy = router.policy
        if policy is None:
            continue
        subject = f"arm {arm.name}: policy of {router.group}"
        if policy.forward == "xdp":
            raise NotSupported(
                f"{subject}: forward: xdp cannot be simulated: no profile has its costs; "
                "forward: kernel can"
            )
        if policy.cpu_max is not None and router.kind == "vm":
            raise NotSupported(
                f"{subject}: cpu_max of a virtual machine cannot be simulated: the model of the "
                "CPU scheduler has no caps"
            )
        asked = policy.asks_for_frames() if router.path not in ("isolane", "netback") else ()
        if asked:
            raise NotSupported(
                f"{subject}: {asked[0]} on path {router.path} cannot be simulated: the model has "
                "classes of a link on path isolane only"
            )
        if policy.burst is not None and policy.rate_min is not None:
            raise NotSupported(
                f"{subject}: burst cannot be simulated beside rate_min, whose bursts the model of "
                "the link does not know"
            )


def _class(name: str, settings: htb.ClassSettings, weight: int, link_rate: int) -> FlowSettings:
    """Return a class of HTB as the hierarchical scheduler has it; rates from bytes/s to bit/s."""
    rate, ceil = settings.rate, settings.ceil
    limited = ceil < link_rate
    return FlowSettings(
        flow=name,
        weight=weight,
        priority=settings.prio,
        rate_min_bps=rate * 8 if rate > MIN_CLASS_RATE else None,
        rate_max_bps=ceil * 8 if limited else None,
        burst_bytes=htb.burst_bytes(ceil) if limited else None,
    )

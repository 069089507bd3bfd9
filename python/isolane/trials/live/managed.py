"""The routers of a test bed under a policy, put there as on any other host."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from types import TracebackType
from typing import Self

from isolane import _native
from isolane.errors import MeasurementError
from isolane.spec import Arm, ArmRouter, NicEntry, PointRouter, Policy, build_policy
from isolane.spec.policy_models import OWN
from isolane.spec.port_keys import without_port_keys
from isolane.testbed import POLICY_NICS, SENDING_NICS, Testbed
from isolane.trials.live.cores import Cores
from isolane.trials.live.testbed_policy import enforcer


def policy_of(
    arm: Arm, routers: Sequence[PointRouter], bed: Testbed, cores: Cores, line_rate_bps: float
) -> Policy | None:
    """Return the policy of a test bed's routers; None when none of them has one."""
    entries = {}
    linked = _linked(arm, routers)
    for router in routers:
        values = arm.router(router.group).policy
        if values is None:
            continue
        kind = arm.router(router.group)
        if kind.path == "netback":  # the back-end has its ports, and the host no interfaces
            values, leaves_by = without_port_keys(values), {}
        else:
            leaves_by = _leaves_by(kind, linked, *bed.inner_interfaces[router.name])
        mine = values.on(cores.dut)
        guest = bed.guest_processes.get(router.name)
        entries[router.name] = (
            mine.in_netns(f"isolane-{router.name}", leaves_by)
            if guest is None
            else mine.of_process(
                guest, leaves_by, bed.sending_macs[router.name] if kind.path in linked else None
            )
        )
    if not entries:
        return None
    nic = NicEntry.model_construct(rate_bps=float(round(line_rate_bps)), cores=cores.dut[:1])
    shared = any(router.path == "isolane" for router in arm.routers)
    nics = dict.fromkeys(POLICY_NICS, nic) if shared else {}
    # What these machines receive comes as without a policy; what they send has classes of the link.
    rate_bps = arm.uplink.rate_bps or nic.rate_bps
    link = NicEntry.model_construct(rate_bps=rate_bps, steer="none")
    nics |= {SENDING_NICS[path]: link for path in linked}
    return build_policy("testbed", nics, entries, f"arm {arm.name}")


def _linked(arm: Arm, routers: Sequence[PointRouter]) -> frozenset[str]:
    """Return the paths on which machines share the link behind a wire that nobody manages."""
    kinds = [arm.router(router.group) for router in routers]
    return frozenset(kind.path for kind in kinds if kind.shares_link)


def limits_own_wire(router: ArmRouter) -> bool:
    """Tell whether a policy limits what a machine sends by a wire that it has to itself."""
    policy = router.policy
    return router.path == "tap" and policy is not None and policy.rate_max.egress is not None


def _leaves_by(
    router: ArmRouter, linked: Collection[str], inside: str, outside: str
) -> dict[str, str]:
    """Return the interfaces of a router that its policy looks after, and where they lead to."""
    if router.path == "isolane":
        return {inside: POLICY_NICS[0], outside: POLICY_NICS[1]}
    # With a wire of its own nothing is to be done on the way out but to limit it: whoever forwards
    # sends. On a wire that others share unmanaged, only the guest's processes are the policy's, and
    # its class of the link.
    if router.path in linked:
        return {outside: SENDING_NICS[router.path]}
    if router.shares_wire:
        return {}
    return {inside: OWN, **({outside: OWN} if limits_own_wire(router) else {})}


class Managed:
    """A policy in force on a test bed, from entry to exit.

    Parameters
    ----------
    applied
        The test bed and its policy; None where there is none: then nothing happens.
    """

    def __init__(self, applied: tuple[Testbed, Policy] | None) -> None:
        self._applied = applied
        self._plane: _native.Plane | None = None
        self._slots: dict[str, list[int]] = {}
        self._ports: dict[str, list[int]] = {}
        self._onward: dict[str, tuple[int | None, int]] = {}
        """Router -> the port of what it passes on, and before it the queue of what it receives,
        where XDP sends frames on without that port."""
        self.threads: dict[str, list[int]] = {}
        """Router -> kernel threads that work for it."""
        self.nic_threads: list[int] = []
        """Threads of the NICs: the demultiplexer's work, nobody's in particular."""
        self.pacemaker_threads: list[int] = []
        """Threads of the pacemaker, which works for all routers, too."""

    def __enter__(self) -> Self:
        if self._applied is not None:
            try:
                self._put_in_force(*self._applied)
            except BaseException:  # a signal, too: what was put in force so far is taken back
                self.__exit__(None, None, None)
                raise
        return self

    def _put_in_force(self, bed: Testbed, policy: Policy) -> None:
        hand = enforcer()
        bed.stop_polling()
        hand.apply(policy)
        bed.start_polling()
        self.threads = hand.threads()
        self.nic_threads = hand.nic_threads()
        self.pacemaker_threads = hand.pacemaker_threads()
        if not policy.demultiplexes:
            return
        nic = next(n for n in bed.dut_interfaces if n.ifname == POLICY_NICS[0])
        self._plane = _native.Plane.open(netns=nic.netns, ifindex=nic.ifindex)
        if self._plane is None:
            raise MeasurementError(f"the policy is not on {nic.ifname}")
        numbers = hand.numbers()
        for router in policy.routers:
            for kind, found in (("queue", self._slots), ("port", self._ports)):
                head = f"{kind}:{router}:"
                found[router] = [n for name, n in numbers.items() if name.startswith(head)]
            inside, outside = bed.inner_interfaces[router]
            straight = f"egress_dev:{router}:{outside}:nic" in numbers
            slot = numbers.get(f"queue:{router}:{inside}") if straight else None
            port = numbers.get(f"port:{router}:{outside}")
            if port is not None:
                self._onward[router] = slot, port

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._plane = None
        if self._applied is not None:
            enforcer().clear()

    def cores(self, router: str) -> tuple[int, ...] | None:
        """Return the cores of a router's threads; None if it is under no policy."""
        if self._applied is None or router not in self._applied[1].routers:
            return None
        return self._applied[1].routers[router].cores

    def passed_on(self) -> dict[str, int]:
        """Return the frames that each router has given to the NIC that leads to the receiver."""
        plane = self._plane
        if plane is None:
            return {}
        passed = {}
        for router, (slot, port) in self._onward.items():
            queue = None if slot is None else plane.queue_counts(slot)
            out = plane.port_counts(port)
            passed[router] = out.offered - out.dropped_rate - out.dropped_size
            passed[router] += 0 if queue is None else queue.forwarded
        return passed

    def dropped(self) -> dict[tuple[str, str], int]:
        """Return the frames that the policy has dropped, by router and drop point."""
        plane = self._plane
        lost: dict[tuple[str, str], int] = {}
        if plane is None:
            return lost
        for router, slots in self._slots.items():
            queues = filter(None, map(plane.queue_counts, slots))
            ports = map(plane.port_counts, self._ports[router])
            lost[router, "router_queue"] = sum(
                q.dropped_queue + q.dropped_share + q.dropped_rate + q.dropped_cpu + q.dropped_size
                for q in queues
            )
            lost[router, "egress"] = sum(p.dropped_rate + p.dropped_size for p in ports)
        return lost

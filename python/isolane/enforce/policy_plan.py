"""From a policy and the routers that run to the desired settings that fulfil it, in their order.

A generator: what kernel threads there are is known only when the earlier settings are in force.
Frames begin to go by the policy with the last setting of a router, its entry in the forwarding
table.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace

from isolane import scheduling
from isolane._native import PortSettings, QueueSettings
from isolane.enforce import htb
from isolane.enforce.back_end_plan import back_end_threads, with_napi
from isolane.enforce.fair_share import Link
from isolane.enforce.group_plan import capped_within, groups, own_threads_group
from isolane.enforce.host_access import Host
from isolane.enforce.kernel_settings import (
    MIN_CLASS_RATE,
    cpu_budget,
    limits,
    queue_limits,
    uplinks,
)
from isolane.enforce.link_members import demultiplexed
from isolane.enforce.link_plan import classes, link_filters, minor_of, port_shares
from isolane.enforce.napi_threads import only_sends, threads_by_queue, threads_of
from isolane.enforce.nic_features import Nic
from isolane.enforce.pacemaker_work import PacemakerWork
from isolane.enforce.policy_state import State
from isolane.enforce.router_facts import FoundRouter, Interface
from isolane.enforce.setting import Desired
from isolane.enforce.settings import (
    Affinity,
    Budget,
    Classifiers,
    DeviceFile,
    Entry,
    LinkClass,
    LinkRoot,
    Member,
    Offload,
    Pacemaker,
    PortSetting,
    Program,
    QueueSetting,
    Scheduling,
    Slice,
    TakesXdp,
)
from isolane.enforce.settings.link_classes import OURS as OUR_ROOT
from isolane.enforce.settings.tasks import POLLING
from isolane.enforce.settings.values import plain
from isolane.enforce.steering import Steering
from isolane.enforce.steering import key as steering_key
from isolane.enforce.steering_plan import filters, spread
from isolane.errors import NotSupported
from isolane.procfs import started
from isolane.spec.policy import Policy
from isolane.spec.policy_router import RouterPolicy

SLICE_NS = scheduling.MIN_SLICE_NS
"""Time slice of a packet thread, and of a virtual machine's: as short as the kernel allows (since
Linux 6.12), so that a router that has been quiet waits little for one that has not. A router that
keeps its share loses nothing by it."""
NIC_NICE = -20
"""The demultiplexer goes first: it costs little, and where only routers compete its wake-ups let
the scheduler choose anew among them, long before its tick."""
FEEDER_NICE = 19
"""Of the thread that takes a virtual machine's frames off its wire, beside the machine itself in
their group: the machine goes first, and what it cannot take is refused by the wire's ring, which
costs nothing. The other way round the thread would fill the machine's queue, drop what it has
taken, and leave the machine no time to forward (receive livelock). While the machine has nothing
to do, the thread has the group to itself."""
_NORMAL = os.SCHED_OTHER
_BATCH = os.SCHED_BATCH
"""Of threads that poll a router's own interface, or its end at a port, and of back-ends: each
interrupt wakes one, and if it went before the one that runs, switches would take much of the core.
The pacemaker keeps delays short; a back-end's own part of the core does."""
NIC_OWNER = "nic"
"""Whose the NICs' threads are, where others have a router's name."""
MAX_NUMBER = 2048
MAX_BUDGETS = 1024


@dataclass(frozen=True)
class Plan:
    """What is to be fulfilled, and where."""

    policy: Policy
    found: Sequence[FoundRouter]
    links: dict[str, Link]
    """NICs whose link is shared out, by name."""
    nics: dict[str, Nic]
    """What the policy's NICs can do, by name."""
    host: Host
    state: State
    steering: Steering = field(default_factory=Steering)
    """Which routers have a receive queue of the NIC's own."""
    paced: PacemakerWork = field(default_factory=PacemakerWork)
    """Gathers the threads and queues that the pacemaker is to look after."""

    def desired_settings(self) -> Iterator[Desired]:
        """Yield all desired_settings."""
        yield from groups(self.policy, self.found, self.steering, self.host)
        yield from back_end_threads(self.found, self.host, self.paced, scheduled(_BATCH, 0))
        shared = any(self._shared(router) for router in self.found)
        if shared:
            for nic, entry in self.policy.nics.items():
                if entry.steer == "none":
                    continue
                yield from self._offloads(self.nics[nic])
                yield from spread(self.steering, self.nics[nic], self.host)
                yield from self._nic(self.nics[nic])
        for link in self.links.values():
            yield from classes(self.policy, link, self.host.base, self.state)
        yield from port_shares(self.policy, self.found)
        for router in self.found:
            for desired in self._router(router):
                yield replace(desired, router=router.name)
        table = self.host.plane.table_ids().queues if shared else None
        if work := self.paced.as_json(self.policy, table):
            yield Desired(Pacemaker(self.host.groups.top.name), work)

    def _offloads(self, nic: Nic) -> Iterator[Desired]:
        """Have frames come to the demultiplexer whole: one by one, with checksum and VLAN tag."""
        base = self.host.base
        vlans = any(at.vlan for router in self.found for at in router.interfaces)
        if nic.kind == "veth" and nic.peer is not None:
            netns = base if nic.peer.netns is None else str(nic.peer.netns)
            for feature in ("tx", *(("txvlan",) if vlans else ())):
                yield from self._without(netns, nic.peer.ifname, feature)
        if nic.kind != "veth":
            # The program in tc sees tags that the kernel keeps beside the frame.
            for feature in ("lro", *(("rxvlan",) if vlans and nic.runs_xdp else ())):
                yield from self._without(base, nic.name, feature)

    def _without(
        self, netns: str, ifname: str, feature: str, router: str = ""
    ) -> Iterator[Desired]:
        """Switch an offload off where there is one; it was the policy's work if it is off now."""
        offload = Offload(netns, ifname, feature)
        if offload.read(self.host) or offload.key in self.state.applied:
            yield Desired(offload, value=False, router=router)

    def _nic(self, nic: Nic) -> Iterator[Desired]:
        base = self.host.base
        if nic.runs_xdp:
            yield Desired(Program("nic", base, nic.name), "ours")
        else:
            yield Desired(Classifiers(base, nic.name), value=True)
            yield Desired(Program("nic_tc", base, nic.name), "ours")
        if not nic.polled:
            return
        yield Desired(DeviceFile(base, nic.name, "threaded"), 1)
        cores = self.policy.nics[nic.name].cores
        owners = self._queue_owners(nic)
        for thread, began in self._threads(base, nic.name):
            if thread in owners:
                yield from self._own_queue(owners[thread], nic, thread, began)
                continue
            name = (NIC_OWNER, f"{POLLING}{nic.name}", thread, began)
            if cores:
                yield Desired(Affinity(*name), sorted(cores))
            self.paced.nics.setdefault(nic.name, []).append(thread)
            # The pacemaker changes the nice value while it runs.
            yield Desired(Scheduling(*name), scheduled(_NORMAL, NIC_NICE), kernel_managed=True)

    def _queue_owners(self, nic: Nic) -> dict[int, str]:
        """Return the routers whose own receive queues threads of the NIC poll, by thread."""
        own = self.steering.own_queues(nic.name)
        namespace = self.host.namespace(self.host.base)
        if not own or namespace is None:
            return {}
        routers = {
            steering_key(nic.name, at): router.name
            for router in self.found
            for at in router.interfaces
        }
        threads = threads_by_queue(namespace, nic.ifindex)
        missing = [queue for queue in own if queue not in threads]
        if missing:
            raise NotSupported(
                f"nic {nic.name}: its driver does not tell which thread polls its receive queue "
                f"{missing[0]}; use steer: software"
            )
        return {threads[queue]: routers[key] for queue, key in own.items()}

    def _own_queue(self, router: str, nic: Nic, thread: int, began: int) -> Iterator[Desired]:
        """Have a queue's thread work for its router: what it drops is that router's loss, too."""
        name = (router, f"{POLLING}{nic.name}", thread, began)
        cores = self.policy.routers[router].cores or self.policy.nics[nic.name].cores
        yield Desired(Member(*name), self._group(router), router=router)
        if cores:
            yield Desired(Affinity(*name), sorted(cores), router=router)
        self.paced.threads.setdefault(router, []).append(thread)
        yield Desired(Scheduling(*name), scheduled(_BATCH, 0), router=router)

    def _group(self, router: str) -> str:
        return str(self.host.groups.path(router).relative_to(self.host.groups.root))

    def _threads(self, netns: str, ifname: str) -> list[tuple[int, int]]:
        namespace, index = self.host.namespace(netns), self.host.ifindex(netns, ifname)
        if namespace is None or index is None:
            return []
        threads = ((thread, started(thread)) for thread in threads_of(namespace, index))
        return [(thread, began) for thread, began in threads if began is not None]

    def _router(self, router: FoundRouter) -> Iterator[Desired]:
        policy = self.policy.routers[router.name]
        shared = self._shared(router)
        value = cpu_budget(self.policy, router.name, router.kind)
        if value and any(at.how == "veth" for at in shared):
            budget = Budget(router.name, self._budget(router))
            yield Desired(budget, plain(value), router=router.name)
        for interface in router.interfaces:
            if interface.how == "own":
                yield from self._own(router, policy, interface)
            if interface.behind is not None:
                yield from with_napi(interface.behind, self.host)
                yield from self._polled(router, policy, interface.behind, _BATCH)
        for interface in shared:
            yield from self._inside(router, policy, interface)
        for interface in shared:
            yield from self._egress(router, policy, interface)
        for interface in shared:
            yield self._forwarding(router, interface)
        yield from filters(self.steering, self.policy.nics, router, self.host)
        yield from link_filters(self.policy, self.links, router, self.host.base, self.state)
        yield from self._processes(router, policy)

    def _shared(self, router: FoundRouter) -> list[Interface]:
        """Return the interfaces that frames come to by a NIC of the policy."""
        return [at for at in router.interfaces if demultiplexed(self.policy, router, at)]

    def _processes(self, router: FoundRouter, policy: RouterPolicy) -> Iterator[Desired]:
        """Put a virtual machine's threads into its router's group, or into the capped one there.

        With short slices, and under the eyes of the pacemaker: what wakes in one machine is then
        served before what computes in others.
        """
        name = router.name
        within = capped_within(self.policy, router, self.steering)
        group = own_threads_group(name) if within else name
        if router.threads and policy.cpu_max is None:  # a cap has threads wait, too
            self.paced.machines[name] = str(self.host.groups.listing(name))
        for thread in router.threads:
            began = started(thread)
            if began is not None:
                which = (name, "thread", thread, began)
                yield Desired(Member(*which), self._group(group))
                if policy.cores:
                    yield Desired(Affinity(*which), sorted(policy.cores))
                if scheduling.takes_slice(thread):
                    yield Desired(Slice(*which), SLICE_NS)

    def _polled(
        self, router: FoundRouter, policy: RouterPolicy, at: Interface, how: int = _NORMAL
    ) -> Iterator[Desired]:
        """Have an interface polled by threads of the router's own."""
        netns = self._netns(at)
        yield Desired(DeviceFile(netns, at.ifname, "threaded"), 1)
        for thread, began in self._threads(netns, at.ifname):
            name = (router.name, f"{POLLING}{at.ifname}", thread, began)
            yield Desired(Member(*name), self._group(router.name))
            if policy.cores:
                yield Desired(Affinity(*name), sorted(policy.cores))
            self.paced.threads.setdefault(router.name, []).append(thread)
            nice = FEEDER_NICE if router.kind == "vm" else 0
            yield Desired(Scheduling(*name), scheduled(how, nice))

    def _netns(self, at: Interface) -> str:
        return str(at.netns) if at.netns else self.host.base

    def _own(self, router: FoundRouter, policy: RouterPolicy, at: Interface) -> Iterator[Desired]:
        """Have it polled by threads; its own link is its ceiling, if it has one."""
        namespace = self.host.namespace(self._netns(at))
        # What a machine sends by may be a wire that nothing comes by.
        silent = router.kind == "vm" and namespace and only_sends(namespace, at.ifname, at.ifindex)
        if not silent:
            yield from self._polled(router, policy, at, _BATCH)
        limit = policy.rate_max.egress
        if limit is not None and limit.bps is not None:
            rate = max(MIN_CLASS_RATE, round(limit.bps / 8))
            netns = self._netns(at)
            burst = htb.burst_bytes(rate, policy.burst)
            whole = asdict(htb.ClassSettings(rate, rate, burst, 0, htb.QUANTUM))
            yield Desired(LinkRoot(netns, at.ifname), OUR_ROOT)
            yield Desired(LinkClass(netns, at.ifname, htb.ROOT_CLASS, router.name), whole)
            yield Desired(LinkClass(netns, at.ifname, htb.DEFAULT_CLASS, router.name), whole)

    def _inside(
        self, router: FoundRouter, policy: RouterPolicy, at: Interface
    ) -> Iterator[Desired]:
        """Set up the router's end: who polls it, and its queue, which nothing goes into yet."""
        if at.how == "veth":
            # The program brings NAPI with it, which threads and redirection need.
            yield Desired(Program("router", self._netns(at), at.ifname), "ours")
            yield from self._polled(router, policy, at)
        slot = self._slot(router, at)
        counted = at.how == "veth"
        xdp = counted and policy.forward == "xdp"
        budget = cpu_budget(self.policy, router.name, router.kind) and counted
        active = [found.name for found in self.found]
        queue = queue_limits(self.policy, router.name, active)
        settings = QueueSettings(
            limit=queue.limit,
            burst_limit=queue.burst_limit,
            xdp=xdp,
            counted=counted,
            budget=self._budget(router) if budget else None,
            ingress=limits(policy.rate_max.ingress, policy.burst),
        )
        yield Desired(QueueSetting(router.name, at.ifname, slot), plain(settings))
        self.paced.queues.setdefault(router.name, []).append(slot)
        entry = Entry("ingress_dev", slot.to_bytes(4, "little").hex(), self.host.base)
        yield Desired(entry, at.host_ifindex)

    def _budget(self, router: FoundRouter) -> int:
        return self.state.number(f"budget:{router.name}", MAX_BUDGETS)

    def _slot(self, router: FoundRouter, at: Interface) -> int:
        return self.state.number(f"queue:{router.name}:{at.ifname}", MAX_NUMBER)

    def _egress(
        self, router: FoundRouter, policy: RouterPolicy, at: Interface
    ) -> Iterator[Desired]:
        """Set up the host's end: to which NIC and in which class frames go on."""
        base, name = self.host.base, router.name
        if at.host_ifname is None or at.host_ifindex is None:
            return
        port = self.state.number(f"port:{name}:{at.ifname}", MAX_NUMBER)
        names = uplinks(self.policy, router, at)
        shaped = any(nic in self.links for nic in names)
        nic = self.nics[names[0]] if at.bridge is None and names else None
        uplink = 0 if nic is None else nic.ifindex
        direct = nic if at.how == "veth" and not shaped and nic and nic.takes_from(at.mtu) else None
        egress = limits(policy.rate_max.egress, policy.burst, bits=not shaped)
        class_ = htb.class_id(minor_of(name, self.state)) if shaped else 0
        number = port.to_bytes(4, "little").hex()
        if direct:
            yield Desired(TakesXdp(base, direct.name), value=True)
            yield Desired(Entry("uplinks", number, base), uplink)
            yield from self._without(self._netns(at), at.ifname, "tx", name)
        index = at.host_ifindex.to_bytes(4, "little").hex()
        yield Desired(Entry("port_of", index), port)
        # With the program there the kernel sends no segments merged, which the classes of a link
        # would count and serve as one frame.
        if at.how == "veth" and (direct or shaped or policy.forward == "xdp"):
            yield Desired(Program("egress_xdp", base, at.host_ifname), "ours")
        if not direct:
            yield Desired(Classifiers(base, at.host_ifname), value=True)
            yield Desired(Program("egress_tc", base, at.host_ifname), "ours")
        # Once the port has a class, frames go by it: all of that has to be there.
        settings = PortSettings(uplink=uplink, class_id=class_, egress=egress)
        yield Desired(PortSetting(name, at.ifname, port), plain(settings))
        if policy.forward == "xdp" and at.how == "veth":
            straight = direct is not None and not (egress.frames.rate or egress.bits.rate)
            yield from self._redirects(router, at, direct if straight else None)

    def _redirects(self, router: FoundRouter, at: Interface, nic: Nic | None) -> Iterator[Desired]:
        """Where XDP sends what leaves by this interface: straight to the NIC, or through it."""
        uplink = nic.ifindex if nic is not None and nic.mtu >= at.mtu else None
        # One number each: an entry that is another namespace's is another setting, and when that
        # is put back, the number that both had would lead nowhere.
        where = "nic" if uplink else "own"
        egress = self.state.number(f"egress_dev:{router.name}:{at.ifname}:{where}", MAX_NUMBER)
        number = egress.to_bytes(4, "little").hex()
        netns = self.host.base if uplink else self._netns(at)
        yield Desired(Entry("egress_dev", number, netns), uplink or at.ifindex)
        for other in router.interfaces:
            if other.how == "veth":
                key = self._slot(router, other).to_bytes(4, "little")
                key += at.ifindex.to_bytes(4, "little")
                yield Desired(Entry("redirects", key.hex()), egress)

    def _forwarding(self, router: FoundRouter, at: Interface) -> Desired:
        key = bytes.fromhex(at.mac.replace(":", "")) + at.vlan.to_bytes(2, "big")
        return Desired(Entry("fdb", key.hex()), self._slot(router, at))


def scheduled(policy: int, nice: int) -> list[int]:
    """Return how a packet thread is to be scheduled: with a short slice, where there are any.

    On kernels before Linux 6.12 a router's turn ends when the scheduler's own rules or the
    pacemaker end it.
    """
    return [policy, nice, SLICE_NS if scheduling.has_slices() else 0]

"""Counters of the policy in force, read from the kernel."""

from __future__ import annotations

import contextlib
import os
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from isolane import _native
from isolane.enforce import htb, port_samples
from isolane.enforce.back_end_plan import is_back_end
from isolane.enforce.fair_share import Link, cpu_fair_shares_on_host, link_fair_shares
from isolane.enforce.group_plan import capped_within_now, own_threads_group
from isolane.enforce.host_access import Host
from isolane.enforce.policy_plan import NIC_OWNER
from isolane.enforce.policy_state import State
from isolane.enforce.router_facts import RouterSample, Sample
from isolane.enforce.setting import from_key
from isolane.enforce.settings import LinkClass, Member, Pacemaker, Program, Scheduling
from isolane.enforce.settings.pacemaking import running
from isolane.errors import NotSupported
from isolane.procfs import core_ticks, cpu_ns
from isolane.spec.policy import Policy


def threads_of(state: State) -> dict[str, list[int]]:
    """Return the threads in each router's cgroup, those that still run."""
    threads: dict[str, list[int]] = defaultdict(list)
    for key in state.applied:
        setting = from_key(key)
        if isinstance(setting, Member) and not is_back_end(setting.router) and setting.alive():
            threads[setting.router].append(setting.thread)
    return dict(threads)


def nic_threads_of(state: State) -> list[int]:
    """Return the threads of the NICs and of network back-ends, those that still run."""
    settings = map(from_key, state.applied)
    found = (setting for setting in settings if isinstance(setting, Scheduling))
    return [one.thread for one in found if _is_everybodys(one.router) and one.alive()]


def _is_everybodys(owner: str) -> bool:
    return owner == NIC_OWNER or is_back_end(owner)


def lost_threads_of(state: State) -> set[str]:
    """Return which interfaces have lost threads that the policy gave their cores and cgroups.

    An interface that goes down and up again, or gets other queues, is polled by new threads, which
    begin in the root cgroup. Those of a virtual machine do not count: new ones have it from the
    thread that starts them.
    """
    settings = map(from_key, state.applied)
    found = (p for p in settings if isinstance(p, Member | Scheduling) and p.polled)
    return {
        p.polled if p.router == NIC_OWNER else f"{p.router} ({p.polled})"
        for p in found
        if not p.alive()
    }


def pacemaker_threads_of(state: State) -> list[int]:
    """Return the threads of the pacemaker, if it runs."""
    settings = map(from_key, state.applied)
    groups = [setting.group for setting in settings if isinstance(setting, Pacemaker)]
    found: list[int] = []
    for process in (process for group in groups for process, _ in running(group)):
        with contextlib.suppress(OSError):  # it may end at any time
            found += [int(path.name) for path in Path(f"/proc/{process}/task").iterdir()]
    return found


def untagged(host: Host, state: State, policy: Policy) -> dict[str, int]:
    """Return how many frames a NIC's driver had no place for a number of, by router."""
    plane = host.attached_plane()
    if plane is None:
        return {}
    found = {name: queue_counts(plane, state, name) for name in policy.routers}
    return {name: sum(queue.untagged for queue in queues) for name, queues in found.items()}


def queue_counts(plane: _native.Plane, state: State, name: str) -> list[_native.QueueCounts]:
    """Return the counts of a router's queues, those in use."""
    return [queue for queue in map(plane.queue_counts, numbers(state, "queue", name)) if queue]


def numbers(state: State, kind: str, name: str) -> list[int]:
    """Return the numbers of a kind that a router has: ``queue``, ``port``."""
    head = f"{kind}:{name}:"
    return [number for key, number in state.numbers.items() if key.startswith(head)]


def take(host: Host, state: State, policy: Policy) -> Sample:
    """Take a sample; changes nothing."""
    reader = _Reader(host, state, policy, threads_of(state))
    routers = tuple(reader.router(name) for name in policy.routers)
    cores = {core for router in policy.routers.values() for core in router.cores}
    rates = {nic: link.rate for nic, link in reader.links.items()}
    busy = {core: ticks.busy_ns for core, ticks in core_ticks().items() if core in cores}
    return Sample(time.monotonic_ns(), routers, busy, rates)


@dataclass
class _Reader:
    host: Host
    state: State
    policy: Policy
    threads: dict[str, list[int]]

    def __post_init__(self) -> None:
        self.plane: _native.Plane | None = self.host.attached_plane()
        self.counts: dict[str, dict[int, tuple[int, int, int]]] = {}
        self.links: dict[str, Link] = {}
        self.ends: dict[str, set[tuple[str, str]]] = defaultdict(set)
        self.with_threads: set[str] = set()
        members: dict[str, list[str]] = defaultdict(list)
        for key, done in self.state.applied.items():
            setting = from_key(key)
            if isinstance(setting, Program):
                self.ends[done.router].add((setting.netns, setting.ifname))
            if isinstance(setting, Member):
                self.with_threads.add(setting.router)
            if isinstance(setting, LinkClass) and setting.minor >= htb.FIRST_CLASS:
                members[setting.ifname].append(setting.owner)
        for nic, names in members.items():
            index, namespace = self.host.ifindex(self.host.base, nic), self.host.here
            root = self.host.classes(self.host.base, nic).get(htb.ROOT_CLASS)
            if index is not None and root is not None:
                self.counts[nic] = htb.class_bytes(namespace, index)
                self.links[nic] = Link(nic, root.rate, tuple(names))
        self.at_ports = port_samples.look(self.state, self.policy)
        for nic, rate_bps in self.at_ports.rates_bps.items():
            self.links[nic] = Link(nic, round(rate_bps / 8), self.at_ports.members[nic])
        self._share_out()

    def _share_out(self) -> None:
        """Work out the fair shares of the routers that run."""
        self.queues = {name: self._queues(name) for name in self.policy.routers}
        self.active = [name for name in self.policy.routers if self._runs(name)]
        cores = os.cpu_count() or 1
        self.cpu_fair = cpu_fair_shares_on_host(
            self.policy, self.active, cores, capped_within_now(self.state)
        )
        self.link_fair = {
            nic: link_fair_shares(self.policy, link, self.active)
            for nic, link in self.links.items()
        }

    def _runs(self, name: str) -> bool:
        """Tell whether a router runs: its queues stay in the policy when it has ended."""
        if self._threads_now(name) or name in self.at_ports.link_bytes:
            return True
        if name in self.with_threads or not self.queues[name]:
            return False
        # Nothing polls a tap: it is there or not.
        return any(self.host.ifindex(*end) is not None for end in self.ends[name])

    def _threads_now(self, name: str) -> set[int]:
        """Return the threads that work for a router: those it has begun later are in its cgroup."""
        threads = set(self.threads.get(name, ()))
        for group in (name, own_threads_group(name)):
            with contextlib.suppress(OSError, NotSupported):  # it may have none
                threads |= set(self.host.groups.threads(group))
        return threads

    def _cpu_ns(self, name: str) -> int:
        """Return the CPU time of a router's threads, also of those that have ended."""
        with contextlib.suppress(NotSupported):
            counted = self.host.groups.cpu_ns(name)
            if counted is not None:
                return counted
        return sum(map(cpu_ns, self._threads_now(name)))

    def _sent(self, name: str) -> tuple[int, int]:
        """Return the frames that a router has sent, and their bytes.

        What XDP sends straight to a NIC passes no port; what is to see a class or a ceiling does.
        Where a router does both, nobody knows which of them passed a port: it has sent that many
        at least.
        """
        queues, ports = self.queues[name], self._ports(name)
        head = f"egress_dev:{name}:"
        leads_to = {key.rpartition(":")[2] for key in self.state.numbers if key.startswith(head)}
        together = sum if leads_to == {"nic"} else max
        passed = sum(p.offered - p.dropped_rate - p.dropped_size for p in ports)
        return (
            together((sum(q.forwarded for q in queues), passed)),
            together((sum(q.forwarded_bytes for q in queues), sum(p.offered_bytes for p in ports))),
        )

    def router(self, name: str) -> RouterSample:
        queues = self.queues[name]
        ports = self._ports(name)
        link = {nic: counts.get(self._minor(name)) for nic, counts in self.counts.items()}
        sent = {nic: count for nic, count in link.items() if count}
        link_bytes = {nic: count[0] for nic, count in sent.items()}
        link_bytes |= self.at_ports.link_bytes.get(name, {})
        forwarded, forwarded_bytes = self._sent(name)
        return RouterSample(
            name=name,
            present=name in self.active,
            offered=sum(q.offered for q in queues),
            offered_bytes=sum(q.offered_bytes for q in queues),
            served=sum(q.served for q in queues),
            forwarded=forwarded,
            forwarded_bytes=forwarded_bytes,
            dropped={
                "queue": sum(q.dropped_queue for q in queues),
                "share": sum(q.dropped_share for q in queues),
                "rate_in": sum(q.dropped_rate for q in queues),
                "cpu": sum(q.dropped_cpu for q in queues),
                "rate_out": sum(p.dropped_rate for p in ports),
                "redirect": sum(self.host.lost(*end) for end in self.ends[name]),
                "size": sum(q.dropped_size for q in queues) + sum(p.dropped_size for p in ports),
                "link": sum(count[2] for count in sent.values()) + self.at_ports.lost.get(name, 0),
            },
            waiting=sum(q.waiting for q in queues),
            queue_limit=self._burst_limit(name),
            cpu_ns=self._cpu_ns(name),
            nic_cpu_ns=self._nic_cpu_ns(name),
            cores=self.policy.routers[name].cores,
            cpu_fair_share=self.cpu_fair.get(name, 0.0),
            link_bytes=link_bytes,
            link_fair_share={
                nic: self.link_fair[nic].get(name, 0.0) for nic in link_bytes if nic in self.links
            },
        )

    def _minor(self, name: str) -> int:
        return self.state.numbers.get(f"class:{name}", -1)

    def _queues(self, name: str) -> list[_native.QueueCounts]:
        if self.plane is None:
            return []
        return queue_counts(self.plane, self.state, name)

    def _burst_limit(self, name: str) -> int:
        """Return how many frames may wait for a router when none of its queues overflows."""
        if self.plane is None:
            return 0
        queues = map(self.plane.queue, numbers(self.state, "queue", name))
        return sum(queue.burst_limit for queue in queues if queue)

    def _nic_cpu_ns(self, name: str) -> int | None:
        number = self.state.numbers.get(f"budget:{name}")
        if self.plane is None or number is None or not self.plane.budget(number).weight:
            return None
        return self.plane.nic_ns(number)

    def _ports(self, name: str) -> list[_native.PortCounts]:
        if self.plane is None:
            return []
        return list(map(self.plane.port_counts, numbers(self.state, "port", name)))

"""Counters of the policy in force, read from the kernel."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from isolane import _native
from isolane.enforce import htb, shares
from isolane.enforce.host import Host
from isolane.enforce.model import RouterSample, Sample
from isolane.enforce.piece import from_key
from isolane.enforce.pieces import LinkClass, Member, Program, Scheduling
from isolane.enforce.pieces.tasks import started
from isolane.enforce.plan import NIC_OWNER
from isolane.enforce.shares import Link
from isolane.enforce.state import State
from isolane.spec.policy import Policy

_TICK_NS = 10_000_000


def threads_of(state: State) -> dict[str, list[int]]:
    """Return the threads in each router's control group, those that still run."""
    threads: dict[str, list[int]] = defaultdict(list)
    for key in state.done:
        piece = from_key(key)
        if isinstance(piece, Member) and started(piece.thread) == piece.began:
            threads[piece.router].append(piece.thread)
    return dict(threads)


def nic_threads_of(state: State) -> list[int]:
    """Return the threads of the NICs, those that still run."""
    pieces = map(from_key, state.done)
    found = (p for p in pieces if isinstance(p, Scheduling) and p.router == NIC_OWNER)
    return [piece.thread for piece in found if started(piece.thread) == piece.began]


def take(host: Host, state: State, policy: Policy) -> Sample:
    """Take a sample; changes nothing."""
    reader = _Reader(host, state, policy, threads_of(state))
    routers = tuple(reader.router(name) for name in policy.routers)
    cores = {core for router in policy.routers.values() for core in router.cores}
    rates = {nic: link.rate for nic, link in reader.links.items()}
    return Sample(time.monotonic_ns(), routers, _busy(cores), rates)


def _busy(cores: set[int]) -> dict[int, int]:
    busy = {}
    for line in Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cores:
            ticks = [int(field) for field in fields]
            idle = ticks[3] + ticks[4]
            busy[int(name[3:])] = (sum(ticks[:8]) - idle) * _TICK_NS
    return busy


@dataclass
class _Reader:
    host: Host
    state: State
    policy: Policy
    threads: dict[str, list[int]]

    def __post_init__(self) -> None:
        self.plane: _native.Plane | None = self.host.standing_plane()
        self.counts: dict[str, dict[int, tuple[int, int, int]]] = {}
        self.links: dict[str, Link] = {}
        self._entitled: dict[str, dict[str, float]] = {}
        self.ends: dict[str, set[tuple[str, str]]] = defaultdict(set)
        members: dict[str, list[str]] = defaultdict(list)
        for key, done in self.state.done.items():
            piece = from_key(key)
            if isinstance(piece, Program):
                self.ends[done.router].add((piece.netns, piece.ifname))
            if isinstance(piece, LinkClass) and piece.minor >= htb.FIRST_CLASS:
                members[piece.ifname].append(piece.owner)
        for nic, names in members.items():
            index, namespace = self.host.ifindex(self.host.base, nic), self.host.here
            rate = self.host.classes(self.host.base, nic).get(htb.ROOT_CLASS)
            if index is not None and rate is not None:
                self.counts[nic] = htb.class_bytes(namespace, index)
                self.links[nic] = Link(nic, rate[0], tuple(names))

    def router(self, name: str) -> RouterSample:
        queues = [q for q in map(self._queue, self._numbers("queue", name)) if q]
        ports = [p for p in map(self._port, self._numbers("port", name)) if p]
        link = {nic: counts.get(self._minor(name)) for nic, counts in self.counts.items()}
        sent = {nic: count for nic, count in link.items() if count}
        by_xdp = sum(q["forwarded"] for q in queues)
        passed = sum(p["offered"] - p["dropped_rate"] - p["dropped_size"] for p in ports)
        return RouterSample(
            name=name,
            present=bool(self.threads.get(name)) or bool(queues),
            offered=sum(q["offered"] for q in queues),
            offered_bytes=sum(q["offered_bytes"] for q in queues),
            served=sum(q["served"] for q in queues),
            # What XDP forwards passes a port only where a class or a ceiling is to see it.
            forwarded=max(by_xdp, passed),
            forwarded_bytes=sum(p["offered_bytes"] for p in ports),
            dropped={
                "queue": sum(q["dropped_queue"] for q in queues),
                "rate_in": sum(q["dropped_rate"] for q in queues),
                "cpu": sum(q["dropped_cpu"] for q in queues),
                "rate_out": sum(p["dropped_rate"] for p in ports),
                "redirect": sum(self.host.lost(*end) for end in self.ends[name]),
                "size": sum(way["dropped_size"] for way in (*queues, *ports)),
                "link": sum(count[2] for count in sent.values()),
            },
            waiting=sum(q["waiting"] for q in queues),
            room=sum(q["burst"] for q in queues),
            cpu_ns=sum(_cpu_ns(thread) for thread in self.threads.get(name, ())),
            cores=self.policy.routers[name].cores,
            cpu_entitled=self._entitled_cpu(name),
            link_bytes={nic: count[0] for nic, count in sent.items()},
            link_entitled={nic: self._entitled_link(nic, name) for nic in sent},
        )

    def _numbers(self, kind: str, name: str) -> list[int]:
        head = f"{kind}:{name}:"
        return [number for key, number in self.state.numbers.items() if key.startswith(head)]

    def _minor(self, name: str) -> int:
        return self.state.numbers.get(f"class:{name}", -1)

    def _queue(self, slot: int) -> dict[str, int] | None:
        return self.plane.queue(slot) if self.plane else None

    def _port(self, port: int) -> dict[str, int] | None:
        return self.plane.port(port) if self.plane else None

    def _entitled_cpu(self, name: str) -> float:
        """Of the cores that it shares with those who are bound to the same ones and run."""
        weights = shares.neighbours(self.policy, name)
        return shares.entitled_cpu(weights, name)

    def _entitled_link(self, nic: str, name: str) -> float:
        if nic not in self._entitled:
            link = self.links[nic]
            self._entitled[nic] = shares.entitled_link(self.policy, link, link.routers)
        return self._entitled[nic][name]


def _cpu_ns(thread: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):  # threads end
        return int(Path(f"/proc/{thread}/schedstat").read_text().split()[0])
    return 0

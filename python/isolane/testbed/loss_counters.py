"""Counts lost frames by drop point, from the kernel's counters.

A drop on a veth wire shows in ``tx_dropped`` of its *sending* end, whether an XDP redirect or a
socket brought the frame (the receiving end repeats the former in ``rx_dropped``, and a full
backlog shows in three places). So each wire is counted there, and only there.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from isolane.netback import UplinkStatus
from isolane.testbed import services
from isolane.testbed.bed_back_end import BedBackEnd
from isolane.testbed.bed_devices import DUT, RCV, Layout
from isolane.testbed.bed_guests import BedGuests
from isolane.testbed.ip_counters import FILES, IpCounts
from isolane.testbed.netns import Namespace

DROP_POINTS = ("nic_queue", "router_queue", "no_route", "unanswered", "egress")
_TC_H_ROOT = 0xFFFFFFFF


@dataclass(frozen=True)
class Counters:
    """Frames lost since the test bed was built, or between two snapshots (a difference)."""

    lost: dict[tuple[str | None, str], int]
    """(router, point) -> frames; router None: on a wire that several routers share."""
    backlog_dropped: int
    """Frames that this host's per-core backlogs dropped, whoever they belonged to: a cross-check
    of ``router_queue`` and ``egress`` on the bridge path, part of them, not to be added."""
    receiver_dropped: int
    """Frames that found the receiver's own wires full: part of ``egress``, not to be added."""
    delivered: Mapping[str, int] = field(default_factory=dict)
    """By router: frames that were for itself, whoever sent them; not among the lost."""
    own_receiver_dropped: Mapping[str, int] = field(default_factory=dict)
    """The part of `receiver_dropped` that the kernel counts by router."""
    passed_on: Mapping[str, int] = field(default_factory=dict)
    """By router: frames that it gave to the wire to the receiver, where its policy counts them."""

    def __sub__(self, earlier: Counters) -> Counters:
        """Return what was lost since ``earlier``."""
        return Counters(
            {key: count - earlier.lost.get(key, 0) for key, count in self.lost.items()},
            self.backlog_dropped - earlier.backlog_dropped,
            self.receiver_dropped - earlier.receiver_dropped,
            _since(self.delivered, earlier.delivered),
            _since(self.own_receiver_dropped, earlier.own_receiver_dropped),
            _since(self.passed_on, earlier.passed_on),
        )

    def plus(self, lost: Mapping[tuple[str, str], int]) -> Counters:
        """Return these counters plus losses counted elsewhere: (router, point) -> frames."""
        total = dict(self.lost)
        for key, count in lost.items():
            total[key] = total.get(key, 0) + count
        return replace(self, lost=total)

    def with_delivered(self, routers: Collection[str]) -> Counters:
        """Return these counters with what was for `routers` themselves among what they kept."""
        kept = {(r, "no_route"): count for r, count in self.delivered.items() if r in routers}
        return self.plus(kept)

    def of(self, router: str | None) -> dict[str, int]:
        """Return point -> frames of one router, or (None) of the shared wires."""
        return {point: self.lost.get((router, point), 0) for point in DROP_POINTS}

    @property
    def total(self) -> int:
        """Frames lost at all drop points."""
        return sum(self.lost.values())


def _since(now: Mapping[str, int], earlier: Mapping[str, int]) -> dict[str, int]:
    return {router: count - earlier.get(router, 0) for router, count in now.items()}


class Reader:
    """Takes snapshots; its files are opened once, by the thread that enters namespaces."""

    def __init__(
        self,
        layout: Layout,
        namespaces: dict[str, Namespace],
        guests: BedGuests,
        back_end: BedBackEnd,
    ) -> None:
        self._layout = layout
        self._back_end = back_end
        self._ns = namespaces
        self._guests = guests
        self._snmp: dict[str, int] = {}
        self._retried: dict[str, int] = {}
        """By uplink of the back-end: what it sent later, and the kernel has among the dropped."""
        self._tracking: dict[str, int] = {}
        for router in layout.routers:
            if router.guest:  # its own kernel tells
                continue
            namespaces[router.netns].enter()
            path = f"/proc/thread-self/{FILES[layout.ip]}"
            self._snmp[router.name] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            if router.services is not None and router.services.tracks:
                self._tracking[router.name] = services.open_tracking()

    def close(self) -> None:
        """Close the files, which keep their namespaces alive."""
        for files in (self._snmp, self._tracking):
            for fd in files.values():
                os.close(fd)
            files.clear()

    def read(self) -> Counters:
        """Take a snapshot."""
        lost: dict[tuple[str | None, str], int] = {}
        uplinks = self._uplinks()
        queues, in_guests = self._queue_drops(), self._guests.lost()
        delivered = {name: losses.pop("delivered", 0) for name, losses in in_guests.items()}
        for router in self._layout.routers:
            for point in DROP_POINTS:
                lost[router.name, point] = 0
            for point, (namespace, ifname) in router.counted.items():
                lost[router.name, point] += self._device(namespace, ifname, queues)
            if router.guest:
                for point, count in in_guests[router.name].items():
                    lost[router.name, point] += count
            else:
                text = os.pread(self._snmp[router.name], 65536, 0).decode()
                counts = IpCounts.of(self._layout.ip, text)
                for point, count in counts.lost(answers=router.answers).items():
                    lost[router.name, point] += count
                delivered[router.name] = counts.delivered
            if (tracking := self._tracking.get(router.name)) is not None:
                text = os.pread(tracking, 65536, 0).decode()
                lost[router.name, "no_route"] += services.refused(text)
        for wire in self._layout.shared:
            parts = sum(self._device(name, ifname, {}) for name, ifname in wire.parts)
            count = max(0, self._device(wire.netns, wire.ifname, queues) - parts)
            lost[None, wire.drop_point] = lost.get((None, wire.drop_point), 0) + count
        for uplink in uplinks[:1]:
            lost[None, "nic_queue"] += uplink.ring_full + uplink.too_long
        wires = [veth.tx for veth in self._layout.veths if veth.rx.netns == RCV]
        receiver = sum(self._device(end.netns, end.ifname, {}) for end in wires)
        own = {router: self._device(*end, {}) for router, end in self._layout.to_receiver().items()}
        return Counters(lost, backlog_drops(), receiver, delivered, own)

    def _uplinks(self) -> tuple[UplinkStatus, ...]:
        """Return those of the back-end, the one that frames come by first; none without one."""
        status = self._back_end.status()
        found = status.uplinks if status is not None else ()
        self._retried = {uplink.name: uplink.retried for uplink in found}
        return found

    def _device(self, name: str, ifname: str, queues: dict[tuple[str, str], int]) -> int:
        dropped = int(self._ns[name].read(ifname, "statistics/tx_dropped"))
        dropped -= self._retried.get(ifname, 0)
        return dropped + queues.get((name, ifname), 0)

    def _queue_drops(self) -> dict[tuple[str, str], int]:
        """Read the drops of qdiscs, which the kernel does not add to those of the device.

        The test bed attaches none; a user who limits a router's rate does. Drops of the
        classes are part of the root's.
        """
        drops = {}
        for name in {router.netns for router in self._layout.routers} | {DUT}:
            namespace = self._ns[name]
            ifnames = {namespace.index_of(ifname): ifname for ifname in namespace.interfaces()}
            for qdisc in namespace.links.get_qdiscs():
                if qdisc["parent"] == _TC_H_ROOT and qdisc["index"] in ifnames:
                    stats = qdisc.get_nested("TCA_STATS2", "TCA_STATS_QUEUE")
                    if stats is not None:
                        drops[name, ifnames[qdisc["index"]]] = int(stats["drops"])
        return drops


def backlog_drops(lines: Iterable[str] | None = None) -> int:
    """Frames dropped by the backlogs of all cores: second column of ``softnet_stat``, hex."""
    if lines is None:
        lines = Path("/proc/net/softnet_stat").read_text().splitlines()
    return sum(int(line.split()[1], 16) for line in lines)

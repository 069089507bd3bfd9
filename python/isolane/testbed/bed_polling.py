"""Who polls the interfaces of a test bed, on which core, and how often."""

from __future__ import annotations

import time
from socket import socket
from typing import Final

from isolane.testbed import threads
from isolane.testbed.bed_builder import Namespaces
from isolane.testbed.bed_devices import GEN, RCV, Layout
from isolane.testbed.bed_plan import BedPlan
from isolane.testbed.threads import Polled

RECEIVER_PAUSE_NS: Final = 10_000
"""Pause between two polls of the receiver, ns, for each of its interfaces. On the generator's core
every poll delays the generator (in a virtual machine each timer is an exit to the hypervisor): with
half of it the generator's lateness grows, with a fifth of it frames are missed."""
RARE_PAUSE_NS: Final = 2_000_000
"""The same while no frames are sent. Polls as often as in a trial take most of a core of a virtual
machine, and everything between two trials is done on that core."""


class BedPolling:
    """Assigns the receiving interfaces of a test bed to their cores."""

    def __init__(self, plan: BedPlan, layout: Layout, ns: Namespaces) -> None:
        self._plan = plan
        self._layout = layout
        self._ns = ns

    @property
    def receiver_pause_ns(self) -> int:
        """Pause between two polls of a receiver's interface in a trial, ns.

        Longer with more interfaces, whose timers share a core; a ring of 256 frames bears it. Web
        servers and clients need that core, too: there it is the pause of the DUT's NICs.
        """
        if self._layout.web:
            return max(self._plan.moderation_ns, RECEIVER_PAUSE_NS)
        wires = sum(veth.rx.netns == RCV for veth in self._layout.veths)
        return RECEIVER_PAUSE_NS * max(2, wires)

    def assign(self) -> dict[str, list[int]]:
        """Assign each receiving interface to its core; return the kernel threads of DUT NICs."""
        with threads.senders() as made:
            return self._assigned(made)

    def _assigned(self, made: list[socket]) -> dict[str, list[int]]:
        for receiving in self._receiving():
            threads.arm(receiving.namespace, receiving.ifname, RARE_PAUSE_NS)
            threads.start_polling(receiving, made)
        found: dict[str, list[int]] = {}
        if self._plan.receive == "threaded":
            for nic in self._layout.dut_nics:
                threads.thread_napi(self._ns[nic.netns], nic.ifname)
                found[nic.ifname] = threads.find_threads(self._ns[nic.netns], nic.ifname)
                threads.pin(found[nic.ifname], nic.core)
        self._start(made)
        return found

    def _receiving(self) -> list[Polled]:
        """Return the receiver's interfaces, and the generator's where it is answered.

        They are polled in the softirq of the last measuring core.

        They are polled by timer, so that a router that sends wakes nobody: the CPU accounting would
        charge it with a wake-up per frame, which costs several microseconds in a virtual machine.
        """
        to_receiver = [(v.tx, v.rx) for v in self._layout.veths if v.rx.netns == RCV]
        answers = [(v.rx, v.tx) for v in self._layout.veths if v.tx.netns == GEN and v.tx.nic]
        return [
            Polled(
                namespace=self._ns[end.netns],
                ifname=end.ifname,
                mac=end.mac,
                core=self._plan.measure_cores[-1],
                sender=self._ns[sender.netns],
                sender_ifname=sender.ifname,
            )
            for sender, end in (*to_receiver, *answers)
        ]

    def receive_every(self, pause_ns: int) -> None:
        """Have the receiver's interfaces polled so often, from their next poll on."""
        for receiving in self._receiving():
            receiving.namespace.write(receiving.ifname, "gro_flush_timeout", pause_ns)

    def start(self) -> None:
        """Start timed polling of the DUT's NICs, each on its core."""
        with threads.senders() as made:
            self._start(made)

    def _start(self, made: list[socket]) -> None:
        self.stop()  # a NAPI that polls already would take the frame on the core it is on
        for nic in self._layout.dut_nics:
            dut = self._ns[nic.netns]
            threads.arm(dut, nic.ifname, self._plan.moderation_ns)
            sender = self._ns[nic.far_netns]
            polled = Polled(dut, nic.ifname, nic.mac, nic.core, sender, nic.far_ifname)
            threads.start_polling(polled, made)

    def stop(self) -> None:
        """Stop timed polling of the DUT's NICs."""
        armed = False
        for nic in self._layout.dut_nics:
            dut = self._ns[nic.netns]
            armed |= dut.read(nic.ifname, "gro_flush_timeout") != "0"
            threads.arm(dut, nic.ifname, 0)
        if armed:
            # The last timer has yet to fire; only then is the NAPI given back.
            time.sleep(self._plan.moderation_ns / 1e9 + threads.TIMER_SLACK_S)

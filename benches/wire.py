"""A wire for benches: a veth pair between two namespaces, and nothing else.

Built with the test bed's own builder, so that its journal, its lock and ``isolane clean`` hold
for it as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from isolane.errors import TestbedError
from isolane.testbed import Journal, clean, exclusive, netns, threads
from isolane.testbed.bed_builder import Builder, Namespaces
from isolane.testbed.bed_devices import GEN, RCV, End, Layout, Veth
from isolane.testbed.namespace_thread import NamespaceThread
from isolane.trials.live.traffic import Target

GEN_IFNAME, RCV_IFNAME = "isl-g0", "isl-r0"
GEN_MAC, RCV_MAC = "02:15:01:00:00:00", "02:15:04:00:00:00"
SOURCE, DESTINATION = "198.18.0.2", "198.19.0.2"
"""RFC 2544, appendix C.2.2."""


@dataclass(frozen=True)
class WireCount:
    """Frames since the wire was made, or between two counts, by the kernel's counters."""

    arrived: int
    """Taken off the wire by the peer: ``tx_packets`` of the sending end, which a veth whose peer
    has NAPI counts only then."""
    dropped: int
    """Refused by the peer's full ring: ``tx_dropped`` of the sending end."""

    @property
    def offered(self) -> int:
        """Frames that were put on the wire."""
        return self.arrived + self.dropped

    def __sub__(self, earlier: WireCount) -> WireCount:
        """Return the frames since ``earlier``."""
        return WireCount(self.arrived - earlier.arrived, self.dropped - earlier.dropped)


class Wire:
    """A wire that exists; from :func:`make_wire`."""

    def __init__(self, namespaces: Namespaces, ifindex: int, thread: NamespaceThread) -> None:
        self._ns = namespaces
        self._thread = thread
        self.target = Target(
            ifindex=ifindex,
            src_mac=GEN_MAC,
            dst_mac=RCV_MAC,
            src_ip=SOURCE,
            dst_ip=DESTINATION,
            netns=str(namespaces[GEN].path),
        )
        """What the generator needs."""

    def count(self) -> WireCount:
        """Read the counters of the sending end; they count for whatever tool sends."""
        return self._thread.do(self._count)

    def _count(self) -> WireCount:
        read = self._ns[GEN].read
        return WireCount(
            int(read(GEN_IFNAME, "statistics/tx_packets")),
            int(read(GEN_IFNAME, "statistics/tx_dropped")),
        )


@contextmanager
def make_wire(receiver_core: int) -> Iterator[Wire]:
    """Make a wire whose far end is polled by a kernel thread on ``receiver_core``.

    Raises
    ------
    TestbedError
        When another run works on this host, or a step fails; nothing is left then.
    """
    with exclusive() as journal:
        clean()
        thread, namespaces = NamespaceThread(), Namespaces()
        try:
            ifindex = thread.do(partial(_build, namespaces, journal, receiver_core))
            yield Wire(namespaces, ifindex, thread)
        finally:
            try:
                problems = thread.do(partial(_remove, namespaces, journal))
            finally:
                thread.close()
            if problems:
                raise TestbedError("; ".join(problems))


def _build(namespaces: Namespaces, journal: Journal, core: int) -> int:
    layout = Layout(
        ip=4,
        netns=[GEN, RCV],
        veths=[Veth(End(GEN, GEN_IFNAME, GEN_MAC), End(RCV, RCV_IFNAME, RCV_MAC, nic=True))],
    )
    builder = Builder(layout, namespaces, journal, lambda: False)
    builder.build()
    threads.thread_napi(namespaces[RCV], RCV_IFNAME)
    # Not real-time: the thread has its core to itself, and the kernel would throttle it.
    threads.pin(threads.find_threads(namespaces[RCV], RCV_IFNAME), core)
    return builder.ifindex[GEN, GEN_IFNAME]


def _remove(namespaces: Namespaces, journal: Journal) -> list[str]:
    problems = netns.remove(namespaces.values())
    if not problems:
        netns.drop_directory(journal.made)
        journal.finish()
    return problems

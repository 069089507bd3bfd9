"""The test bed as a whole: built on entry and removed on exit, whatever happens in between."""

from __future__ import annotations

import atexit
import contextlib
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

from isolane.errors import MeasurementError, TestbedError
from isolane.guests import GuestPart
from isolane.testbed import bed_drawing, netns
from isolane.testbed.bed_back_end import BedBackEnd
from isolane.testbed.bed_builder import Builder, Namespaces
from isolane.testbed.bed_devices import DUT
from isolane.testbed.bed_guests import BedGuests
from isolane.testbed.bed_plan import BedPlan, DutInterface, Edge, ImageRouter, Node, Wire, WorkTime
from isolane.testbed.bed_polling import RARE_PAUSE_NS, BedPolling
from isolane.testbed.capture_points import CapturePoint, capture_points_of
from isolane.testbed.journal import Journal
from isolane.testbed.layout import make_layout
from isolane.testbed.loss_counters import Counters, Reader
from isolane.testbed.namespace_thread import NamespaceThread
from isolane.testbed.responders import BedResponders
from isolane.testbed.router_work import BedWorkers
from isolane.testbed.silence import await_silence
from isolane.testbed.web_servers import BedWebServers
from isolane.testbed.wires import wires_of


class Testbed:
    """Builds a test bed on entry and removes it on exit.

    Parameters
    ----------
    plan
        What to build.
    journal
        Records everything before it is created; from :func:`~isolane.testbed.journal.exclusive`.

    Raises
    ------
    TestbedError
        When the plan cannot be built or a step failed; nothing is left behind then.
    NotSupported
        When the kernel lacks what a step needs; the message names both.
    """

    own: Final = True
    """Made by Isolane, which so says who works where."""
    __test__ = False  # the name starts with "Test": pytest is not to collect it

    def __init__(self, plan: BedPlan, journal: Journal) -> None:
        self.plan = plan
        self._layout = make_layout(plan)
        self._journal = journal
        self._thread = NamespaceThread()
        self._interrupted = False
        self._taken_down = False
        self._began = False
        self._ns: Namespaces = {}
        self._ifindex: dict[tuple[str, str], int] = {}
        self._reader: Reader | None = None
        self._polling = BedPolling(plan, self._layout, self._ns)
        self._back_end = BedBackEnd(self._layout, self._ns, journal)
        self._guests = BedGuests(self._layout, self._ns, journal, self._back_end)
        self._responders = BedResponders(self._layout, self._ns)
        self._workers = BedWorkers(self._layout, self._ns)
        self._web = BedWebServers(self._layout, self._ns, plan.measure_cores[-1])
        self.receive_threads: dict[str, list[int]] = {}
        """DUT interface -> kernel threads that poll it; empty with ``softirq``."""

    def __enter__(self) -> Self:
        try:
            atexit.register(self._last_resort)
            self._thread.do(self._build)
        except BaseException:
            self._take_down()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._take_down()

    def _build(self) -> None:
        if self._journal.made:
            raise TestbedError("one test bed at a time: another one of this run is still there")
        self._began = True
        builder = Builder(self._layout, self._ns, self._journal, lambda: self._interrupted)
        self._ifindex = builder.ifindex
        builder.build()
        self._back_end.start()
        self._guests.start(builder.go_on)
        self._responders.start()
        self._workers.start()
        self._web.start(builder.go_on)
        self._reader = Reader(self._layout, self._ns, self._guests, self._back_end)
        self.receive_threads = self._polling.assign()
        if self.plan.ip == 6 and self._layout.dut_nics:
            await_silence(self._ns, self._layout.of_routers, guests=bool(self.guest_processes))

    @property
    def receiver_moderation_ns(self) -> int:
        """Pause between two polls of a receiver's interface, ns; delays are too long by up to this.

        It is longer until `receive_often`, and after `receive_rarely`.
        """
        return self._polling.receiver_pause_ns

    def _take_down(self) -> None:
        self._interrupted = True
        try:
            problems = self._thread.do(self._remove)
        finally:
            # Waits for the removal even when a second Ctrl-C came, and sees to it where the first
            # one came before it was begun.
            self._thread.close(self._remove)
        if problems:
            raise TestbedError("the test bed was not removed entirely: " + "; ".join(problems))
        atexit.unregister(self._last_resort)

    def _last_resort(self) -> None:
        """Remove the test bed when the interpreter ends, if it is still there.

        A signal may raise just as the ``with`` block ends, before the removal has begun; then
        nothing else would start it. It is the work of the thread that has built it: in another one
        netlink sockets are sockets of another namespace.
        """
        self._interrupted = True
        self._thread.close(self._remove)

    def _remove(self) -> list[str]:
        if self._taken_down:
            return []
        self._taken_down = True
        if self._reader is not None:
            self._reader.close()
        self._web.close()
        self._responders.close()
        self._workers.close()
        self._guests.close()
        self._back_end.close()
        problems = netns.remove(self._ns.values())
        self._ns.clear()
        if not problems and self._began:
            netns.drop_directory(self._journal.made)
            self._journal.finish()
        return problems

    @property
    def wires(self) -> tuple[Wire, ...]:
        """The wires of generator and receiver, one per router, in the plan's order."""
        return wires_of(self._layout, self._ifindex)

    @property
    def capture_points(self) -> tuple[CapturePoint, ...]:
        """Where frames can be stamped on their way, by router."""
        return capture_points_of(self._layout, self._ifindex)

    @property
    def untold(self) -> frozenset[str]:
        """Routers that do not tell where they lose frames: images of the user's."""
        return frozenset(router.name for router in self._layout.routers if router.asks)

    @property
    def image_routers(self) -> tuple[ImageRouter, ...]:
        """Routers whose guests start from images of the user's, which ask for their neighbours."""
        return tuple(
            ImageRouter(
                wire=wire,
                in_address=router.in_address,
                out_address=router.out_address,
                out_mac=router.out_mac,
                rcv_mac=router.dst_mac,
            )
            for router, wire in zip(self._layout.routers, self.wires, strict=True)
            if router.asks
        )

    def last_lines(self, router: str) -> str:
        """Return the last lines of a guest's console, in one line.

        Raises
        ------
        MeasurementError
            If the guest has ended by itself.
        """
        self._thread.do(self._guests.check_alive)
        return self._thread.do(lambda: self._guests.last_lines(router))

    @property
    def dut_interfaces(self) -> tuple[DutInterface, ...]:
        """The DUT's receiving NICs."""
        return tuple(
            DutInterface(
                netns=str(netns.NETNS_DIR / nic.netns),
                ifname=nic.ifname,
                ifindex=self._ifindex[nic.netns, nic.ifname],
                router=nic.router,
                core=nic.core,
            )
            for nic in self._layout.dut_nics
        )

    @property
    def nics(self) -> tuple[tuple[str | None, str], ...]:
        """The same: file of the namespace, and name."""
        return tuple((nic.netns, nic.ifname) for nic in self.dut_interfaces)

    @property
    def behind(self) -> dict[str, tuple[str, ...]]:
        """DUT NIC -> the routers whose frames it receives."""
        return {
            nic.ifname: tuple(
                router.name
                for router in self._layout.routers
                if nic.far_ifname in (router.gen_ifname, router.rcv_ifname)
            )
            for nic in self._layout.dut_nics
        }

    @property
    def on_backlog(self) -> frozenset[str]:
        """Routers whose frames pass a core's backlog: their veths have no NAPI context."""
        return frozenset(router.name for router in self.plan.routers if router.path == "bridge")

    @property
    def host_sides(self) -> dict[str, DutInterface]:
        """Router -> the DUT's end of its sending interface, for routers with a policy."""
        return {
            router.name: DutInterface(
                netns=str(netns.NETNS_DIR / DUT),
                ifname=router.host_side,
                ifindex=self._ifindex[DUT, router.host_side],
                router=router.name,
                core=router.core,
            )
            for router in self._layout.routers
            if router.host_side is not None
        }

    @property
    def guest_threads(self) -> dict[str, dict[GuestPart, list[int]]]:
        """Router that is a virtual machine -> the host's threads that are the guest, by part."""
        return self._guests.threads()

    @property
    def responder_threads(self) -> dict[str, list[int]]:
        """Router -> the threads that answer frames in it, or work, where it is no guest."""
        found: dict[str, list[int]] = {}
        for programs in (self._responders, self._web, self._workers):
            for router, threads in programs.threads().items():
                found.setdefault(router, []).extend(threads)
        return found

    def work(self, works: Mapping[str, WorkTime]) -> None:
        """Have the programs of these routers work at these times, and no others.

        Raises
        ------
        MeasurementError
            If one of them has ended, or a guest does not answer.
        """

        def do() -> None:
            self._workers.check_alive()
            self._workers.work(works)
            self._guests.work(works)

        self._thread.do(do)

    @property
    def back_end_threads(self) -> tuple[list[int], tuple[str, ...]]:
        """The threads of the network back-end, and the routers that they work for together."""
        return self._back_end.threads(), self._back_end.routers

    @property
    def guest_processes(self) -> dict[str, int]:
        """Router that is a virtual machine -> this host's process that all of it comes from."""
        return self._guests.processes()

    @property
    def inner_interfaces(self) -> dict[str, tuple[str, str]]:
        """Router -> names of its receiving and its sending interface."""
        return {r.name: (r.in_ifname, r.out_ifname) for r in self._layout.routers if not r.served}

    @property
    def sending_macs(self) -> dict[str, str]:
        """Router -> the source address of what it sends to the receiver."""
        return {router.name: router.out_mac for router in self._layout.routers}

    def counters(self) -> Counters:
        """Take a snapshot of the loss counters; subtract two to get the losses in between.

        Raises
        ------
        MeasurementError
            Naming an interface that vanished, and its counters with it.
        """
        return self._thread.do(self._read_counters)

    def _read_counters(self) -> Counters:
        if self._reader is None:
            raise TestbedError("the test bed is not built")
        try:
            return self._reader.read()
        except OSError:
            self._check_alive()
            raise

    def start_polling(self) -> None:
        """Start timed polling of the DUT's NICs on their cores.

        Building the test bed does so, too. Call it again after :meth:`stop_polling`, and after
        attaching a program to a DUT NIC or switching its GRO or threading.
        """
        self._thread.do(self._polling.start)

    def stop_polling(self) -> None:
        """Stop timed polling, so that an idle DUT uses no CPU time."""
        self._thread.do(self._polling.stop)

    def receive_often(self) -> None:
        """Have the receiver's interfaces polled as a trial needs it, within `RARE_PAUSE_NS`.

        Raises
        ------
        MeasurementError
            Naming an interface that vanished.
        """
        self._receive_every(self._polling.receiver_pause_ns)

    def receive_rarely(self) -> None:
        """Have them polled seldom while no frames are sent: their core is wanted for other work.

        It is so from the beginning.

        Raises
        ------
        MeasurementError
            Naming an interface that vanished.
        """
        self._receive_every(RARE_PAUSE_NS)

    def _receive_every(self, pause_ns: int) -> None:
        def work() -> None:
            try:
                self._polling.receive_every(pause_ns)
            except OSError:
                self._check_alive()
                raise

        self._thread.do(work)

    def check_alive(self) -> None:
        """Check that every interface is still there and is the one that was made.

        Raises
        ------
        MeasurementError
            Naming the interface that vanished or went down.
        """
        self._thread.do(self._check_alive)

    def _check_alive(self) -> None:
        self._guests.check_alive()
        self._responders.check_alive()
        self._workers.check_alive()
        self._web.check_alive()
        self._back_end.check_alive()
        for (name, ifname), index in self._ifindex.items():
            with contextlib.suppress(OSError, KeyError):
                namespace = self._ns[name]
                up = ifname == "lo" or int(namespace.read(ifname, "flags"), 16) & 1
                if up and int(namespace.read(ifname, "ifindex")) == index:
                    continue
            raise MeasurementError(f"interface {ifname} in {name} vanished or went down")

    def drawing(
        self, cores: Mapping[str, tuple[int, ...]]
    ) -> tuple[tuple[Node, ...], tuple[Edge, ...]]:
        """Draw the wires between the devices, and the core of each.

        Parameters
        ----------
        cores
            Cores of routers that a policy has pinned.
        """
        return bed_drawing.draw(self.plan, self._layout, cores)

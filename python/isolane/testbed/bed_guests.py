"""The virtual machines of a test bed: started side by side, asked for their losses, ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal

from isolane.errors import MeasurementError, TestbedError
from isolane.guests import NicSocket, UmlGuest, UmlNic, UmlPlan
from isolane.guests.router_script import NICS, RouterSide, router_script
from isolane.testbed.guest_losses import GuestReading, at_rest, frames_received
from isolane.testbed.ip_counters import FILES, IpCounts
from isolane.testbed.journal import Journal
from isolane.testbed.layout import Layout, RouterLayout
from isolane.testbed.netns import Namespace

READY_S: Final = 120.0
"""Longest time until a guest is ready; eight of them on one core need some 10 s."""


class BedGuests:
    """The guests of a test bed, by router.

    All is done by the thread that enters namespaces: a guest ends with the thread that started it.

    Parameters
    ----------
    layout, namespaces
        The test bed: its namespaces and devices are there already.
    journal
        Records each guest before it is started.
    """

    def __init__(
        self, layout: Layout, namespaces: Mapping[str, Namespace], journal: Journal
    ) -> None:
        self._layout = layout
        self._ns = namespaces
        self._journal = journal
        self._guests: dict[str, UmlGuest] = {}
        self._sockets: dict[str, list[NicSocket]] = {}

    def start(self, go_on: Callable[[], None]) -> None:
        """Start all guests, and wait until each of them is ready.

        Parameters
        ----------
        go_on
            Raises when the building of the test bed was interrupted.

        Raises
        ------
        NotSupported
            If this host has no guest kernel.
        TestbedError
            If one of them does not get ready, with the last lines of its console.
        """
        routers = [router for router in self._layout.routers if router.guest]
        for router in routers:
            go_on()
            self._start(router)
        waiting = list(self._guests.values())
        while waiting:
            go_on()
            waiting = [guest for guest in waiting if not guest.is_ready(0.02)]

    def _start(self, router: RouterLayout) -> None:
        namespace = self._ns[router.netns]
        namespace.enter()
        nics = self._sockets.setdefault(router.name, [])
        for ifname in (router.in_ifname, router.out_ifname):
            nics.append(NicSocket(ifname))  # one by one: what is open is closed, whatever fails
        ip: Literal[4, 6] = 4 if self._layout.ip == 4 else 6
        sides = (
            RouterSide(router.in_address, router.src_ip, router.src_mac),
            RouterSide(router.out_address, router.dst_ip, router.dst_mac),
        )
        plan = UmlPlan(
            router.name,
            router_script(ip, sides),
            nics=(UmlNic(nics[0], router.in_mac), UmlNic(nics[1], router.out_mac)),
            core=router.core,
        )
        self._journal.record("guest", name=router.name)
        guest = UmlGuest(plan, READY_S)
        guest.start()
        self._guests[router.name] = guest

    def processes(self) -> dict[str, int]:
        """Return the process that all of each guest comes from."""
        return {router: guest.process for router, guest in self._guests.items()}

    def threads(self) -> dict[str, list[int]]:
        """Return the host's threads that are each guest."""
        return {router: guest.threads() for router, guest in self._guests.items()}

    def lost(self, router: RouterLayout) -> dict[str, int]:
        """Return the frames lost in a guest since it was started, by drop point.

        Raises
        ------
        MeasurementError
            When the guest does not answer any more.
        """
        try:
            return at_rest(lambda: self._read(router)).lost()
        except TestbedError as error:
            raise MeasurementError(str(error)) from None

    def _read(self, router: RouterLayout) -> GuestReading:
        guest, sockets = self._guests[router.name], self._sockets[router.name]
        received = frames_received(guest.proc("net/dev"))
        return GuestReading(
            refused=sum(each.dropped() for each in sockets),
            taken=sum(received.get(nic, 0) for nic in NICS),
            ip=IpCounts.of(self._layout.ip, guest.proc(FILES[self._layout.ip])),
            sent=int(self._ns[router.netns].read(router.out_ifname, "statistics/tx_packets")),
        )

    def check_alive(self) -> None:
        """Raise MeasurementError, naming a guest that has ended by itself."""
        for router, guest in self._guests.items():
            if not guest.is_running:
                raise MeasurementError(
                    f"the guest of router {router} has ended; its console: {guest.last_lines}"
                )

    def close(self) -> None:
        """End all guests."""
        while self._guests:
            self._guests.popitem()[1].close()
        while self._sockets:
            for one in self._sockets.popitem()[1]:
                one.close()

"""What a live bench needs to know of the bed that it measures on, whoever made that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from isolane.guests import GuestPart
from isolane.testbed import CapturePoint, Counters, DutInterface, Edge, Node, Wire, WorkTime


class MeasuredBed(Protocol):
    """Routers between the wires of generator and receiver, such as a :class:`Testbed`."""

    @property
    def own(self) -> bool:
        """Whether Isolane has made all of it, and so says who works on which core."""

    @property
    def untold(self) -> frozenset[str]:
        """Routers that do not tell where they lose frames."""

    @property
    def wires(self) -> tuple[Wire, ...]:
        """The wires of generator and receiver, one per router, in the order of the streams."""

    @property
    def nics(self) -> tuple[tuple[str | None, str], ...]:
        """Interfaces to describe in the results: file of the namespace (None: this one), name."""

    @property
    def dut_interfaces(self) -> tuple[DutInterface, ...]:
        """The DUT's receiving NICs on this host."""

    @property
    def behind(self) -> Mapping[str, tuple[str, ...]]:
        """DUT NIC -> the routers whose frames it receives."""

    @property
    def receive_threads(self) -> Mapping[str, list[int]]:
        """DUT NIC -> kernel threads that poll it."""

    @property
    def host_sides(self) -> Mapping[str, DutInterface]:
        """Router -> the DUT's end of its sending interface."""

    @property
    def guest_threads(self) -> Mapping[str, Mapping[GuestPart, list[int]]]:
        """Router -> the threads that are its guest, by what they do for it."""

    @property
    def responder_threads(self) -> Mapping[str, list[int]]:
        """Router -> the threads that answer frames in it, where it is no guest."""

    @property
    def back_end_threads(self) -> tuple[list[int], tuple[str, ...]]:
        """Threads that work for several routers together, and these routers."""

    @property
    def capture_points(self) -> Sequence[CapturePoint]:
        """Where frames can be stamped on their way."""

    @property
    def on_backlog(self) -> frozenset[str]:
        """Routers whose frames pass a core's backlog."""

    @property
    def receiver_moderation_ns(self) -> int:
        """Pause between two polls of a receiver's interface, ns; 0 where it is not Isolane's."""

    def work(self, works: Mapping[str, WorkTime]) -> None:
        """Have the programs of these routers work at these times, and no others."""

    def receive_often(self) -> None:
        """Have the receiver poll as often as delays need it, within milliseconds."""

    def receive_rarely(self) -> None:
        """Have it leave its core to other work, between two trials."""

    def counters(self) -> Counters:
        """Take a snapshot of the loss counters."""

    def check_alive(self) -> None:
        """Raise MeasurementError if an interface vanished or went down."""

    def drawing(
        self, cores: Mapping[str, tuple[int, ...]]
    ) -> tuple[tuple[Node, ...], tuple[Edge, ...]]:
        """Draw it; `cores` are those that a policy gave to routers."""

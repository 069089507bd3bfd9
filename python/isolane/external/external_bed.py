"""External routers as a bed to measure on: nothing is built, and little of them is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from isolane import rtnl
from isolane.errors import MeasurementError
from isolane.external.answering import Answering
from isolane.external.link_sockets import LinkSide
from isolane.external.router_examination import There, examine
from isolane.guests import GuestPart
from isolane.spec.external_models import External, ExternalSide
from isolane.testbed import CapturePoint, Counters, DutInterface, Edge, Node, Wire, WorkTime
from isolane.testbed.host_links import (
    OWN_NETNS,
    interface_index,
    netns_path,
    usable_link,
    with_links,
)

_GENERATOR, _ROUTERS, _RECEIVER = "generator", "external", "receiver"
_MISSED: Final = ("rx_missed_errors", "rx_fifo_errors")
"""Counters of frames that this host's own receiving interface had no room for. Not ``rx_dropped``:
many drivers (virtio_net, taps) count there what an XDP program drops, and the receiver drops all
that it has counted."""


@dataclass(frozen=True)
class _Router:
    """An external router, on both sides."""

    name: str
    ingress: There
    egress: There


class ExternalBed:
    """Routers that are there already, from entry to exit: their neighbours are answered for.

    Parameters
    ----------
    routers
        Name and addresses of each, in the order of the streams.
    measure_cores
        Cores of generator and receiver, for the drawing.

    Raises
    ------
    SpecError
        If an interface is not there, or down.
    MeasurementError
        If a router is not what the experiment says; see :func:`examine`.
    NotSupported
        Without the right to open raw sockets.
    """

    own: Final = False
    """Not made by Isolane."""
    receiver_moderation_ns: Final = 0
    receive_threads: Final[Mapping[str, list[int]]] = {}
    guest_threads: Final[Mapping[str, Mapping[GuestPart, list[int]]]] = {}
    capture_points: Final[tuple[CapturePoint, ...]] = ()
    responder_threads: Final[Mapping[str, list[int]]] = {}
    back_end_threads: Final[tuple[list[int], tuple[str, ...]]] = ([], ())
    host_sides: Final[Mapping[str, DutInterface]] = {}
    behind: Final[Mapping[str, tuple[str, ...]]] = {}
    on_backlog: Final[frozenset[str]] = frozenset()
    dut_interfaces: Final[tuple[DutInterface, ...]] = ()

    def __init__(
        self, routers: Sequence[tuple[str, External]], measure_cores: tuple[int, ...] = ()
    ) -> None:
        self._named = tuple(routers)
        self._cores = measure_cores
        self._routers: tuple[_Router, ...] = ()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._routers = tuple(map(_looked_for, self._named))
        sides = [side.link for router in self._routers for side in (router.ingress, router.egress)]
        with ExitStack() as stack:
            stack.enter_context(Answering(sides))
            for router in self._routers:
                examine(router.name, router.ingress, router.egress)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    @property
    def untold(self) -> frozenset[str]:
        """All of them: where frames are lost is known of this host's interfaces only."""
        return frozenset(name for name, _ in self._named)

    @property
    def wires(self) -> tuple[Wire, ...]:
        """What generator and receiver need, a wire for each router, in their order."""
        return tuple(
            Wire(
                router=router.name,
                gen_netns=router.ingress.link.netns or OWN_NETNS,
                gen_ifindex=router.ingress.link.ifindex,
                gen_ifname=router.ingress.link.ifname,
                src_mac=router.ingress.link.mac,
                dst_mac=router.ingress.mac,
                src_ip=str(router.ingress.link.own),
                src_count=1,
                dst_ip=str(router.egress.link.own),
                router_ip=str(router.ingress.address),
                rcv_netns=router.egress.link.netns or OWN_NETNS,
                rcv_ifindex=router.egress.link.ifindex,
                rcv_ifname=router.egress.link.ifname,
            )
            for router in self._routers
        )

    @property
    def nics(self) -> tuple[tuple[str | None, str], ...]:
        """This host's interfaces that lead to the routers: file of the namespace, name."""
        return tuple(
            dict.fromkeys(
                (side.link.netns, side.link.ifname)
                for router in self._routers
                for side in (router.ingress, router.egress)
            )
        )

    def work(self, works: Mapping[str, WorkTime]) -> None:
        """Do nothing: what the user's routers do is not Isolane's to say."""

    def receive_often(self) -> None:
        """Do nothing: the kernel decides when it polls the user's interfaces."""

    def receive_rarely(self) -> None:
        """Do nothing, either."""

    def counters(self) -> Counters:
        """Read what this host's own interfaces say that they lost; see :class:`Counters`.

        Raises
        ------
        MeasurementError
            Naming an interface that vanished.
        """
        seen = self._statistics()
        sent = {router.ingress.link for router in self._routers}
        received = {router.egress.link for router in self._routers}
        return Counters(
            lost={(None, "nic_queue"): sum(seen[side]["tx_dropped"] for side in sent)},
            backlog_dropped=0,
            receiver_dropped=sum(seen[side][name] for side in received for name in _MISSED),
        )

    def check_alive(self) -> None:
        """Check that this host's interfaces are still there, and up.

        Raises
        ------
        MeasurementError
            Naming the one that is not.
        """
        self._statistics()

    def _statistics(self) -> dict[LinkSide, dict[str, int]]:
        """Read the counters of this host's interfaces."""
        sides = {side.link for router in self._routers for side in (router.ingress, router.egress)}
        found: dict[LinkSide, dict[str, int]] = {}
        for netns in {side.netns for side in sides}:
            found |= _statistics_in(netns, [side for side in sides if side.netns == netns])
        return found

    def drawing(
        self,
        cores: Mapping[str, tuple[int, ...]],  # noqa: ARG002 - nobody's are known
    ) -> tuple[tuple[Node, ...], tuple[Edge, ...]]:
        """Draw the routers between the interfaces that lead to them."""
        nodes = [
            Node(_GENERATOR, "traffic generator", "generator", None, self._cores[:1]),
            Node(_ROUTERS, "not built by Isolane", "dut", None, ()),
            Node(_RECEIVER, "traffic receiver", "receiver", None, self._cores[-1:]),
        ]
        edges = []
        for router in self._routers:
            name = f"router-{router.name}"
            nodes.append(Node(name, f"{router.name} (external)", "router", _ROUTERS, ()))
            ends = []
            for box, side in ((_GENERATOR, router.ingress), (_RECEIVER, router.egress)):
                end = f"{box}:{side.link.netns or ''}:{side.link.ifname}"
                ends.append(end)
                if all(node.id != end for node in nodes):
                    nodes.append(Node(end, side.link.ifname, "device", box, ()))
            edges += [
                Edge(ends[0], name, router.ingress.link.ifname),
                Edge(name, ends[1], router.egress.link.ifname),
            ]
        return tuple(nodes), tuple(edges)


def look_for(routers: Sequence[tuple[str, External]]) -> None:
    """Look for the interfaces that lead to external routers; nothing is sent.

    Raises
    ------
    MeasurementError
        Naming one that is not there, or cannot be used.
    """
    for named in routers:
        _looked_for(named)


def _looked_for(named: tuple[str, External]) -> _Router:
    name, external = named
    return _Router(name, _there(external.ingress), _there(external.egress))


def _there(side: ExternalSide) -> There:
    path = netns_path(side.netns, "netns")

    def found(links: rtnl.IPRoute) -> LinkSide:
        index = interface_index(links, side.interface)
        link = usable_link(links, index, side.interface)
        mac = str(link.get_attr("IFLA_ADDRESS"))
        return LinkSide(path, side.interface, index, mac, side.own_address)

    return There(with_links(path, found), side.address.ip, side.mac)


def _statistics_in(netns: str | None, sides: Sequence[LinkSide]) -> dict[LinkSide, dict[str, int]]:
    def read(links: rtnl.IPRoute) -> dict[LinkSide, dict[str, int]]:
        found = {}
        for side in sides:
            try:
                link = links.get_links(side.ifindex)[0]
            except (rtnl.NetlinkError, IndexError):
                raise MeasurementError(f"interface {side.ifname} vanished") from None
            if link["state"] != "up":
                raise MeasurementError(f"interface {side.ifname} went down")
            found[side] = dict(link.get_attr("IFLA_STATS64"))
        return found

    return with_links(netns, read)

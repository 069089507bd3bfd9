"""Finds the ports of network back-ends that routers are at."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from isolane.enforce.find.host_namespace import HostNamespace
from isolane.enforce.router_facts import BackEndPort, FoundRouter, Interface
from isolane.netback import PortStatus, Status
from isolane.procfs import family, started


def with_ports(host: HostNamespace, router: FoundRouter) -> FoundRouter:
    """Return a router with its ports of back-ends.

    A virtual machine is attached to them; what leads to any other router, or is a machine's tap,
    is the interface of a port, which then stands in its place.
    """
    ports = [one for status in host.back_ends for one in _ports(status)]
    if not ports:
        return router
    by_interface = {status.interface: at for status, at in ports if status.interface}
    behind = tuple(_behind(at, by_interface) for at in router.interfaces)
    is_process = router.kind == "vm" and router.pid is not None
    members = set(family(router.pid)) if is_process and router.pid else set()
    attached = tuple(_attached(ports, members))
    return replace(router, interfaces=(*behind, *attached))


def _ports(status: Status) -> Iterator[tuple[PortStatus, BackEndPort]]:
    """Yield the ports of a back-end, unless it has just ended."""
    began = None if status.process is None else started(status.process)
    if status.process is None or began is None:
        return
    uplinks = {uplink.name: uplink for uplink in status.uplinks}
    for port in status.ports:
        uplink = uplinks[port.uplink]
        at = BackEndPort(
            status.name, port.name, port.uplink, uplink.scheduler, uplink.rate,
            status.process, began,
        )  # fmt: skip
        yield port, at


def _behind(at: Interface, ports: dict[str, BackEndPort]) -> Interface:
    outer = at.host_ifname or (at.ifname if at.netns is None else "")
    port = ports.get(outer)
    return at if port is None else _at(port, at if at.how == "veth" else None)


def _attached(
    ports: Collection[tuple[PortStatus, BackEndPort]], members: Collection[int]
) -> Iterator[Interface]:
    return (_at(port) for status, port in ports if status.process in members)


def _at(port: BackEndPort, behind: Interface | None = None) -> Interface:
    return Interface("port", None, f"{port.back_end}/{port.name}", 0, "", port=port, behind=behind)

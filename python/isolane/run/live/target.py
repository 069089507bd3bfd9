"""Finding out what must stand in the headers of frames to a router."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from isolane.errors import SpecError
from isolane.run.live.traffic import Target, check_source
from isolane.testbed import kernel
from isolane.testbed.hands import apart

T = TypeVar("T")

_LOOPBACK = 0x8
"""IFF_LOOPBACK."""
RUN_NETNS = Path("/run/netns")
MAC = re.compile(r"[0-9a-fA-F]{1,2}(:[0-9a-fA-F]{1,2}){5}")


def netns_path(name: str | None) -> str | None:
    """Return the file of a network namespace: a name as ``ip netns`` lists it, or a path.

    Raises
    ------
    SpecError
        If there is none.
    """
    if name is None:
        return None
    path = Path(name) if "/" in name else RUN_NETNS / name
    if not path.exists():
        raise SpecError(f"--netns {name}: there is no network namespace {path}")
    return str(path)


def with_links(netns: str | None, work: Callable[[IPRoute], T]) -> T:
    """Run ``work`` with a netlink socket of the namespace (None: this one).

    In a thread that enters the namespace: ``IPRoute(netns=)`` forks this process for the purpose
    and ends the child with a SIGTERM, which our handler would turn into an orderly exit there.

    Raises
    ------
    SpecError
        If the file is not a network namespace.
    """

    def entered() -> T:
        if netns is not None:
            descriptor = os.open(netns, os.O_RDONLY | os.O_CLOEXEC)
            try:
                kernel.setns_net(descriptor)
            except OSError:
                raise SpecError(f"--netns {netns}: not a network namespace") from None
            finally:
                os.close(descriptor)
        with IPRoute() as links:
            return work(links)

    return apart(entered)


def interface_index(links: IPRoute, name: str) -> int:
    """Return the index of an interface.

    Raises
    ------
    SpecError
        Naming the interfaces that there are.
    """
    found = links.link_lookup(ifname=name)
    if not found:
        names = sorted(str(link.get_attr("IFLA_IFNAME")) for link in links.get_links())
        raise SpecError(f"{name}: there is no such interface; there are {', '.join(names)}")
    return int(found[0])


def resolve(
    interface: str,
    destination: str,
    *,
    source: str | None = None,
    mac: str | None = None,
    netns: str | None = None,
) -> Target:
    """Fill in what the user left out: addresses of the interface, MAC of the next hop.

    Raises
    ------
    SpecError
        If something cannot be found out; the message says which option gives it.
    """
    try:
        ipaddress.ip_address(destination)
    except ValueError:
        raise SpecError(f"--to {destination}: not an IP address") from None
    path = netns_path(netns)

    def found(links: IPRoute) -> Target:
        index = interface_index(links, interface)
        link = links.get_links(index)[0]
        if link["flags"] & _LOOPBACK:
            raise SpecError(
                f"{interface} is loopback, which has no Ethernet addresses; accepted: a NIC, or "
                "the end of a veth pair"
            )
        if link["state"] != "up":
            raise SpecError(f"{interface} is down; ip link set {interface} up")
        if mac is not None and not MAC.fullmatch(mac):
            raise SpecError(f"--mac {mac}: not a MAC address such as 02:00:00:00:00:01")
        src_ip = source or _own_address(links, index, destination, interface)
        check_source(src_ip, destination)
        return Target(
            ifindex=index,
            src_mac=str(link.get_attr("IFLA_ADDRESS")),
            dst_mac=mac or _next_hop_mac(links, index, destination),
            src_ip=src_ip,
            dst_ip=destination,
            netns=path,
            line_bps=_line_bps(interface) if path is None else None,
        )

    return with_links(path, found)


def _own_address(links: IPRoute, index: int, destination: str, interface: str) -> str:
    version = ipaddress.ip_address(destination).version
    family = 2 if version == 4 else 10
    for entry in links.get_addr(index=index, family=family):
        address = str(entry.get_attr("IFA_ADDRESS"))
        if version == 4 or not ipaddress.ip_address(address).is_link_local:
            return address
    raise SpecError(f"{interface} has no IPv{version} address; name the source with --from ADDRESS")


def _next_hop_mac(links: IPRoute, index: int, destination: str) -> str:
    hop = destination
    try:
        route: Any = links.route("get", dst=destination, oif=index)[0]
        hop = str(route.get_attr("RTA_GATEWAY") or destination)
    except (NetlinkError, IndexError):
        pass  # no route: the destination may still be a neighbour
    for entry in links.get_neighbours(ifindex=index):
        if entry.get_attr("NDA_DST") == hop and entry.get_attr("NDA_LLADDR"):
            return str(entry.get_attr("NDA_LLADDR"))
    raise SpecError(f"the MAC address of {hop} is not known; ping it first, or name it with --mac")


def _line_bps(interface: str) -> float | None:
    """Return the interface's speed, bit/s; None where the driver does not tell, or a veth's own."""
    try:
        link = Path("/sys/class/net") / interface
        if os.path.lexists(link / "device"):
            speed = int((link / "speed").read_text())
            return speed * 1e6 if speed > 0 else None
    except (OSError, ValueError):
        pass
    return None

"""Interfaces that are the user's: finding them, in whatever network namespace they are."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from isolane import rtnl
from isolane.errors import SpecError
from isolane.testbed import kernel
from isolane.testbed.namespace_thread import run_in_thread
from isolane.testbed.netns import NETNS_DIR

T = TypeVar("T")

_LOOPBACK = 0x8
"""IFF_LOOPBACK."""


OWN_NETNS = "/proc/self/ns/net"
"""File of this process's network namespace, for those that need one."""


def netns_path(name: str | None, key: str = "--netns") -> str | None:
    """Return the file of a network namespace: a name as ``ip netns`` lists it, or a path.

    Parameters
    ----------
    key
        The option, or the key of a file, that names it.

    Raises
    ------
    SpecError
        If there is none.
    """
    if name is None:
        return None
    path = Path(name) if "/" in name else NETNS_DIR / name
    if not name or not path.exists():
        raise SpecError(f"{key} {name}: there is no network namespace {path}")
    return str(path)


def in_netns(netns: str | None, work: Callable[[], T]) -> T:
    """Run ``work`` in a thread that has entered a namespace, by its file (None: this one).

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
                raise SpecError(f"{netns} is not a network namespace") from None
            finally:
                os.close(descriptor)
        return work()

    return run_in_thread(entered)


def with_links(netns: str | None, work: Callable[[rtnl.IPRoute], T]) -> T:
    """Run ``work`` with a netlink socket of the namespace, as :func:`in_netns` does.

    ``IPRoute(netns=)`` would fork this process and end the child with a SIGTERM, which our handler
    would turn into an orderly exit there.
    """

    def with_socket() -> T:
        with rtnl.IPRoute() as links:
            return work(links)

    return in_netns(netns, with_socket)


def interface_index(links: rtnl.IPRoute, name: str) -> int:
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


def usable_link(links: rtnl.IPRoute, index: int, name: str) -> Any:
    """Return an interface that Ethernet frames can be sent by.

    Raises
    ------
    SpecError
        If it is loopback, or down.
    """
    link = links.get_links(index)[0]
    if link["flags"] & _LOOPBACK:
        raise SpecError(
            f"{name} is loopback, which has no Ethernet addresses; accepted: a NIC, or "
            "the end of a veth pair"
        )
    if link["state"] != "up":
        raise SpecError(f"{name} is down; ip link set {name} up")
    return link

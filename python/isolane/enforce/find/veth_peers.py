"""Finds the other end of veths that serve as NICs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from isolane.enforce.find.absent import Absent
from isolane.enforce.find.host_namespace import HostNamespace, all_namespaces, open_namespace
from isolane.enforce.find.links import Link
from isolane.enforce.find.router_interfaces import look_inside
from isolane.testbed.namespace_thread import run_in_thread


@dataclass(frozen=True)
class Peer:
    """The other end of a veth."""

    netns: Path | None
    """File of its network namespace; None: the host's."""
    ifname: str


def find_peers(veths: Iterable[str]) -> dict[str, Peer]:
    """Return the other ends of veths of this host, by name.

    An end is left out if its namespace cannot be entered, because it has neither a name nor a
    process that is visible here. This is so when the host is itself a container.
    """

    def look() -> dict[str, Peer]:
        with HostNamespace() as host:
            links = {ifname: host.by_name(ifname) for ifname in veths}
            found = {name: _peer(host, link) for name, link in links.items() if link is not None}
            return {name: peer for name, peer in found.items() if peer is not None}

    return run_in_thread(look)


def _peer(host: HostNamespace, veth: Link) -> Peer | None:
    if veth.netnsid is None:
        inner = host.links.get(veth.link or 0)
        return None if inner is None else Peer(None, inner.ifname)
    for path in all_namespaces():
        with suppress(Absent, OSError):
            namespace = open_namespace(path, "")
            try:
                if host.netlink.number_of(namespace) != veth.netnsid:
                    continue
                links = look_inside(host, namespace, path).links
            finally:
                os.close(namespace)
            inner = next((link for link in links if link.ifindex == veth.link), None)
            return None if inner is None else Peer(path, inner.ifname)
    return None

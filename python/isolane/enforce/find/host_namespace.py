"""The host's network namespace as the search for routers reads it, and how to enter others."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Self, TypeVar

from isolane import rtnl
from isolane.enforce.find.absent import Absent
from isolane.enforce.find.links import (
    Link,
    PortVlan,
    read_learned,
    read_links,
    read_port_vlans,
)
from isolane.enforce.find.netlink_socket import Netlink
from isolane.enforce.find.processes import PROC
from isolane.errors import NotSupported
from isolane.netback import Status, statuses
from isolane.testbed import kernel
from isolane.testbed.netns import NETNS_DIR

T = TypeVar("T")


class HostNamespace:
    """The interfaces of the calling thread's network namespace, read once; enters others.

    Use it only in the thread that created it, and give it a thread of its own
    (:func:`isolane.testbed.namespace_thread.run_in_thread`).

    Parameters
    ----------
    nics
        Names of the NICs that routers share, to find the VLANs behind bridges.
    """

    def __init__(self, nics: Iterable[str] = ()) -> None:
        self.nics = frozenset(nics)
        self.fd = kernel.open_own_net()
        self.inode = os.fstat(self.fd).st_ino
        self.netlink = Netlink()
        self.links = read_links(self.netlink)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.netlink.close()
        os.close(self.fd)

    @cached_property
    def back_ends(self) -> tuple[Status, ...]:
        """The network back-ends that run here; without NICs nobody asks for them."""
        found = statuses(all_of_them=True) if self.nics else ()
        return tuple(status for status in found if status.netns == self.inode)

    @contextmanager
    def inside(self, namespace: int) -> Iterator[Netlink]:
        """Enter a network namespace for a while; yields a netlink socket in it.

        Raises
        ------
        NotSupported
            When that is not permitted.
        """
        try:
            kernel.setns_net(namespace)
        except PermissionError:
            raise NotSupported("entering a router's network namespace needs root") from None
        try:
            with Netlink() as netlink:
                yield netlink
        finally:
            kernel.setns_net(self.fd)

    def by_name(self, ifname: str) -> Link | None:
        """Return the host's interface of this name."""
        return next((link for link in self.links.values() if link.ifname == ifname), None)

    def owner_of(self, mac: str, besides: int | None) -> Link | None:
        """Return an interface of the host that has a MAC address; None: none has.

        Frames to such an address are the host's own.

        Parameters
        ----------
        besides
            Index of an interface of the host that may have it, with those that have it from there:
            what stands on it (a VLAN), and the bridge or bond that it is a port of.
        """
        own = self.links.get(besides or 0)
        found = self._by_mac.get(mac, ())
        return next((link for link in found if own is None or not _has_from(link, own)), None)

    @cached_property
    def _by_mac(self) -> dict[str, list[Link]]:
        found: dict[str, list[Link]] = {}
        for link in self.links.values():
            found.setdefault(link.mac, []).append(link)
        return found

    def bridge_of(self, port: Link) -> Link | None:
        """Return the Linux bridge that an interface of the host is a port of."""
        master = self.links.get(port.master or 0)
        return master if master is not None and master.kind == "bridge" else None

    @cached_property
    def learned(self) -> dict[int, tuple[str, ...]]:
        """Index of a bridge's port -> MAC addresses that the bridge has learned there."""
        ports = [link.ifindex for link in self.links.values() if self.bridge_of(link)]
        with rtnl.IPRoute() as netlink:
            return read_learned(netlink, ports)

    @cached_property
    def _port_vlans(self) -> dict[int, PortVlan]:
        with rtnl.IPRoute() as netlink:
            return read_port_vlans(netlink)

    def vlan_of(self, port: Link) -> int:
        """Return the VLAN that frames to a port of a bridge carry on the NIC; 0: untagged."""
        return vlan_on_nic(self.links, port, self.nics, lambda: self._port_vlans)


def _has_from(link: Link, own: Link) -> bool:
    """Tell whether an interface is another one, or may have its address from there."""
    stands_on_it = link.link == own.ifindex and link.netnsid is None
    return link.ifindex in (own.ifindex, own.master) or stands_on_it


def vlan_on_nic(
    links: Mapping[int, Link],
    port: Link,
    nics: Collection[str],
    port_vlans: Callable[[], Mapping[int, PortVlan]],
) -> int:
    """Return the VLAN that frames to a port of a bridge carry on the NIC.

    Parameters
    ----------
    links
        The host's interfaces by index.
    nics
        Names of the NICs that routers share.
    port_vlans
        VLANs of each port, for a bridge that filters by VLAN.

    Returns
    -------
    int
        0 when they are untagged, or when no NIC of ``nics`` is behind the bridge.
    """
    bridge = links.get(port.master or 0)
    if bridge is None or bridge.kind != "bridge":
        return 0
    for uplink in links.values():
        below = links.get(uplink.link or 0) if uplink.kind == "vlan" else uplink
        if uplink.master != bridge.ifindex or below is None or below.ifname not in nics:
            continue
        if uplink.vlan or not bridge.filtering:
            return uplink.vlan
        vlan = port_vlans().get(port.ifindex, PortVlan()).pvid
        return 0 if vlan in port_vlans().get(uplink.ifindex, PortVlan()).untagged else vlan
    return 0


def open_namespace(path: Path, missing: str) -> int:
    """Open the file of a network namespace.

    Raises
    ------
    Absent
        With the sentence ``missing`` when there is no such file (or its process has ended).
    NotSupported
        When it may not be opened.
    """
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM) and os.geteuid() != 0:
            raise NotSupported(f"opening {path} needs root") from None
        if error.errno in (errno.ENOENT, errno.ESRCH, errno.ENOTDIR):
            raise Absent(missing) from None
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise  # who takes a router for gone takes its policy away
        raise Absent(f"{path} cannot be opened: {os.strerror(error.errno or 0)}") from None


def in_other_namespaces(
    host: HostNamespace, look: Callable[[Path, int], T]
) -> Iterator[tuple[Path, T]]:
    """Look into all network namespaces but the host's; yields the file of each and what was found.

    One that is gone, or just going, is passed over.

    Parameters
    ----------
    look
        Gets a namespace's file and descriptor; it may enter it (:meth:`HostNamespace.inside`).
    """
    for path in all_namespaces():
        with suppress(Absent, OSError):
            namespace = open_namespace(path, "")
            try:
                if os.fstat(namespace).st_ino == host.inode:
                    continue
                found = look(path, namespace)
            finally:
                os.close(namespace)
            yield path, found


def all_namespaces() -> Iterator[Path]:
    """Yield a file for each network namespace that has a name or a process, each namespace once.

    Named ones first: such a path stays when processes end.
    """
    seen: set[int] = set()
    named: list[Path] = []
    with suppress(FileNotFoundError):  # nobody has named one yet
        named = sorted(NETNS_DIR.iterdir())
    by_process = (entry / "ns/net" for entry in PROC.iterdir() if entry.name.isdecimal())
    for path in (*named, *by_process):
        with suppress(OSError):  # it has ended, or is a kernel thread
            inode = path.stat().st_ino
            if inode not in seen:
                seen.add(inode)
                yield path

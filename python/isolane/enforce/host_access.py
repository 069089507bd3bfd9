"""The host as settings see it: namespaces, cgroups, BPF programs and tables."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
import sys
from pathlib import Path
from typing import Any

from isolane import _native
from isolane.enforce.cpu_cgroups import Groups
from isolane.enforce.find.host_namespace import all_namespaces
from isolane.enforce.htb import ClassSettings, read_classes, read_leaves
from isolane.enforce.nic_features import takes_xdp
from isolane.errors import NotSupported, TestbedError
from isolane.netback import status_of
from isolane.netdev import XdpFeature, xdp_features
from isolane.testbed import kernel
from isolane.testbed.netns import Namespace

GROUP = "isolane"


_SO_NETNS_COOKIE = 71
_GONE = {errno.ENOENT, errno.ENOTDIR, errno.ESRCH, errno.ENODEV, errno.EINVAL}
"""What the file of a namespace answers that is gone, its process with it, or that is none now."""
_LOST = re.compile(r"rx_queue_\d+_drops|tx_queue_\d+_xdp_xmit_errors").fullmatch
"""Counters of drivers/net/veth.c; what a program drops is counted elsewhere."""


def cookie_of(sock: socket.socket) -> int:
    """Return the cookie of the namespace that a socket was made in; 0 before Linux 5.14."""
    try:
        return int.from_bytes(
            sock.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, 8), sys.byteorder
        )
    except OSError:
        return 0


def _let_be_gone(error: OSError) -> None:
    """Go on where a namespace is gone; anything else, as too many open files, is an error."""
    if error.errno not in _GONE:
        raise error


def find_namespace(cookie: int) -> Path | None:
    """Return the file of the namespace with this cookie; the calling thread moves about."""
    home = kernel.open_own_net()
    try:
        for path in all_namespaces():
            with contextlib.suppress(OSError):
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    kernel.setns_net(fd)
                finally:
                    os.close(fd)
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                    if cookie_of(sock) == cookie:
                        return path
    finally:
        kernel.setns_net(home)
        os.close(home)
    return None


class Host:
    """What settings read and write; enters namespaces.

    So it lives in a thread of its own (:class:`isolane.testbed.namespace_thread.NamespaceThread`).

    Parameters
    ----------
    base
        File of the namespace that the NICs are in; None: the one of the calling process.
    group
        Name of the cgroup that all routers' groups are in.
    """

    def __init__(self, base: Path | None = None, group: str = GROUP) -> None:
        # Settings are named by it: it has to be the same from one command to the next.
        self.base = str(base) if base else "/proc/self/ns/net"
        self.groups = Groups(group)
        self.nics: set[str] = set()
        """Interfaces that may have the demultiplexer: those of the policies, old and new."""
        self._namespaces: dict[str, tuple[int, Namespace]] = {}
        self._plane: _native.Plane | None = None
        self._classes: dict[tuple[str, str], dict[int, ClassSettings]] = {}
        self._clsact: dict[str, set[int]] = {}
        self._leaves: dict[tuple[str, str], dict[int, int]] = {}
        self._xdp: dict[str, dict[int, XdpFeature]] = {}
        self._ports: dict[str, dict[str, dict[str, Any]]] = {}
        self._home = kernel.open_own_net()
        self._gone = False

    @property
    def identity(self) -> int:
        """What tells the namespace that the NICs are in from all others; 0 when it is gone.

        Not the number of its file, which the kernel gives to the next namespace: its cookie
        (Linux 5.14), which belongs to one until the next boot.
        """
        namespace = self.namespace(self.base)
        return 0 if namespace is None else cookie_of(namespace.ioctl)

    def leave_base(self) -> None:
        """Take the namespace that the NICs are in for gone."""
        self._gone = True

    def go_home(self) -> None:
        """Have the thread enter the namespace that it began in."""
        kernel.setns_net(self._home)

    def close(self) -> None:
        """Let go of everything and leave the thread where it began."""
        for _, namespace in self._namespaces.values():
            namespace.close()
        self._namespaces.clear()
        self._plane = None
        self.go_home()
        os.close(self._home)

    def namespace(self, path: str) -> Namespace | None:
        """Return the namespace behind a file, entered; None when it is gone."""
        if self._gone and path == self.base:
            return None
        try:
            inode = os.stat(path).st_ino  # noqa: PTH116 - tens of thousands of times in a command
        except OSError as error:
            _let_be_gone(error)
            return None
        known = self._namespaces.get(path)
        if known and known[0] == inode:
            known[1].enter()
            return known[1]
        if known:
            known[1].close()
            del self._namespaces[path]
        try:
            namespace = Namespace(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            _let_be_gone(error)
            return None
        self._namespaces[path] = (inode, namespace)
        return namespace

    @property
    def here(self) -> Namespace:
        """The namespace that the NICs are in.

        Raises
        ------
        TestbedError
            If it is gone.
        """
        namespace = self.namespace(self.base)
        if namespace is None:
            raise TestbedError(f"{self.base}: there is no network namespace")
        return namespace

    def ifindex(self, path: str, ifname: str) -> int | None:
        """Return the index of an interface; None when it (or its namespace) is gone."""
        namespace = self.namespace(path)
        return None if namespace is None else namespace.index_of(ifname)

    def classes(self, path: str, ifname: str) -> dict[int, ClassSettings]:
        """Return the settings of the link classes of an interface, read once; see LinkClass."""
        key = (path, ifname)
        if key not in self._classes:
            namespace, index = self.namespace(path), self.ifindex(path, ifname)
            if namespace is None or index is None:
                return {}
            self._classes[key] = read_classes(namespace, index)
        return self._classes[key]

    def classifiers(self, path: str) -> set[int]:
        """Return the interfaces of a namespace that have a clsact qdisc, read once."""
        if path not in self._clsact:
            namespace = self.namespace(path)
            found = namespace.links.get_qdiscs() if namespace else ()
            self._clsact[path] = {q["index"] for q in found if q.get_attr("TCA_KIND") == "clsact"}
        return self._clsact[path]

    def leaves(self, path: str, ifname: str) -> dict[int, int]:
        """Return the queues of the link classes of an interface, read once; see LeafQueue."""
        key = (path, ifname)
        if key not in self._leaves:
            namespace, index = self.namespace(path), self.ifindex(path, ifname)
            if namespace is None or index is None:
                return {}
            self._leaves[key] = read_leaves(namespace, index)
        return self._leaves[key]

    def port_shares(self, back_end: str) -> dict[str, dict[str, Any]]:
        """Return the keys of a network back-end's ports, read once; none where none runs.

        Raises
        ------
        MeasurementError
            If it does not answer.
        """
        if back_end not in self._ports:
            try:
                found = status_of(back_end)
            except TestbedError:
                return {}
            self._ports[back_end] = {port.name: dict(port.shares) for port in found.ports}
        return self._ports[back_end]

    def takes_xdp(self, path: str, index: int) -> bool:
        """Tell whether XDP can send by an interface, read once; kernels that do not tell: yes."""
        if path not in self._xdp:
            self._xdp[path] = xdp_features() if self.namespace(path) else {}
        return not self._xdp[path] or takes_xdp(self._xdp[path].get(index, XdpFeature(0)))

    def lost(self, path: str, ifname: str) -> int:
        """Return the frames that XDP has sent to or from a veth and that the kernel has lost.

        It counts them there alone: a ring that was full, an interface that was down or took no
        frames from XDP, no memory. Other drivers have no such counters; an interface that is gone
        has lost nothing.
        """
        namespace = self.namespace(path)
        if namespace is None:
            return 0
        with contextlib.suppress(OSError):
            # Read anew each time: whoever has the interface may change its queues at any moment.
            found = kernel.counters(namespace.ioctl, ifname)
            return sum(value for name, value in found if _LOST(name))
        return 0

    def forget_classes(self, path: str, ifname: str) -> None:
        """Have the classes read afresh: the root that they hang on has changed."""
        self._classes.pop((path, ifname), None)
        self._leaves.pop((path, ifname), None)

    @property
    def plane(self) -> _native.Plane:
        """Programs and tables: those that are attached to a NIC, else new ones.

        Raises
        ------
        NotSupported
            If the kernel refuses the programs.
        """
        if self._plane is None:
            try:
                self._plane = self.attached_plane() or _native.Plane()
            except _native.UnsupportedError as error:
                raise NotSupported(f"not supported on this host: {error}") from None
            except _native.NativeError as error:
                raise TestbedError(str(error)) from None
        return self._plane

    def attached_plane(self) -> _native.Plane | None:
        """Return the plane that is attached to a NIC of this host; None when there is none."""
        if self._plane is not None:
            return self._plane
        for ifname in self.nics:
            index = self.ifindex(self.base, ifname)
            plane = None if index is None else _native.Plane.open(netns=None, ifindex=index)
            if plane is not None:
                self._plane = plane
                return plane
        return None

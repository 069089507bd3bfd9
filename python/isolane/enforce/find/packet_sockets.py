"""Finds the interfaces that a process takes frames from by packet sockets (packet(7))."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from isolane.enforce.find.host_namespace import HostNamespace, in_other_namespaces
from isolane.enforce.find.links import Link
from isolane.enforce.find.processes import PROC, descriptors_of
from isolane.enforce.find.router_interfaces import Inside, look_inside

_SOCKETS: Final = Path("/proc/thread-self/net/packet")
"""Those of the reading thread's network namespace."""


@dataclass(frozen=True)
class Bound:
    """An interface that a packet socket is bound to."""

    netns: Path | None
    """File of its network namespace; None: the host's."""
    link: Link
    host_number: int | None
    """The host's namespace's identifier (nsid) there."""


def sockets_of(process: int) -> set[int]:
    """Return the inode numbers of the sockets that a process has open."""
    found = set()
    for descriptor in descriptors_of(process):
        with suppress(OSError):  # closed meanwhile
            target = (PROC / str(process) / "fd" / str(descriptor)).readlink()
            if told := re.fullmatch(r"socket:\[(\d+)\]", str(target)):
                found.add(int(told[1]))
    return found


def bound_to(host: HostNamespace, sockets: Collection[int]) -> Iterator[Bound]:
    """Yield the interfaces that packet sockets among `sockets` are bound to, in all namespaces.

    Parameters
    ----------
    sockets
        Inode numbers.
    """
    here = parse(_SOCKETS.read_text())
    for ifindex in sorted({index for inode, index in here.items() if inode in sockets}):
        if ifindex in host.links:
            yield Bound(None, host.links[ifindex], None)

    def look(path: Path, namespace: int) -> tuple[set[int], Inside | None]:
        with host.inside(namespace):
            there = parse(_SOCKETS.read_text())
        indices = {index for inode, index in there.items() if inode in sockets}
        return indices, look_inside(host, namespace, path) if indices else None

    for path, (indices, inside) in in_other_namespaces(host, look):
        if inside is not None:
            for link in sorted(inside.links, key=lambda link: link.ifindex):
                if link.ifindex in indices:
                    yield Bound(path, link, inside.host_number)


def parse(text: str) -> dict[int, int]:
    """Read ``/proc/net/packet``; returns the interface's index by the socket's inode number."""
    lines = (line.split() for line in text.splitlines()[1:])
    return {int(fields[8]): int(fields[4]) for fields in lines if len(fields) > 8}

"""Finds the interfaces that a process takes all frames from with a macvtap in mode passthru.

The emulator of a virtual machine has the macvtap's character device open. Its number leads to the
macvtap, in whichever network namespace that is, and the macvtap to the interface below it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from isolane.enforce.find.host_namespace import HostNamespace, in_other_namespaces
from isolane.enforce.find.links import Link
from isolane.enforce.find.packet_sockets import Bound
from isolane.enforce.find.processes import PROC, descriptors_of
from isolane.enforce.find.router_interfaces import Inside, look_inside
from isolane.testbed import kernel

_KIND = "macvtap"


def devices_of(process: int) -> set[tuple[int, int]]:
    """Return the numbers, major and minor, of the macvtaps that a process has open."""
    majors = majors_of(Path("/proc/devices").read_text(), _KIND)
    found = set()
    for descriptor in descriptors_of(process):
        with suppress(OSError):  # closed meanwhile
            status = (PROC / str(process) / "fd" / str(descriptor)).stat()
            number = os.major(status.st_rdev), os.minor(status.st_rdev)
            if stat.S_ISCHR(status.st_mode) and number[0] in majors:
                found.add(number)
    return found


def majors_of(text: str, name: str) -> set[int]:
    """Return the major numbers of a driver's character devices by ``/proc/devices``."""
    characters = text.partition("Block devices")[0]
    lines = (line.split() for line in characters.splitlines())
    return {int(words[0]) for words in lines if len(words) == 2 and words[1] == name}


def below(
    host: HostNamespace, devices: Collection[tuple[int, int]]
) -> Iterator[tuple[Link, Bound]]:
    """Yield the macvtaps of these numbers that are not in the host's namespace, and what is below.

    What is below is an interface of the same namespace, as that of a macvtap in mode passthru which
    was made there. Where it is in another one, others may have macvtaps on it, and what is told is
    the macvtap itself.
    """
    if not devices:
        return

    def look(path: Path, namespace: int) -> tuple[Inside, list[Link]]:
        inside = look_inside(host, namespace, path)
        taps = [link for link in inside.links if link.kind == _KIND]
        return inside, list(_with_numbers(host, namespace, taps, devices)) if taps else []

    for path, (inside, taps) in in_other_namespaces(host, look):
        links = {link.ifindex: link for link in inside.links}
        for tap in taps:
            lower = links.get(tap.link or 0) if tap.netnsid is None else None
            yield tap, Bound(path, lower or tap, inside.host_number)


def _with_numbers(
    host: HostNamespace, namespace: int, taps: list[Link], devices: Collection[tuple[int, int]]
) -> Iterator[Link]:
    """Yield the macvtaps of a namespace that have one of these numbers."""
    with host.inside(namespace):
        sysfs = kernel.open_detached()
    try:
        for tap in taps:
            file = f"class/net/{tap.ifname}/{_KIND}/tap{tap.ifindex}/dev"
            with suppress(OSError):  # just going
                descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC, dir_fd=sysfs)
                with os.fdopen(descriptor) as opened:
                    major, minor = opened.read().split(":")
                if (int(major), int(minor)) in devices:
                    yield tap
    finally:
        os.close(sysfs)

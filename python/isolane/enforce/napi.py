"""Kernel threads that poll an interface, by the netdev family of generic netlink (Linux 6.8).

Asked for with a plain socket: with some hundred namespaces, the making of a library's socket in
each of them would take longer than all the rest.
"""

from __future__ import annotations

import functools
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress

from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.generic import GenericNetlinkSocket

from isolane.errors import NotSupported
from isolane.testbed.netns import Namespace

_NETLINK_GENERIC = 16
_REQUEST, _DUMP = 0x1, 0x300
_DONE, _ERROR = 3, 2
_NAPI_GET = 11
_IFINDEX, _PID = 1, 4
"""Attributes of ``napi`` in Documentation/netlink/specs/netdev.yaml."""
_APPEAR_S = 1.0
_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")


@functools.cache
def _family() -> int:
    """Return the number of the netdev family; the same in all namespaces."""
    try:
        with GenericNetlinkSocket() as generic:
            generic.bind("netdev", _NoMessage)
            return int(generic.prid)
    except (NetlinkError, KeyError) as error:
        raise NotSupported(
            f"not supported on this host: the kernel does not tell its NAPI threads ({error}); "
            "needs Linux 6.8"
        ) from None


class _NoMessage:
    """Nothing is parsed by the library."""


def threads_of(namespace: Namespace, ifindex: int) -> list[int]:
    """Return the NAPI threads of an interface, sorted; waits until the kernel has made them.

    Raises
    ------
    NotSupported
        If the kernel does not tell, or there are none: no NAPI, or the interface is down.
    """
    family, name = _family(), f"number {ifindex}"
    deadline = time.monotonic() + _APPEAR_S
    namespace.enter()
    while True:
        found = sorted(pid for index, pid in _ask(family) if index == ifindex and pid)
        if found:
            return found
        if time.monotonic() > deadline:
            with suppress(OSError):  # else it has vanished: its number is all that is known
                name = socket.if_indextoname(ifindex)
            raise NotSupported(
                f"interface {name} of {namespace.name} has no NAPI thread: its driver has no "
                "NAPI, or it is down"
            )
        time.sleep(0.002)


def _ask(family: int) -> Iterator[tuple[int, int]]:
    """Yield (interface, thread) of each NAPI instance of the namespace."""
    body = struct.pack("=BBH", _NAPI_GET, 1, 0)
    request = _HEADER.pack(_HEADER.size + len(body), family, _REQUEST | _DUMP, 1, 0) + body
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_GENERIC) as link:
        link.sendto(request, (0, 0))
        while True:
            answer = link.recv(1 << 16)
            while answer:
                length, kind, *_ = _HEADER.unpack_from(answer)
                if kind in (_DONE, _ERROR):
                    return
                yield _attributes(answer[_HEADER.size + 4 : length])
                answer = answer[(length + 3) & ~3 :]


def _attributes(data: bytes) -> tuple[int, int]:
    found = {_IFINDEX: 0, _PID: 0}
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        if kind in found:
            found[kind] = int.from_bytes(data[4:8], "little")
        data = data[(length + 3) & ~3 :]
    return found[_IFINDEX], found[_PID]

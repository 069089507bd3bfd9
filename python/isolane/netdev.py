"""What the kernel tells of interfaces by netdev, a family of generic netlink: XDP, NAPI threads.

Asked by a plain socket: with some hundred namespaces, making pyroute2's socket in each of them
would take longer than everything else. Source: Documentation/netlink/specs/netdev.yaml.
"""

from __future__ import annotations

import errno
import functools
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from enum import IntFlag

from isolane import rtnl
from isolane.errors import NotSupported

_NETLINK_GENERIC = 16
_REQUEST, _DUMP = 0x1, 0x300
_DONE, _ERROR = 3, 2
_DEV_GET, _QUEUE_GET, _NAPI_GET = 1, 10, 11
_DEV_IFINDEX, _DEV_XDP_FEATURES = 1, 3
"""Attributes of ``dev``."""
_NAPI_IFINDEX, _NAPI_ID, _NAPI_PID = 1, 2, 4
"""Attributes of ``napi``."""
_QUEUE_ID, _QUEUE_IFINDEX, _QUEUE_TYPE, _QUEUE_NAPI = 1, 2, 3, 4
"""Attributes of ``queue``."""
_RECEIVE = 0
_UNTOLD = (
    "not supported on this host: its kernel does not tell which thread polls which interface; "
    "Linux 6.8 does"
)
_HEADER = struct.Struct("=IHHII")
_ERROR_NUMBER = struct.Struct("=i")
_GENERIC_HEADER = struct.Struct("=BBH")
_ATTRIBUTE = struct.Struct("=HH")


class XdpFeature(IntFlag):
    """What the driver of an interface can do with XDP (``NETDEV_XDP_ACT_...``)."""

    BASIC = 0x01
    """Run programs; without it, only generic XDP does."""
    REDIRECT = 0x02
    NDO_XMIT = 0x04
    """Transmit frames that programs on other interfaces redirect to it."""
    XSK_ZEROCOPY = 0x08
    HW_OFFLOAD = 0x10
    RX_SG = 0x20
    """Run programs on frames of several buffers: jumbo frames."""
    NDO_XMIT_SG = 0x40
    """Transmit redirected frames of several buffers."""


def xdp_features() -> dict[int, XdpFeature]:
    """Return the XDP features of the interfaces of the calling thread's namespace, by index.

    Returns
    -------
    dict
        Empty where the kernel does not tell (before Linux 6.3).
    """
    with suppress(NotSupported, OSError):
        found = _dump(_DEV_GET)
        return {
            one[_DEV_IFINDEX]: XdpFeature(one.get(_DEV_XDP_FEATURES, 0))
            for one in found
            if _DEV_IFINDEX in one
        }
    return {}


def napi_threads(ifindex: int) -> list[int]:
    """Return the kernel threads that poll an interface of the calling thread's namespace, sorted.

    Raises
    ------
    NotSupported
        If the kernel does not tell (before Linux 6.8).
    """
    found = (one.get(_NAPI_PID, 0) for one in _dump(_NAPI_GET) if one.get(_NAPI_IFINDEX) == ifindex)
    return sorted(pid for pid in found if pid)


@functools.cache
def tells_threads() -> bool:
    """Tell whether the kernel says which thread polls an interface (Linux 6.8)."""
    try:
        has_napi(0)
    except NotSupported:
        return False
    return True


def has_napi(ifindex: int) -> bool:
    """Tell whether an interface that is up is polled by NAPI; see :func:`napi_threads`."""
    return any(one.get(_NAPI_IFINDEX) == ifindex for one in _dump(_NAPI_GET))


def queue_threads(ifindex: int) -> dict[int, int]:
    """Return the kernel thread that polls each receive queue of an interface.

    Returns
    -------
    dict
        Queue -> thread; without queues of which the driver does not tell, or that no thread polls.

    Raises
    ------
    NotSupported
        If the kernel does not tell (before Linux 6.8).
    """
    napis = [one for one in _dump(_NAPI_GET) if one.get(_NAPI_IFINDEX) == ifindex]
    threads = {one[_NAPI_ID]: one.get(_NAPI_PID, 0) for one in napis if _NAPI_ID in one}
    found = {
        one[_QUEUE_ID]: threads.get(one.get(_QUEUE_NAPI, 0), 0)
        for one in _dump(_QUEUE_GET)
        if one.get(_QUEUE_IFINDEX) == ifindex and one.get(_QUEUE_TYPE) == _RECEIVE
    }
    return {queue: thread for queue, thread in found.items() if thread}


@functools.cache
def _family() -> int:
    """Return the number of the netdev family; the same in all namespaces."""
    try:
        with rtnl.GenericNetlinkSocket() as generic:
            generic.bind("netdev", _NoMessage)
            return int(generic.prid)
    except (rtnl.NetlinkError, KeyError):
        raise NotSupported(_UNTOLD) from None


class _NoMessage:
    """A message that pyroute2 shall not parse."""


def _dump(command: int) -> Iterator[dict[int, int]]:
    """Yield the numeric attributes of each object of the namespace that a command lists."""
    body = _GENERIC_HEADER.pack(command, 1, 0)
    request = _HEADER.pack(_HEADER.size + len(body), _family(), _REQUEST | _DUMP, 1, 0) + body
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_GENERIC) as link:
        link.sendto(request, (0, 0))
        while True:
            answer = link.recv(1 << 16)
            while answer:
                length, kind, *_ = _HEADER.unpack_from(answer)
                if kind == _ERROR and _refuses(answer):
                    raise NotSupported(_UNTOLD)
                if kind in (_DONE, _ERROR):
                    return
                yield _attributes(answer[_HEADER.size + _GENERIC_HEADER.size : length])
                answer = answer[(length + 3) & ~3 :]


def _refuses(answer: bytes) -> bool:
    """Tell whether an error says that the family is there, and does not know the command."""
    number: int = _ERROR_NUMBER.unpack_from(answer, _HEADER.size)[0]
    return -number == errno.EOPNOTSUPP


def _attributes(data: bytes) -> dict[int, int]:
    found = {}
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        found[kind] = int.from_bytes(data[_ATTRIBUTE.size : length], sys.byteorder)
        data = data[(length + 3) & ~3 :]
    return found

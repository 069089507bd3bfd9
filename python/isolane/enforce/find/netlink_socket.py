"""A small rtnetlink socket for what is asked in every namespace: its interfaces, its identity.

pyroute2 can do the same, but takes 5 ms of CPU time for each namespace: more than a second for 256
routers, on each search. Rare requests go through pyroute2.
Source: rtnetlink(7), linux/if_link.h, linux/net_namespace.h.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Self

Attributes = dict[int, bytes]

_HEADER: Final = struct.Struct("=IHHII")
"""Length, type, flags, sequence number, port."""
_LINK: Final = struct.Struct("=BxHiII")
"""Family, hardware, index, flags, mask of change."""
_ATTRIBUTE: Final = struct.Struct("=HH")
_NESTED: Final = 0x3FFF
"""Mask of an attribute's type; the other bits mean nested, or in network byte order."""
_ERROR, _DONE = 2, 3
_RTM_GETLINK, _RTM_GETNSID = 18, 90
_REQUEST, _DUMP, _INTERRUPTED = 0x1, 0x300, 0x10
_IFLA_EXT_MASK: Final = 29
_SKIP_STATS: Final = 8
_NETNSA_NSID, _NETNSA_FD = 1, 3
_SO_NETNS_COOKIE: Final = 71
_TRIES: Final = 20
"""How often to repeat a dump that changes of interfaces have interrupted."""


@dataclass(frozen=True)
class RawLink:
    """An interface as the kernel describes it."""

    ifindex: int
    flags: int
    attributes: Attributes


class Netlink:
    """An rtnetlink socket in the network namespace that the calling thread is in."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._sequence = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    @property
    def cookie(self) -> int:
        """Cookie of the namespace, unique until the host restarts; 0 before Linux 5.14."""
        try:
            told = self._socket.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, 8)
        except OSError:
            return 0
        return int.from_bytes(told, sys.byteorder)

    def links(self) -> list[RawLink]:
        """Return all interfaces.

        Raises
        ------
        OSError
            The kernel's error; EBUSY when interfaces change during every try.
        """
        mask = attribute(_IFLA_EXT_MASK, struct.pack("=I", _SKIP_STATS))
        for _ in range(_TRIES):
            whole, answers = self.ask(_RTM_GETLINK, _LINK.pack(0, 0, 0, 0, 0) + mask, _DUMP)
            if whole:
                return [_raw_link(answer) for answer in answers]
        raise OSError(errno.EBUSY, "the interfaces change all the time")

    def number_of(self, namespace: int) -> int | None:
        """Return the identifier (nsid) here of the namespace behind a descriptor, if it has one."""
        wanted = bytes(4) + attribute(_NETNSA_FD, struct.pack("=I", namespace))
        _, answers = self.ask(_RTM_GETNSID, wanted, 0)
        for answer in answers:
            number = read_attributes(answer[4:]).get(_NETNSA_NSID)
            if number is not None:
                found = int.from_bytes(number[:4], sys.byteorder, signed=True)
                return found if found >= 0 else None
        return None

    def ask(self, kind: int, payload: bytes, flags: int) -> tuple[bool, list[bytes]]:
        """Send a request; return whether the answer is consistent, and its messages.

        Raises
        ------
        OSError
            The kernel's error.
        """
        self._sequence += 1
        length = _HEADER.size + len(payload)
        self._socket.send(_HEADER.pack(length, kind, _REQUEST | flags, self._sequence, 0) + payload)
        whole, answers = True, []
        while True:
            for kind_found, flags_found, body in _messages(self._socket.recv(1 << 18)):
                whole = whole and not flags_found & _INTERRUPTED
                if kind_found == _ERROR:
                    code = -struct.unpack_from("=i", body)[0]
                    if code:
                        raise OSError(code, os.strerror(code))
                elif kind_found != _DONE:
                    answers.append(body)
                if kind_found in (_ERROR, _DONE) or not flags & _DUMP:
                    return whole, answers


def _messages(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    at = 0
    while at + _HEADER.size <= len(data):
        length, kind, flags, _, _ = _HEADER.unpack_from(data, at)
        yield kind, flags, data[at + _HEADER.size : at + length]
        at += max(_HEADER.size, length + 3 & ~3)


def _raw_link(body: bytes) -> RawLink:
    _, _, index, flags, _ = _LINK.unpack_from(body)
    return RawLink(index, flags, read_attributes(body[_LINK.size :]))


def attribute(kind: int, value: bytes) -> bytes:
    """Return an attribute of a message; `value` is a whole number of words of 4 bytes."""
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value


def read_attributes(data: bytes) -> Attributes:
    """Return the attributes in a message, or in an attribute that holds others."""
    found: Attributes = {}
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < _ATTRIBUTE.size:
            break
        found[kind & _NESTED] = data[at + _ATTRIBUTE.size : at + length]
        at += length + 3 & ~3
    return found

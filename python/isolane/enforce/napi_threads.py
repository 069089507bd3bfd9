"""Waits for the kernel threads that poll an interface once its NAPI is threaded."""

from __future__ import annotations

import socket
import time
from contextlib import suppress

from isolane.errors import NotSupported
from isolane.netdev import has_napi, napi_threads, queue_threads
from isolane.testbed.netns import Namespace

_APPEAR_S = 3.0
_UP = 0x1
"""IFF_UP."""


def only_sends(namespace: Namespace, ifname: str, ifindex: int) -> bool:
    """Tell whether nothing polls an interface that is up: it has no NAPI."""
    namespace.enter()
    return bool(int(namespace.read(ifname, "flags"), 16) & _UP) and not has_napi(ifindex)


def threads_by_queue(namespace: Namespace, ifindex: int) -> dict[int, int]:
    """Return the NAPI thread of each receive queue of an interface; those exist already."""
    namespace.enter()
    return queue_threads(ifindex)


def threads_of(namespace: Namespace, ifindex: int) -> list[int]:
    """Return the NAPI threads of an interface, sorted; waits until the kernel has made them.

    Raises
    ------
    NotSupported
        If the kernel does not tell, or there are none: no NAPI, or the interface is down.
    """
    name = f"number {ifindex}"
    deadline = time.monotonic() + _APPEAR_S
    namespace.enter()
    while True:
        found = napi_threads(ifindex)
        if found:
            return found
        if time.monotonic() > deadline:
            with suppress(OSError):  # it may have gone: then only its number is known
                name = socket.if_indextoname(ifindex)
            raise NotSupported(
                f"interface {name} of {namespace.name} has no NAPI thread: its driver has no "
                "NAPI, or it is down"
            )
        time.sleep(0.002)

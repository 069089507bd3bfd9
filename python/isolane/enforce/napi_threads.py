"""The kernel threads that poll an interface once its NAPI is threaded.

Before Linux 6.8, which tells whose they are, they are found by their names, unless another
interface on this host has threads of the same name.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from isolane.enforce.find.host_namespace import all_namespaces
from isolane.errors import NotSupported
from isolane.netdev import has_napi, napi_threads, queue_threads, tells_threads
from isolane.procfs import napi_threads_by_name
from isolane.testbed import kernel
from isolane.testbed.netns import GONE, Namespace

_APPEAR_S = 3.0
_UP = 0x1
"""IFF_UP."""


def only_sends(namespace: Namespace, ifname: str, ifindex: int) -> bool:
    """Tell whether nothing polls an interface that is up: it has no NAPI.

    Where the kernel does not tell, it may have one. One that has gone is not up: who is to change
    it next finds that out.
    """
    namespace.enter()
    if not tells_threads():
        return False
    try:
        up = bool(int(namespace.read(ifname, "flags"), 16) & _UP)
    except OSError as error:
        if error.errno not in GONE:
            raise
        return False
    return up and not has_napi(ifindex)


def threads_by_queue(namespace: Namespace, ifindex: int) -> dict[int, int]:
    """Return the NAPI thread of each receive queue of an interface; those exist already."""
    namespace.enter()
    return queue_threads(ifindex)


def threads_of(namespace: Namespace, ifindex: int) -> list[int]:
    """Return the NAPI threads of an interface, sorted; waits until the kernel has made them.

    Raises
    ------
    NotSupported
        If there are none (no NAPI, or the interface is down), or the kernel does not tell and
        threads of another interface have the same name.
    """
    name = f"number {ifindex}"
    namespace.enter()
    with suppress(OSError):  # it may have gone: then only its number is known
        name = socket.if_indextoname(ifindex)
    told = tells_threads()
    if not told:
        _refuse_another(namespace, name)
    deadline = time.monotonic() + _APPEAR_S
    while True:
        found = napi_threads(ifindex) if told else napi_threads_by_name([name])[name]
        if found:
            return found
        if time.monotonic() > deadline:
            raise NotSupported(
                f"interface {name} of {namespace.name} has no NAPI thread: its driver has no "
                "NAPI, or it is down"
            )
        time.sleep(0.002)


def _refuse_another(namespace: Namespace, ifname: str) -> None:
    other = next(_threaded(ifname, namespace.inode), None)
    namespace.enter()
    if other is not None:
        raise NotSupported(
            f"not supported on this host: threads poll interface {ifname} in {other}, too, and "
            f"this kernel does not tell them from those in {namespace.name}, as Linux 6.8 does; "
            "accepted: interfaces whose names differ"
        )


def _threaded(ifname: str, here: int) -> Iterator[Path]:
    """Yield other namespaces in which threads poll an interface of this name; enters them.

    Parameters
    ----------
    here
        Number of the namespace that is not meant.
    """
    for path in all_namespaces():
        with suppress(OSError):  # it has gone, or has no such interface
            namespace = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                if os.fstat(namespace).st_ino == here:
                    continue
                kernel.setns_net(namespace)
            finally:
                os.close(namespace)
            if _is_threaded(ifname):
                yield path


def _is_threaded(ifname: str) -> bool:
    """Tell whether threads poll an interface of the namespace that the thread has entered.

    Raises
    ------
    OSError
        If there is no such interface.
    """
    socket.if_nametoindex(ifname)  # spares most namespaces a mount
    sysfs = kernel.open_detached()
    try:
        file = os.open(f"class/net/{ifname}/threaded", os.O_RDONLY | os.O_CLOEXEC, dir_fd=sysfs)
        try:
            return os.read(file, 16).strip() == b"1"
        finally:
            os.close(file)
    finally:
        os.close(sysfs)

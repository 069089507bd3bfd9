"""Chooses who polls an interface: kernel threads on given cores, or the softirq of a given core."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from isolane.errors import NotSupported, TestbedError
from isolane.netdev import napi_threads
from isolane.procfs import napi_threads_by_name
from isolane.testbed.namespace_thread import run_in_thread
from isolane.testbed.netns import Namespace, step

_NEVER = 2**31 - 1
_ETHERTYPE = 0x88B5
"""IEEE Std 802, local experimental: no protocol listens to it."""
_FIRST_POLL_S = 60.0
_AGAIN_S = 0.2
"""When to send the frame for the first poll once more: an overloaded core may lose it."""
TIMER_SLACK_S = 0.002
"""Wait for a kernel timer that fires late: in a virtual machine by some 30 us."""


def thread_napi(namespace: Namespace, ifname: str) -> None:
    """Have ``ifname`` polled by kernel threads, one per NAPI instance."""
    with step(f"threading the NAPI of {ifname}", "threaded NAPI (Linux 5.12)"):
        namespace.write(ifname, "threaded", 1)


def find_threads(namespace: Namespace, ifname: str) -> list[int]:
    """Return the kernel threads that poll an interface of a test bed, sorted.

    Before Linux 6.8, which tells whose they are, they are found by their names: two test beds of
    hosts that share a kernel, as containers do, cannot be told apart then.

    Raises
    ------
    TestbedError
        When there are none: the NAPI is off, or the threads of the host are out of sight.
    """
    namespace.enter()
    try:
        found = napi_threads(socket.if_nametoindex(ifname))
    except NotSupported:
        found = napi_threads_by_name([ifname])[ifname]
    if not found or not all(Path(f"/proc/{pid}").exists() for pid in found):
        raise TestbedError(
            f"{ifname} has no NAPI thread in /proc; in a container with a PID namespace of "
            "its own the host's kernel threads cannot be pinned"
        )
    return found


def pin(pids: list[int], core: int) -> None:
    """Pin threads to a core."""
    with step(f"pinning threads {pids} to core {core}", "a core of that number"):
        for pid in pids:
            os.sched_setaffinity(pid, {core})


def arm(namespace: Namespace, ifname: str, moderation_ns: int) -> None:
    """Have the kernel poll ``ifname`` by timer; 0 ns: by arriving frame, as usual.

    A veth has no interrupt: its softirq runs on the *sender's* core. With
    ``napi_defer_hard_irqs`` the NAPI is never given back, so that no sender can schedule it
    (``rx_notify_masked`` in drivers/net/veth.c stays set), and each poll arms a timer that is
    pinned to the core that polled (``napi_complete_done()`` in net/core/dev.c). The NAPI so stays
    where its first poll was: see :func:`start_polling`.
    """
    with step(f"moderating {ifname}", "napi_defer_hard_irqs (Linux 5.9)"):
        namespace.write(ifname, "gro_flush_timeout", moderation_ns)
        namespace.write(ifname, "napi_defer_hard_irqs", _NEVER if moderation_ns else 0)


@dataclass(frozen=True)
class Polled:
    """An interface to be polled by timer on a core, and the other end of its wire."""

    namespace: Namespace
    ifname: str
    mac: str
    core: int
    sender: Namespace
    sender_ifname: str


@contextmanager
def senders() -> Iterator[list[socket.socket]]:
    """Keep what sends first frames, and close all of it at once.

    Each close waits until every core has passed a quiet state (``packet_release()`` in
    net/packet/af_packet.c), some 20 ms; waits at the same time are one.
    """
    made: list[socket.socket] = []
    try:
        yield made
    finally:
        closing = [threading.Thread(target=one.close) for one in made]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()


def start_polling(nic: Polled, made: list[socket.socket]) -> None:
    """Have ``nic`` polled once by its core: send it a frame that no protocol takes.

    Parameters
    ----------
    made
        Of :func:`senders`.

    Raises
    ------
    TestbedError
        When the frame does not arrive.
    """
    before, again = _seen(nic), time.monotonic()
    deadline = again + _FIRST_POLL_S
    while _seen(nic) == before:
        now = time.monotonic()
        if now > deadline:
            raise TestbedError(f"{nic.ifname} does not receive: frames sent to it did not arrive")
        if now >= again:
            run_in_thread(lambda: _send_to(nic, made))
            again = now + _AGAIN_S
        time.sleep(0.001)


def _seen(nic: Polled) -> int:
    """Frames that a poll has taken off the wire: with NAPI, veth counts them only then."""
    return int(nic.namespace.read(nic.ifname, "statistics/rx_packets"))


def _send_to(nic: Polled, made: list[socket.socket]) -> None:
    """Send a frame to ``nic`` from its core; runs in a thread of its own."""
    with step(f"sending from core {nic.core}", "packet sockets (CONFIG_PACKET), that core"):
        os.sched_setaffinity(0, {nic.core})
        nic.sender.enter()
        sender = bytes.fromhex("021500000000")
        head = bytes.fromhex(nic.mac.replace(":", "")) + sender + _ETHERTYPE.to_bytes(2, "big")
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        made.append(raw)
        raw.sendto(head.ljust(60, b"\0"), (nic.sender_ifname, _ETHERTYPE))

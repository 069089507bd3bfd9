"""Wires and a router made by hand, of which Isolane knows nothing."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.live import LIMIT_S

_numbers = itertools.count()
End = tuple[str, str]
"""Network namespace and name of an interface."""


def ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"
    return done.stdout


def inside(netns: str, *command: str) -> str:
    return ip("netns", "exec", netns, *command)


@dataclass(frozen=True)
class Line:
    """From one namespace to another, with or without a router between them."""

    gen_netns: str
    gen: str
    rcv_netns: str
    rcv: str
    dst: str
    mac: str
    """Of the first hop."""
    router_netns: str | None = None
    router_out: str = ""

    def statistics(self, netns: str, ifname: str) -> dict[str, dict[str, int]]:
        link: list[dict[str, Any]] = json.loads(ip("-n", netns, "-s", "-j", "link", "show", ifname))
        found: dict[str, dict[str, int]] = link[0]["stats64"]
        return found

    def sent(self) -> int:
        """Frames that left the generator's interface."""
        return self.statistics(self.gen_netns, self.gen)["tx"]["packets"]

    def arrived(self) -> int:
        """Frames that the receiver's interface has taken."""
        return self.statistics(self.rcv_netns, self.rcv)["rx"]["packets"]

    def await_arrival(self, frames: int, queued: bool = False) -> None:
        """Wait until so many frames have arrived or been dropped since the line was made.

        Parameters
        ----------
        queued
            The router's egress has a qdisc, which drops, too.
        """
        deadline = time.monotonic() + LIMIT_S
        while (gone := self.arrived() + self.drops() + self._queue_drops(queued)) < frames:
            assert time.monotonic() < deadline, f"{gone} of {frames} frames arrived or were dropped"
            time.sleep(0.01)

    def _queue_drops(self, queued: bool) -> int:
        return self.queue()["drops"] if queued else 0

    def drops(self) -> int:
        """Frames that the kernel dropped on the way: full rings, counted by the sending end."""
        count = self.statistics(self.gen_netns, self.gen)["tx"]["dropped"]
        if self.router_netns:
            count += self.statistics(self.router_netns, self.router_out)["tx"]["dropped"]
        return count

    def queue(self) -> dict[str, int]:
        """Counters of the qdisc on the router's egress."""
        assert self.router_netns
        text = inside(self.router_netns, "tc", "-s", "-j", "qdisc", "show", "dev", self.router_out)
        found: list[dict[str, int]] = json.loads(text)
        return found[0]


def namespace(stack: contextlib.ExitStack, role: str, version: int) -> str:
    name = f"e2e-{os.getpid()}-{next(_numbers)}-{role}"
    ip("netns", "add", name)
    stack.callback(ip, "netns", "del", name)
    # An idle interface with IPv6 sends by itself; the counters are to hold the test's frames only.
    quiet = {
        "accept_dad": 0, "router_solicitations": 0, "addr_gen_mode": 1,
        "mldv2_unsolicited_report_interval": 0, "disable_ipv6": int(version == 4),
    }  # fmt: skip
    for key, value in quiet.items():
        inside(name, "sysctl", "-qw", f"net.ipv6.conf.default.{key}={value}")
    return name


def wire(left: End, right: End, index: int) -> str:
    """A veth pair that takes XDP frames; returns the MAC of its right end."""
    pair(left, right, index)
    inside(right[0], "ethtool", "-K", right[1], "gro", "on")
    bring_up(left, right)
    return mac_of(*right)


def pair(left: End, right: End, index: int, mtu: int = 1500) -> None:
    """Make a veth pair, which is down."""
    # Ends of the same index look like a device without a peer, whose carrier comes late.
    (netns, name), (peer_netns, peer) = left, right
    ip("-n", netns, "link", "add", name, "index", str(index), "mtu", str(mtu), "type", "veth",
       "peer", "name", peer, "index", str(index + 1), "mtu", str(mtu),
       "netns", peer_netns)  # fmt: skip


def bring_up(*ends: End, arp: bool = True) -> None:
    """Bring interfaces up, and wait until they send.

    The end of a pair that was brought up first drops what it is to send, and says nothing, until a
    worker of the kernel (linkwatch) has heard of the other end. On a busy core that takes a while.
    The kernel answers with the lock held under which the worker does all of that.
    """
    for netns, ifname in ends:
        ip("-n", netns, "link", "set", ifname, *(() if arp else ("arp", "off")), "up")
    deadline = time.monotonic() + LIMIT_S
    for netns, ifname in ends:
        while not _sends(netns, ifname):
            assert time.monotonic() < deadline, f"{ifname} in {netns} did not come up"
            time.sleep(0.002)


def _sends(netns: str, ifname: str) -> bool:
    link: list[dict[str, str]] = json.loads(ip("-n", netns, "-j", "link", "show", ifname))
    return link[0]["operstate"] == "UP" and link[0]["qdisc"] != "noop"


def mac_of(netns: str, ifname: str) -> str:
    link: list[dict[str, str]] = json.loads(ip("-n", netns, "-j", "link", "show", ifname))
    return link[0]["address"]


def _addresses(version: int) -> tuple[str, str, str, str, int]:
    """Sender, router's two sides, receiver, length of the prefix."""
    if version == 4:
        return "198.18.77.2", "198.18.77.1", "198.19.77.1", "198.19.77.2", 24
    return "2001:2:0:77::2", "2001:2:0:77::1", "2001:2:0:8077::1", "2001:2:0:8077::2", 64


def address(netns: str, ifname: str, address: str, prefix: int) -> None:
    more = ("nodad",) if ":" in address else ()
    ip("-n", netns, "addr", "add", f"{address}/{prefix}", "dev", ifname, *more)


@contextlib.contextmanager
def plain_line(version: int) -> Iterator[Line]:
    """Two namespaces, one wire."""
    src, _, _, dst, prefix = _addresses(version)
    with contextlib.ExitStack() as stack:
        gen, rcv = namespace(stack, "gen", version), namespace(stack, "rcv", version)
        mac = wire((gen, "e2e-g"), (rcv, "e2e-r"), 10)
        address(gen, "e2e-g", src, prefix)
        yield Line(gen, "e2e-g", rcv, "e2e-r", dst, mac)


@contextlib.contextmanager
def routed_line(version: int) -> Iterator[Line]:
    """Three namespaces, the middle one forwards; all neighbours are known beforehand."""
    src, side_in, side_out, dst, prefix = _addresses(version)
    with contextlib.ExitStack() as stack:
        gen, router, rcv = (namespace(stack, role, version) for role in ("gen", "vr", "rcv"))
        inside(router, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
        mac = wire((gen, "e2e-g"), (router, "e2e-in"), 10)
        last = wire((router, "e2e-out"), (rcv, "e2e-r"), 20)
        address(gen, "e2e-g", src, prefix)
        address(router, "e2e-in", side_in, prefix)
        address(router, "e2e-out", side_out, prefix)
        ip("-n", router, "neigh", "add", dst, "lladdr", last, "dev", "e2e-out")
        ip("-n", gen, "neigh", "add", side_in, "lladdr", mac, "dev", "e2e-g")
        ip("-n", gen, "route", "add", dst, "via", side_in, "dev", "e2e-g")
        yield Line(gen, "e2e-g", rcv, "e2e-r", dst, mac, router, "e2e-out")

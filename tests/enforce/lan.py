"""A host whose NICs are veths, a router on it, and two real hosts that talk TCP through it.

The test bed of the measurements has neither offloads nor TCP. Here everything is as a kernel makes
it: checksums are left to the device, segments are merged and split, the neighbours are kernels.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import ipaddress
import json
import os
import random
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from isolane.enforce import Enforcer
from isolane.enforce.enforcer import Outcome
from isolane.spec.policy import parse_policy
from isolane.testbed import NETNS_DIR

from tests.enforce.rig import inside, shown
from tests.live import LIMIT_S
from tests.wires import bring_up, pair

ROUTER = "vr1"
MB = 1_000_000
PORT = 5001
_TRY_S = LIMIT_S
PATHS = [("west", "east"), ("east", "west"), ("west", "router"), ("router", "east")]
NAMES = ("host", "west", "east", "router", "vmm")
_TUNSETIFF, _TUNSETOFFLOAD = 0x400454CA, 0x400454D0
_TAP_VNET_HDR = 0x0002 | 0x1000 | 0x4000
_OFFLOADS = 0x01 | 0x02 | 0x04
"""Checksums, TSO for IPv4 and IPv6 (linux/if_tun.h)."""
_SO_RCVBUFFORCE = 33
_SOL_PACKET, _PACKET_VNET_HDR, _PACKET_IGNORE_OUTGOING = 263, 15, 23
_ETH_ALL = 3


@dataclass(frozen=True)
class Transfer:
    """What came of sending data by TCP."""

    sent: int
    received: int
    intact: bool
    seconds: float

    @property
    def mbps(self) -> float:
        return 8e-6 * self.received / self.seconds


class Tap:
    """A tap whose virtual machine is a veth: what comes out of one is put into the other.

    With all that the kernel notes about it, as a virtio NIC does: merged segments, checksums that
    are left out.
    """

    def __init__(self, net: Lan, tap: str, guest: str) -> None:
        def made() -> int:
            fd = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
            fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH22x", tap.encode(), _TAP_VNET_HDR))
            fcntl.ioctl(fd, _TUNSETOFFLOAD, _OFFLOADS)
            shown("ip", "link", "set", tap, "mtu", str(net.mtu), "up")
            return fd

        def caught() -> socket.socket:
            raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_ALL))
            raw.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
            raw.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
            raw.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 8 << 20)
            raw.bind((guest, _ETH_ALL))
            return raw

        self._fd = inside(net.netns("host"), made)
        self._raw = inside(net.netns("vmm"), caught)
        self._stop, self._wake = os.pipe()
        self._thread = threading.Thread(target=self._copy)
        self._thread.start()

    def _copy(self) -> None:
        while True:
            ready, _, _ = select.select([self._stop, self._fd, self._raw.fileno()], [], [])
            if self._stop in ready:
                return
            with contextlib.suppress(OSError):  # an interface that is down, a full queue
                if self._fd in ready:
                    self._raw.send(os.read(self._fd, 1 << 17))
                if self._raw.fileno() in ready:
                    os.write(self._fd, self._raw.recv(1 << 17))

    def close(self) -> None:
        os.close(self._wake)
        self._thread.join()
        self._raw.close()
        os.close(self._fd)
        os.close(self._stop)


@dataclass
class Lan:
    """Hosts ``west`` and ``east``, and the router between them on the host ``host``."""

    ip: int = 4
    mtu: int = 1500
    bridged: bool = False
    polled: bool = False
    """The hosts' interfaces are polled by NAPI, as NICs are, and take what XDP sends."""
    stacked: bool = False
    """The NICs are macvlans, whose driver does not run XDP."""
    tapped: bool = False
    """The router is a virtual machine's: behind taps, which segments and checksums pass merged and
    left out."""
    _taps: list[Tap] = field(default_factory=list)
    _indices: int = 100
    tag: str = field(default_factory=lambda: f"lan{os.getpid()}")

    def netns(self, name: str) -> str:
        return f"{self.tag}-{name}"

    @property
    def enforcer(self) -> Enforcer:
        return Enforcer(NETNS_DIR / self.netns("host"), self.directory, f"isolane-{self.tag}")

    @property
    def directory(self) -> Path:
        return Path(f"/run/isolane/policy-{self.tag}")

    def text(self, keys: str = "", rate: str = "10Gbps") -> str:
        more = f", {keys}" if keys else ""
        head = (
            f"isolane: 1\nname: lan\nnics:\n  nic0: {{rate: {rate}}}\n  nic1: {{rate: {rate}}}\n"
            "routers:\n"
        )
        if self.tapped:
            return head + "".join(
                f"  vm{n}: {{interface: port{n}, mac: '{self.mac(inner)}', "
                f"interfaces: {{port{n}: nic{n}}}{more}}}\n"
                for n, inner in enumerate(("in", "out"))
            )
        return head + (
            f"  {ROUTER}: {{netns: {self.netns('router')}, "
            f"interfaces: {{in: nic0, out: nic1}}{more}}}\n"
        )

    def mac(self, inner: str) -> str:
        """Address of one of the router's interfaces."""
        found = json.loads(self.run("router", "ip", "-j", "link", "show", inner))
        return str(found[0]["address"])

    def apply(self, keys: str = "", rate: str = "10Gbps") -> Outcome:
        return self.enforcer.apply(parse_policy(self.text(keys, rate)))

    def run(self, name: str, *command: str) -> str:
        return inside(self.netns(name), lambda: shown(*command))

    def address(self, network: int, number: int) -> str:
        return f"10.9.{network}.{number}" if self.ip == 4 else f"fd09:0:0:{network}::{number}"

    @property
    def inet(self) -> str:
        return "-4" if self.ip == 4 else "-6"

    def build(self) -> None:
        for name in NAMES:
            shown("ip", "netns", "add", self.netns(name))
            self.run(name, "ip", "link", "set", "lo", "up")
            self.run(name, "sysctl", "-qw", "net.ipv6.conf.all.accept_dad=0",
                     "net.ipv6.conf.default.accept_dad=0")  # fmt: skip
        pairs = [("west", "eth0", "nic0"), ("east", "eth0", "nic1"),
                 ("router", "in", "port0"), ("router", "out", "port1")]  # fmt: skip
        for name, inner, outer in pairs:
            if self.stacked and name != "router":
                self._pair(name, inner, f"wire{outer[-1]}")
                self.run("host", "ip", "link", "add", outer, "link", f"wire{outer[-1]}", "type",
                         "macvlan", "mode", "passthru")  # fmt: skip
                bring_up((self.netns("host"), outer))
            elif self.tapped and name == "router":
                self._pair(name, inner, f"guest{outer[-1]}", "vmm")
                self._taps.append(Tap(self, outer, f"guest{outer[-1]}"))
            else:
                self._pair(name, inner, outer)
        self._forwarding()
        for network in (0, 1):
            if self.bridged:
                self._bridge(network)
            self._addresses(network)

    def _pair(self, name: str, inner: str, outer: str, where: str = "host") -> None:
        self._indices += 2
        ends = (self.netns(where), outer), (self.netns(name), inner)
        pair(*ends, self._indices, self.mtu)
        if self.polled and inner == "eth0":
            self.run(name, "ethtool", "-K", inner, "gro", "on")
        bring_up(*ends)

    def _forwarding(self) -> None:
        key = "net.ipv4.ip_forward" if self.ip == 4 else "net.ipv6.conf.all.forwarding"
        self.run("router", "sysctl", "-qw", f"{key}=1")

    def _bridge(self, network: int) -> None:
        bridge = f"br{network}"
        self.run("host", "ip", "link", "add", bridge, "mtu", str(self.mtu), "type", "bridge")
        for port in (f"nic{network}", f"port{network}"):
            self.run("host", "ip", "link", "set", port, "master", bridge)
        self.run("host", "ip", "link", "set", bridge, "up")

    def _addresses(self, network: int) -> None:
        name, inner = ("west", "in") if network == 0 else ("east", "out")
        length = 24 if self.ip == 4 else 64
        ends = [("router", inner, 1), (name, "eth0", 2)]
        for where, ifname, number in ends:
            address = f"{self.address(network, number)}/{length}"
            self.run(where, "ip", "addr", "add", address, "dev", ifname)
        self.run(name, "ip", self.inet, "route", "add", "default", "via", self.address(network, 1))
        if not self.bridged:
            for (where, ifname, _), (other, facing, number) in (ends, ends[::-1]):
                found = json.loads(self.run(other, "ip", "-j", "link", "show", facing))
                mac = found[0]["address"]
                self.run(where, "ip", "neigh", "replace", self.address(network, number),
                         "lladdr", mac, "dev", ifname)  # fmt: skip

    def remove(self) -> None:
        if self.directory.exists():
            self.enforcer.clear()
        for tap in self._taps:
            tap.close()
        for name in NAMES:
            if (NETNS_DIR / self.netns(name)).exists():
                shown("ip", "netns", "del", self.netns(name))

    def transfer(
        self,
        source: str,
        target: str,
        size: int = 4 * MB,
        *,
        network: int | None = None,
        limit_s: float = _TRY_S,
    ) -> Transfer:
        """Send data by TCP from one namespace to another; gives up after ``limit_s``.

        Parameters
        ----------
        network
            Which of the target's addresses to send to; default: that on the way from the source.
        """
        where = {"west": (0, 2), "east": (1, 2), "router": (1 if source == "east" else 0, 1)}
        along, number = where[target]
        address = self.address(along if network is None else network, number)
        family = socket.AF_INET if self.ip == 4 else socket.AF_INET6

        def listen() -> socket.socket:
            server = socket.create_server((address, PORT), family=family)
            server.settimeout(limit_s)
            return server

        data = random.Random(size).randbytes(MB)
        total, digest, got = size // MB * MB, hashlib.sha256(), [0]

        def receive() -> None:
            with contextlib.suppress(OSError):
                connection, _ = server.accept()
                with connection:
                    connection.settimeout(limit_s)
                    while part := connection.recv(1 << 18):
                        digest.update(part)
                        got[0] += len(part)

        def connect() -> socket.socket:
            client = socket.socket(family, socket.SOCK_STREAM)
            client.settimeout(limit_s)
            return client

        with inside(self.netns(target), listen) as server:
            reader = threading.Thread(target=receive)
            reader.start()
            began = time.monotonic()
            with inside(self.netns(source), connect) as client, contextlib.suppress(OSError):
                client.connect((address, PORT))
                for _ in range(total // MB):
                    client.sendall(data)
            reader.join(limit_s + 5)
            seconds = time.monotonic() - began
        wanted = hashlib.sha256(data * (total // MB)).digest()
        return Transfer(total, got[0], digest.digest() == wanted, seconds)


@contextlib.contextmanager
def lan(ip: int = 4, mtu: int = 1500, how: str = "direct") -> Iterator[Lan]:
    """Build a host, a router and two hosts beside it.

    Parameters
    ----------
    how
        ``direct``, or what of :class:`Lan` is to be true, with blanks between (``bridged polled``).
    """
    made = Lan(
        ip,
        mtu,
        bridged="bridged" in how,
        polled="polled" in how,
        stacked="stacked" in how,
        tapped="tapped" in how,
    )
    assert ipaddress.ip_address(made.address(0, 1)).version == ip
    try:
        made.build()
        yield made
    finally:
        made.remove()

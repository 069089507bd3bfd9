"""A host whose NICs are veths, a router on it, and two real hosts that talk TCP through it.

The test bed of the measurements has neither offloads nor TCP. Here everything is as a kernel makes
it: checksums are left to the device, segments are merged and split, the neighbours are kernels.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import json
import os
import random
import socket
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

ROUTER = "vr1"
MB = 1_000_000
PORT = 5001
_TRY_S = 10.0


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


@dataclass
class Lan:
    """Hosts ``west`` and ``east``, and the router between them on the host ``host``."""

    ip: int = 4
    mtu: int = 1500
    bridged: bool = False
    vlan: int = 0
    """VLAN that the hosts' frames carry on the wires (bridged only)."""
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
        return (
            f"isolane: 1\nname: lan\nnics:\n  nic0: {{rate: {rate}}}\n  nic1: {{rate: {rate}}}\n"
            f"routers:\n  {ROUTER}: {{netns: {self.netns('router')}, "
            f"interfaces: {{in: nic0, out: nic1}}{more}}}\n"
        )

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
        for name in ("host", "west", "east", "router"):
            shown("ip", "netns", "add", self.netns(name))
            self.run(name, "ip", "link", "set", "lo", "up")
            self.run(name, "sysctl", "-qw", "net.ipv6.conf.all.accept_dad=0",
                     "net.ipv6.conf.default.accept_dad=0")  # fmt: skip
        pairs = [("west", "eth0", "nic0"), ("east", "eth0", "nic1"),
                 ("router", "in", "port0"), ("router", "out", "port1")]  # fmt: skip
        for name, inner, outer in pairs:
            shown("ip", "link", "add", outer, "mtu", str(self.mtu), "netns", self.netns("host"),
                  "type", "veth", "peer", "name", inner, "netns", self.netns(name),
                  "mtu", str(self.mtu))  # fmt: skip
            self.run("host", "ip", "link", "set", outer, "up")
            self.run(name, "ip", "link", "set", inner, "up")
        self._forwarding()
        for network in (0, 1):
            if self.bridged:
                self._bridge(network)
            self._addresses(network)

    def _forwarding(self) -> None:
        key = "net.ipv4.ip_forward" if self.ip == 4 else "net.ipv6.conf.all.forwarding"
        self.run("router", "sysctl", "-qw", f"{key}=1")

    def _bridge(self, network: int) -> None:
        bridge = f"br{network}"
        filtering = ("vlan_filtering", "1", "vlan_default_pvid", "0") if self.vlan else ()
        self.run("host", "ip", "link", "add", bridge, "mtu", str(self.mtu), "type", "bridge",
                 *filtering)  # fmt: skip
        for port in (f"nic{network}", f"port{network}"):
            self.run("host", "ip", "link", "set", port, "master", bridge)
            if self.vlan:
                how = ("pvid", "untagged") if port.startswith("port") else ()
                self.run("host", "bridge", "vlan", "add", "dev", port, "vid", str(self.vlan), *how)
        self.run("host", "ip", "link", "set", bridge, "up")

    def _addresses(self, network: int) -> None:
        name, inner = ("west", "in") if network == 0 else ("east", "out")
        length = 24 if self.ip == 4 else 64
        outer = "eth0"
        if self.vlan:
            outer = "tagged"
            self.run(name, "ip", "link", "add", "link", "eth0", "name", outer, "type", "vlan",
                     "id", str(self.vlan))  # fmt: skip
            self.run(name, "ip", "link", "set", outer, "up")
        ends = [("router", inner, 1), (name, outer, 2)]
        for where, ifname, number in ends:
            address = f"{self.address(network, number)}/{length}"
            self.run(where, "ip", "addr", "add", address, "dev", ifname)
        self.run(name, "ip", self.inet, "route", "add", "default", "via", self.address(network, 1))
        if not self.bridged:
            for (where, ifname, _), (other, facing, number) in (ends, ends[::-1]):
                mac = json.loads(self.run(other, "ip", "-j", "link", "show", facing))[0]["address"]
                self.run(where, "ip", "neigh", "replace", self.address(network, number),
                         "lladdr", mac, "dev", ifname)  # fmt: skip

    def remove(self) -> None:
        if self.directory.exists():
            self.enforcer.clear()
        for name in ("host", "west", "east", "router"):
            if (NETNS_DIR / self.netns(name)).exists():
                shown("ip", "netns", "del", self.netns(name))

    def transfer(
        self, source: str, target: str, size: int = 4 * MB, *, limit_s: float = _TRY_S
    ) -> Transfer:
        """Send data by TCP from one namespace to another; gives up after ``limit_s``."""
        where = {"west": (0, 2), "east": (1, 2), "router": (1 if source == "east" else 0, 1)}
        address = self.address(*where[target])
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
def lan(ip: int = 4, mtu: int = 1500, *, bridged: bool = False, vlan: int = 0) -> Iterator[Lan]:
    """Build a host, a router and two hosts beside it."""
    made = Lan(ip, mtu, bridged, vlan)
    assert ipaddress.ip_address(made.address(0, 1)).version == ip
    try:
        made.build()
        yield made
    finally:
        made.remove()

"""Streams of TCP between the far ends of a back-end's wires, through whatever routes there."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from isolane.testbed.host_links import in_netns

from tests.live import LIMIT_S
from tests.netback.back_end import ADDRESSES, FAR, far_mac, mac
from tests.netback.far_end import in_far
from tests.wires import ip

SERVER = "e2e-netback-server"
PORT = 5001


def of_ip(ip_version: int, side: int, host: int) -> str:
    return ADDRESSES[ip_version][1].format(side, host)


@dataclass
class Ends:
    """A client at the first wire's far end, a server at the second one's."""

    ip_version: int

    def stream(self, data: bytes) -> float:
        """Send bytes from one to the other, each to arrive as it was and in its place.

        Return how long that took, s.
        """
        listener: socket.socket = in_netns(f"/run/netns/{SERVER}", self._listen)
        received: list[str] = []
        server = threading.Thread(target=lambda: received.append(_digest(listener)))
        began = time.monotonic()
        server.start()
        try:
            in_far(lambda: self._send(data))
        finally:
            server.join(LIMIT_S)
            listener.close()
        passed_s = time.monotonic() - began
        assert received == [hashlib.sha256(data).hexdigest()]
        assert self._wrong_checksums() == 0
        return passed_s

    def _wrong_checksums(self) -> int:
        """Count the segments that the server's kernel refused for their checksum."""

        def read() -> str:
            return Path("/proc/thread-self/net/snmp").read_text()

        lines = [line.split() for line in in_netns(f"/run/netns/{SERVER}", read).splitlines()]
        names, values = (line for line in lines if line[0] == "Tcp:")
        return int(values[names.index("InCsumErrors")])

    def _listen(self) -> socket.socket:
        address = (of_ip(self.ip_version, 1, 2), PORT)
        family = socket.AF_INET if self.ip_version == 4 else socket.AF_INET6
        listener = socket.create_server(address, family=family)
        listener.settimeout(LIMIT_S)
        return listener

    def _send(self, data: bytes) -> None:
        to = (of_ip(self.ip_version, 1, 2), PORT)
        with socket.create_connection(to, timeout=LIMIT_S) as client:
            client.sendall(data)


def _digest(listener: socket.socket) -> str:
    digest = hashlib.sha256()
    connection, _ = listener.accept()
    with connection:
        connection.settimeout(LIMIT_S)
        while data := connection.recv(1 << 16):
            digest.update(data)
    return digest.hexdigest()


@contextlib.contextmanager
def ends(ip_version: int) -> Iterator[Ends]:
    """Give each far end an address and its router; the second one a namespace of its own, too."""
    ip("netns", "add", SERVER)
    try:
        ip("-n", FAR, "link", "set", "r0", "netns", SERVER)
        for side, (name, wire) in enumerate(((FAR, "g0"), (SERVER, "r0"))):
            in_netns(f"/run/netns/{name}", _allow_ipv6)
            ip("-n", name, "link", "set", wire, "address", far_mac(side), "arp", "off", "up")
            address = ADDRESSES[ip_version][0].format(side, 2)
            ip("-n", name, "address", "add", address, "dev", wire, "nodad")
            router = of_ip(ip_version, side, 1)
            ip("-n", name, "neighbour", "add", router, "lladdr", mac(side, 0), "dev", wire)
            other = ADDRESSES[ip_version][0].format(1 - side, 0)
            ip("-n", name, "route", "add", other, "via", router, "dev", wire)
        yield Ends(ip_version)
    finally:
        ip("netns", "del", SERVER)


def _allow_ipv6() -> None:
    for scope in ("all", "default"):
        Path(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6").write_text("0")

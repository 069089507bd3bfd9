"""Streams of TCP between the far ends of a back-end's wires, through whatever routes there."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from isolane.testbed.host_links import in_netns

from tests.live import LIMIT_S
from tests.netback.back_end import ADDRESSES, FAR, far_mac, mac
from tests.wires import bring_up, ip

SERVER = "e2e-netback-server"
PORT = 5001


def of_ip(ip_version: int, side: int, host: int) -> str:
    return ADDRESSES[ip_version][1].format(side, host)


def stream(data: bytes, client: str, server: str, address: str) -> float:
    """Send bytes from one namespace to an address in another: each arrives as it was, in its place.

    Return how long that took, s.
    """
    listener: socket.socket = in_netns(f"/run/netns/{server}", lambda: _listen(address))
    received: list[str] = []
    there = threading.Thread(target=lambda: received.append(_digest(listener)))
    began = time.monotonic()
    there.start()
    try:
        in_netns(f"/run/netns/{client}", lambda: _send(data, address))
    finally:
        there.join(LIMIT_S)
        listener.close()
    passed_s = time.monotonic() - began
    assert received == [hashlib.sha256(data).hexdigest()]
    assert _wrong_checksums(server) == 0
    return passed_s


def _listen(address: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.create_server((address, PORT), family=family)
    listener.settimeout(LIMIT_S)
    return listener


def _send(data: bytes, address: str) -> None:
    with socket.create_connection((address, PORT), timeout=LIMIT_S) as client:
        client.sendall(data)


def _digest(listener: socket.socket) -> str:
    digest = hashlib.sha256()
    connection, _ = listener.accept()
    with connection:
        connection.settimeout(LIMIT_S)
        while data := connection.recv(1 << 16):
            digest.update(data)
    return digest.hexdigest()


def _wrong_checksums(netns: str) -> int:
    """Count the segments that a kernel refused for their checksum."""

    def read() -> str:
        return Path("/proc/thread-self/net/snmp").read_text()

    lines = [line.split() for line in in_netns(f"/run/netns/{netns}", read).splitlines()]
    names, values = (line for line in lines if line[0] == "Tcp:")
    return int(values[names.index("InCsumErrors")])


@contextlib.contextmanager
def ends(ip_version: int) -> Iterator[Callable[[bytes], float]]:
    """Give each far end an address and its router; the second one a namespace of its own, too.

    Yields what sends bytes from the first to the second, see :func:`stream`.
    """
    ip("netns", "add", SERVER)
    try:
        ip("-n", FAR, "link", "set", "r0", "netns", SERVER)
        for side, (name, wire) in enumerate(((FAR, "g0"), (SERVER, "r0"))):
            in_netns(f"/run/netns/{name}", _allow_ipv6)
            ip("-n", name, "link", "set", wire, "address", far_mac(side))
            bring_up((name, wire), arp=False)
            address = ADDRESSES[ip_version][0].format(side, 2)
            ip("-n", name, "address", "add", address, "dev", wire, "nodad")
            router = of_ip(ip_version, side, 1)
            ip("-n", name, "neighbour", "add", router, "lladdr", mac(side, 0), "dev", wire)
            other = ADDRESSES[ip_version][0].format(1 - side, 0)
            ip("-n", name, "route", "add", other, "via", router, "dev", wire)
        yield lambda data: stream(data, FAR, SERVER, of_ip(ip_version, 1, 2))
    finally:
        ip("netns", "del", SERVER)


def _allow_ipv6() -> None:
    for scope in ("all", "default"):
        Path(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6").write_text("0")

"""A container that forwards, at ports of a back-end: a namespace with two pairs of interfaces."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.netback.back_end import ADDRESSES, DUT, BackEnd, far_mac, mac, outer
from tests.netback.far_end import of
from tests.wires import bring_up, ip, pair


def attached(one: BackEnd, number: int, there: bool = True) -> None:
    """Wait until the back-end has found its interfaces, or that they are gone."""
    names = [one.port(side, number) for side in (0, 1)]
    one.until(f"attached: {there}", lambda s: all(of(s, name).attached is there for name in names))


def netns_of(number: int) -> str:
    return f"e2e-netback-c{number}"


@contextlib.contextmanager
def container(number: int, ip_version: int = 4) -> Iterator[str]:
    """Have one; yields its network namespace. Its interfaces go with it."""
    name = netns_of(number)
    ip("netns", "add", name)
    try:
        _settings(name, ip_version)
        for side in (0, 1):
            inner, end = f"eth{side}", outer(side, number)
            pair((DUT, end), (name, inner), 100 + 4 * number + 2 * side)
            ip("-n", name, "link", "set", inner, "address", mac(side, number))
            bring_up((name, inner), (DUT, end), arp=False)
            own, other = ADDRESSES[ip_version]
            address, neighbour = (
                form.format(2 * number + side, host) for form, host in ((own, 1), (other, 2))
            )
            ip("-n", name, "address", "add", address, "dev", inner, "nodad")
            ip("-n", name, "neighbour", "add", neighbour, "lladdr", far_mac(side), "dev", inner)
        yield name
    finally:
        ip("netns", "del", name)


def _settings(name: str, ip_version: int) -> None:
    """Have it forward, and say nothing by itself."""
    keys = {
        4: ("net.ipv4.ip_forward=1", "net.ipv6.conf.default.disable_ipv6=1"),
        6: ("net.ipv6.conf.all.forwarding=1", "net.ipv6.conf.default.addr_gen_mode=1"),
    }[ip_version]
    ip("netns", "exec", name, "sysctl", "-qw", *keys)

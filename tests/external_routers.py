"""Routers made by hand in namespaces, for experiments that only name them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.wires import address, inside, ip, mac_of, namespace, wire

NAMES = ("victim", "noise")
_PREFIX = {4: 24, 6: 64}


@dataclass
class Made:
    """A router that a test has made, and what an experiment has to say of it."""

    name: str
    netns: str
    """The router's own."""
    ingress: dict[str, str] = field(default_factory=dict)
    egress: dict[str, str] = field(default_factory=dict)

    def yaml(self, **changed: str) -> str:
        """Return its `external`; keys such as ``egress_mac`` replace what is true."""
        sides = []
        for name, side in (("ingress", self.ingress), ("egress", self.egress)):
            own = {key: changed.get(f"{name}_{key}", value) for key, value in side.items()}
            inner = ", ".join(f'{key}: "{value}"' for key, value in own.items())
            sides.append(f"{name}: {{{inner}}}")
        return "{" + ", ".join(sides) + "}"

    def forwarded(self) -> int:
        """IPv4 packets that its kernel has sent on."""
        text = inside(self.netns, "cat", "/proc/net/snmp").splitlines()
        names, values = (line.split() for line in text if line.startswith("Ip:"))
        return int(values[names.index("ForwDatagrams")])


def _addresses(version: int, number: int) -> tuple[str, str]:
    """The router's two addresses."""
    if version == 4:
        return f"198.18.{number}.1", f"198.19.{number}.1"
    return f"2001:2:0:{number}::1", f"2001:2:0:{0x8000 + number:x}::1"


def _router(stack: contextlib.ExitStack, number: int, version: int, near: str) -> Made:
    name = NAMES[number]
    router = namespace(stack, name, version)
    inside(router, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
    made = Made(name, router)
    for side, leads, at, found in (
        ("in", True, 2 * number, made.ingress),
        ("out", False, 2 * number + 1, made.egress),
    ):
        ours, theirs = f"e2e-{number}{side}", f"e2e-r{side}"
        ends = ((near, ours), (router, theirs))
        wire(*(ends if leads else ends[::-1]), 100 + 10 * at)
        text = f"{_addresses(version, number)[at % 2]}"
        address(router, theirs, text, _PREFIX[version])
        found.update(
            interface=ours, netns=near, mac=mac_of(router, theirs),
            address=f"{text}/{_PREFIX[version]}",
        )  # fmt: skip
    return made


@contextlib.contextmanager
def external_routers(count: int = 1, version: int = 4) -> Iterator[Sequence[Made]]:
    """Make routers that know no neighbour, behind interfaces of one namespace of the user's."""
    with contextlib.ExitStack() as stack:
        near = namespace(stack, "near", version)
        yield [_router(stack, number, version, near) for number in range(count)]


def shape(made: Made, rate: str) -> None:
    """Limit what a router sends."""
    limit = ("root", "tbf", "rate", rate, "burst", "3000", "limit", "6000")
    ip("netns", "exec", made.netns, "tc", "qdisc", "add", "dev", "e2e-rout", *limit)

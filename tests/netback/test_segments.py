"""How this kernel divides merged segments: as was recorded for the back-end's own tests."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from isolane.testbed.host_links import in_netns

from tests.live import LIMIT_S
from tests.netback.far_end import whole
from tests.wires import bring_up, ip, pair

pytestmark = [pytest.mark.root, pytest.mark.beside, pytest.mark.usefixtures("needs_root")]

RECORDED = Path(__file__).parents[2] / "crates/netback/tests/data/segments.txt"
NETNS = "e2e-segments"
_SOL_PACKET, _PACKET_AUXDATA, _PACKET_VNET_HDR = 263, 8, 15
"""Not in the socket module."""


@contextlib.contextmanager
def wire() -> Iterator[None]:
    """A pair of interfaces, of which the sending one divides and sums up in the kernel."""
    ip("netns", "add", NETNS)
    try:
        ip("netns", "exec", NETNS, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        near, far = (NETNS, "near"), (NETNS, "far")
        pair(near, far, 10)
        features = ("tso", "gso", "tx", "tx-udp-segmentation")
        ip("netns", "exec", NETNS, "ethtool", "-K", "near",
           *(word for feature in features for word in (feature, "off")))  # fmt: skip
        bring_up(near, far, arp=False)
        yield
    finally:
        ip("netns", "del", NETNS)


def opened(name: str, option: int, protocol: int) -> socket.socket:
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    raw.setsockopt(_SOL_PACKET, option, 1)
    raw.settimeout(LIMIT_S)
    raw.bind((name, protocol))
    return raw


def cases() -> Iterator[tuple[str, bytes, list[bytes]]]:
    """Yield each case: its name, what is sent, and what arrives."""
    lines = [line for line in RECORDED.read_text().splitlines() if not line.startswith("#")]
    for case in "\n".join(lines).split("case ")[1:]:
        name, *rest = case.splitlines()
        fields = [line.split() for line in rest]
        header, merged = (bytes.fromhex(value) for _, value in fields[:2])
        yield name, header + merged, [bytes.fromhex(value) for _, value in fields[2:]]


def test_this_kernel_divides_them_as_recorded() -> None:
    seen = 0
    with wire(), contextlib.ExitStack() as opening:
        there = f"/run/netns/{NETNS}"
        sending: socket.socket = opening.enter_context(
            closing(in_netns(there, lambda: opened("near", _PACKET_VNET_HDR, 0)))
        )
        receiving: socket.socket = opening.enter_context(
            closing(in_netns(there, lambda: opened("far", _PACKET_AUXDATA, 3)))
        )
        for name, sent, segments in cases():
            sending.send(sent)
            arrived = [whole(*receiving.recvmsg(2048, 64)[:2]) for _ in segments]
            assert arrived == segments, name
            seen += 1
    assert seen == 9

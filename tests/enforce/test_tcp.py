"""TCP through managed routers: what kernels leave to their devices survives the policy's programs."""

from __future__ import annotations

import pytest

from tests.enforce.lan import Lan, lan

pytestmark = [pytest.mark.root, pytest.mark.native]

WAYS = [("west", "east"), ("east", "west"), ("west", "router"), ("router", "east")]
LEAST_MBPS = 20.0
"""A transfer that lives on retransmissions is slower."""


def assert_all_arrives(net: Lan) -> None:
    for source, target in WAYS:
        found = net.transfer(source, target)
        assert found.received == found.sent, f"{source} to {target}: {found}"
        assert found.intact, f"{source} to {target}: other data than was sent"
        assert found.mbps > LEAST_MBPS, f"{source} to {target}: {found.mbps:.1f} Mbit/s"


@pytest.mark.parametrize("ip", [4, 6])
@pytest.mark.parametrize("mtu", [1500, 9000])
@pytest.mark.parametrize("bridged", [False, True], ids=["direct", "bridged"])
def test_tcp_arrives_whole(ip: int, mtu: int, bridged: bool) -> None:
    with lan(ip, mtu, bridged=bridged) as net:
        for forward in ("kernel", "xdp"):
            for link in ("", ", rate_min: 1Gbps"):
                net.apply(f"forward: {forward}{link}")
                assert_all_arrives(net)

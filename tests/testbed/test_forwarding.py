"""Real frames through every path: each router forwards what is its own, to the right place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from isolane.errors import MeasurementError, TestbedError
from isolane.testbed import Testbed
from pyroute2 import NetNS

pytestmark = pytest.mark.root

SOURCES = (0, 1, 57, 199)
EACH, OTHER = (("threaded", 4), ("softirq", 6)), (("softirq", 4), ("threaded", 6))


@pytest.mark.parametrize(
    ("receive", "ip", "shape"),
    [
        *(
            (receive, ip, (path, n))
            for n, pairs in ((1, EACH), (2, OTHER), (8, EACH))
            for receive, ip in pairs
            for path in ("direct", "bridge", "macvlan")
        ),
        *((receive, ip, ("none", 1)) for receive, ip in EACH),
    ],
)
def test_each_router_forwards_its_frames(
    shape: tuple[str, int], ip: int, receive: str, journal: Any, plan: Any, traffic: Any
) -> None:
    with Testbed(plan(*shape, ip, receive=receive), journal) as bed:
        assert len(bed.wires) == shape[1]
        assert_forwards(bed, ip, traffic)


def assert_forwards(bed: Testbed, ip: int, traffic: Any) -> None:
    """Each router forwards its frames as RFC 1812 says, to its own wire, and none is lost."""
    before = bed.counters()
    for wire in bed.wires:
        sent = [traffic.frame(wire, source=number) for number in SOURCES]
        with traffic.listen(wire.rcv_netns) as receiver:
            traffic.send(wire, sent)
            got = [receiver.recvfrom(2048) for _ in sent]
        # PACKET_HOST: the kernel takes the frame for one to the interface that it came in by
        assert {(where[0], where[2]) for _, where in got} == {(wire.rcv_ifname, 0)}
        assert all(frame[6:12] != bytes.fromhex(wire.src_mac.replace(":", "")) for frame, _ in got)
        assert [frame for frame, _ in got] == [forwarded(frame, ip, got) for frame in sent]
    assert (bed.counters() - before).total == 0
    bed.check_alive()


def forwarded(frame: bytes, ip: int, got: list[Any]) -> bytes:
    """What RFC 1812 makes of a frame: next hop's MACs, one hop less, the checksum for it."""
    macs: bytes = got[0][0][:12]
    if ip == 6:
        return macs + frame[12:21] + bytes([frame[21] - 1]) + frame[22:]
    checksum = int.from_bytes(frame[24:26], "big") + 0x100
    checksum = (checksum & 0xFFFF) + (checksum >> 16)
    head = frame[12:22] + bytes([frame[22] - 1]) + frame[23:24] + checksum.to_bytes(2, "big")
    return macs + head + frame[26:]


def test_a_shared_wire_reaches_no_other_router(journal: Any, plan: Any, traffic: Any) -> None:
    for path in ("bridge", "macvlan"):
        with Testbed(plan(path, 2), journal) as bed:
            other = traffic.listen("/run/netns/isolane-vr-2")
            with other:
                traffic.send(bed.wires[0], [traffic.frame(bed.wires[0])] * 5)
                other.settimeout(0.2)
                with pytest.raises(TimeoutError):
                    other.recv(2048)


def test_mixed_paths_and_a_given_subnet(journal: Any, plan: Any, traffic: Any) -> None:
    base = plan("direct", 4)
    kinds = ("direct", "bridge", "macvlan", "none")
    routers = [replace(r, path=path) for r, path in zip(base.routers, kinds, strict=True)]
    routers[0] = replace(routers[0], subnet="10.20.30.0/25")
    routers[3] = replace(routers[3], kind="native")
    with Testbed(replace(base, routers=tuple(routers)), journal) as bed:
        assert (bed.wires[0].src_ip, bed.wires[0].src_count) == ("10.20.30.2", 125)
        for wire in bed.wires:
            with traffic.listen(wire.rcv_netns) as receiver:
                traffic.send(wire, [traffic.frame(wire, source=wire.src_count - 1)])
                assert receiver.recvfrom(2048)[1][0] == wire.rcv_ifname


def test_an_interface_that_vanishes_is_named(journal: Any, plan: Any) -> None:
    with Testbed(plan("direct", 2), journal) as bed:
        bed.check_alive()
        with NetNS("isolane-vr-2", flags=0) as netns:
            netns.link("del", index=netns.link_lookup(ifname="isl-out1")[0])
        with pytest.raises(MeasurementError, match=r"isl-(out1|r1) in isolane-\S+ vanished"):
            bed.check_alive()


def test_an_interface_that_goes_down_is_named(journal: Any, plan: Any) -> None:
    with Testbed(plan("direct", 1), journal) as bed:
        with NetNS("isolane-rcv", flags=0) as netns:
            netns.link("set", index=bed.wires[0].rcv_ifindex, state="down")
        with pytest.raises(MeasurementError, match="isl-r0 in isolane-rcv"):
            bed.check_alive()


def test_a_bed_can_be_built_only_once_at_a_time(journal: Any, plan: Any) -> None:
    with Testbed(plan(), journal):
        with pytest.raises(TestbedError, match="one test bed at a time"), Testbed(plan(), journal):
            pass
        assert journal.path.exists()
    assert not journal.path.exists()

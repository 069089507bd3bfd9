"""TCP through managed routers: what a kernel leaves to its devices survives the policy."""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import Callable

import pytest
from isolane.errors import NotSupported
from isolane.testbed import NETNS_DIR, kernel

from tests.enforce.lan import MB, PATHS, Lan, lan
from tests.enforce.rig import inside, shown
from tests.live import LIMIT_S

pytestmark = [pytest.mark.root, pytest.mark.native]

NEIGHBOURS = ("west", "east")
IP_MTU_DISCOVER, IP_PMTUDISC_PROBE = 10, 3


def assert_all_arrives(net: Lan) -> None:
    for source, target in PATHS:
        found = net.transfer(source, target)
        assert found.received == found.sent, f"{source} to {target}: {found}"
        assert found.intact, f"{source} to {target}: other data than was sent"


def offloads(net: Lan) -> list[str]:
    """What ethtool says of all interfaces that a policy may touch."""
    ends = [(name, "eth0") for name in NEIGHBOURS]
    ends += [("router", "in"), ("router", "out")]
    ends += [("host", name) for name in ("nic0", "nic1", "port0", "port1")]
    return [net.run(name, "ethtool", "-k", ifname) for name, ifname in ends]


EACH = [(1500, 4), (9000, 6)]
"""Each MTU and each version of IP once; the first test has all pairs."""


@pytest.mark.parametrize(
    ("mtu", "ip", "how"),
    [
        *((*pair, how) for pair in EACH for how in ("direct", "bridged polled")),
        *((*pair, how) for pair in ((1500, 6), (9000, 4)) for how in ("bridged", "polled")),
    ],
)
def test_tcp_arrives_whole(ip: int, mtu: int, how: str) -> None:
    with lan(ip, mtu, how) as net:
        before = offloads(net)
        for forward in ("kernel", "xdp"):
            for link in ("", ", rate_min: 1Gbps"):
                assert net.apply(f"forward: {forward}{link}").notes == ()
                assert_all_arrives(net)
        assert net.enforcer.status().drift == ()
        net.enforcer.clear()
        assert offloads(net) == before


@pytest.mark.parametrize(("mtu", "ip"), EACH)
@pytest.mark.parametrize("how", ["direct", "polled"])
def test_checksums_that_are_left_out_all_the_same_are_added(ip: int, mtu: int, how: str) -> None:
    with lan(ip, mtu, how) as net:
        for forward in ("kernel", "xdp"):
            net.apply(f"forward: {forward}")
            for name, ifname in [*((name, "eth0") for name in NEIGHBOURS), ("router", "out")]:
                net.run(name, "ethtool", "-K", ifname, "tx", "on")
            assert_all_arrives(net)
            drift = {drift.setting.partition(" ")[0] for drift in net.enforcer.status().drift}
            assert drift == {"eth0", "out"} if how == "polled" else {"eth0"}


@pytest.mark.parametrize(("mtu", "ip"), EACH)
@pytest.mark.parametrize("how", ["stacked", "stacked bridged"])
def test_a_nic_without_xdp_gets_the_demultiplexer_of_tc(ip: int, mtu: int, how: str) -> None:
    with lan(ip, mtu, how) as net:
        outcome = net.apply("rate_min: 1Gbps")
        assert [note.partition(":")[0] for note in outcome.notes] == ["nic0", "nic1"]
        assert_all_arrives(net)
        assert net.enforcer.status().drift == ()
        sample = net.enforcer.sample()
        assert sample is not None
        assert sample.routers[0].offered > 1000
        assert net.apply("rate_min: 1Gbps").changes == ()


@pytest.mark.parametrize(("mtu", "ip"), EACH)
def test_a_guest_behind_taps_is_reached_and_heard(ip: int, mtu: int) -> None:
    with lan(ip, mtu, "bridged tapped") as net:
        for link in ("", "rate_min: 1Gbps", "rate_max: {egress: 60kpps}"):
            told = [note.partition(":")[0] for note in net.apply(link).notes]
            expected = ["vm0 (port0)"] * (mtu > 4000) + ["vm0 (port0)"] * ("min" in link)
            assert told == expected + [name.replace("0", "1") for name in expected]
            assert_all_arrives(net)


def test_merged_segments_count_one_by_one() -> None:
    with lan(4, 1500, "bridged tapped") as net:
        net.apply()
        sent = net.transfer("router", "east", 8 * MB)
        assert sent.intact
        sample = net.enforcer.sample()
        assert sample is not None
        out = sample.routers[1]
        # 1,448 bytes of data a segment; the guest hands them over many at a time.
        assert out.forwarded >= 8 * MB / 1460
        assert out.forwarded_bytes >= 8 * MB * 1518 / 1460


def test_a_neighbour_out_of_reach_is_named_and_its_checksums_are_added() -> None:
    with lan(4, 1500) as net:
        path = NETNS_DIR / net.netns("west")
        held = os.open(path, os.O_RDONLY)
        try:
            shown("ip", "netns", "del", path.name)
            (note,) = net.apply().notes
            assert note.startswith("nic0: its other end is in a network namespace")
            assert net.enforcer.status().notes == (note,)
            path.touch()
            kernel.mount(f"/proc/self/fd/{held}", path, kernel.MS_BIND)
        finally:
            os.close(held)
        assert "tx-checksumming: on" in net.run("west", "ethtool", "-k", "eth0")
        assert_all_arrives(net)


def test_frames_too_long_for_the_next_interface_are_counted_and_told() -> None:
    with lan(4, 9000, "polled") as net:
        net.run("host", "ip", "link", "set", "nic1", "mtu", "1500")
        net.run("host", "ip", "link", "set", "port0", "mtu", "4000")
        net.run("router", "ip", "link", "set", "in", "mtu", "3000")
        notes = net.apply().notes
        assert [note.partition(":")[0] for note in notes] == [
            "vr1 (in)", "vr1 (in)", "vr1 (out)",
        ]  # fmt: skip
        assert net.enforcer.status().notes == notes
        flood(net, "west", "router", 5000, 7)
        wait_for_drops(net, {"size": 7}.__eq__)
        flood(net, "west", "router", 3500, 5)
        wait_for_drops(net, {"size": 7, "redirect": 5}.__eq__)
        flood(net, "router", "east", 4500, 3)
        wait_for_drops(net, {"size": 10, "redirect": 5}.__eq__)


def test_a_queue_whose_frames_the_kernel_has_lost_comes_back() -> None:
    with lan(4, 1500) as net:
        net.apply("queue: 32")
        assert net.transfer("west", "router").intact
        net.run("router", "ip", "link", "set", "in", "down")
        before = dropped(net).get("queue", 0)
        flood(net, "west", "router", 1000, 100)
        # The first ones go to the interface that is down, and with them the rest would be lost.
        wait_for_drops(net, lambda found: found.get("queue", 0) >= before + 100 - 32 - 10)
        net.run("router", "ip", "link", "set", "in", "up")
        mac = json.loads(net.run("west", "ip", "-j", "link", "show", "eth0"))[0]["address"]
        neighbour = (net.address(0, 2), "lladdr", mac, "dev", "in")
        net.run("router", "ip", "neigh", "replace", *neighbour)
        assert net.transfer("west", "router").intact


def test_checksums_within_a_tunnel_are_there() -> None:
    with lan(4, 1500) as net:
        ends = [("router", 1, 2), ("west", 2, 1)]
        try:
            for name, own, other in ends:
                addresses = ("local", net.address(0, own), "remote", net.address(0, other))
                kind = ("type", "vxlan", "id", "5", "dstport", "4789")
                net.run(name, "ip", "link", "add", "over", *kind, *addresses)
                net.run(name, "ip", "addr", "add", f"{net.address(2, own)}/24", "dev", "over")
                net.run(name, "ip", "link", "set", "over", "up")
        except AssertionError as error:
            pytest.skip(f"this kernel has no vxlan: {error}")
        net.apply()
        for source, target in (("west", "router"), ("router", "west")):
            assert net.transfer(source, target, network=2).intact


def test_what_a_nic_without_xdp_cannot_do_is_refused_or_told() -> None:
    with lan(4, 1500, "stacked") as net:
        with pytest.raises(NotSupported, match="cpu_max needs NICs whose driver runs XDP, and"):
            net.apply("cpu_max: 50%")
        assert net.enforcer.status().policy is None
        notes = net.apply("forward: xdp").notes
        assert any("forwarded by the kernel, not by XDP" in note for note in notes)


def test_weights_of_a_link_hold_for_jumbo_frames() -> None:
    with lan(4, 9000, "bridged") as net:
        net.apply("link_weight: 4")
        (router,) = net.enforcer.status().routers
        assert router.in_force["link_weight"] == "4"
        quanta = re.findall(
            r"quantum (\d+)", net.run("host", "tc", "-d", "class", "show", "dev", "nic0")
        )
        # A class sends a whole frame in its turn, whatever its quantum.
        assert sorted({int(number) for number in quanta}) == [9100, 36400]


def flood(net: Lan, source: str, target: str, payload: int, count: int) -> None:
    """Send datagrams that are not to be cut."""
    where = {"router": net.address(0, 1), "east": net.address(1, 2)}

    def send() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE)
            for _ in range(count):
                udp.sendto(bytes(payload), (where[target], 9))

    inside(net.netns(source), send)


def dropped(net: Lan) -> dict[str, int]:
    """What the router has lost, by place."""
    sample = net.enforcer.sample()
    assert sample is not None
    return {point: count for point, count in sample.routers[0].dropped.items() if count}


def wait_for_drops(net: Lan, enough: Callable[[dict[str, int]], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not enough(found := dropped(net)):
        assert time.monotonic() < deadline, found
        time.sleep(0.01)

"""Every drop point, provoked: counted there, once, to the frame."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from isolane.testbed import Counters, Testbed, Wire
from pyroute2 import NetNS

pytestmark = pytest.mark.root

FRAMES = 40
MANY = 150_000
RING_FRAMES, FREED_AT_ONCE = 256, 16
"""Slots of a veth's ring, and how many have to be emptied before they are free: fewer of them may
still be taken by frames of before, so that one that nobody empties meanwhile takes 241 at least."""


def of(lost: Counters, router: str | None = "vr-1") -> dict[str, int]:
    return {point: frames for point, frames in lost.of(router).items() if frames}


@pytest.mark.parametrize("ip", [4, 6])
@pytest.mark.parametrize("why", ["missing", "blackhole", "unreachable", "prohibit", "ttl"])
def test_no_route(why: str, ip: int, journal: Any, plan: Any, traffic: Any) -> None:
    elsewhere = "203.0.113.9" if ip == 4 else "2001:db8::9"
    with Testbed(plan("direct", 2, ip), journal) as bed:
        if why in ("blackhole", "unreachable", "prohibit"):
            with NetNS("isolane-vr-1", flags=0) as netns:
                netns.route("add", dst=elsewhere, type=why)
        wire = bed.wires[0]
        accounting = traffic.account(bed, wire)
        ttl, dst = (1, None) if why == "ttl" else (64, elsewhere)
        traffic.send(wire, [traffic.frame(wire, source=n, ttl=ttl, dst=dst) for n in range(FRAMES)])
        got, lost = accounting.balance(FRAMES)
        assert got == 0
        assert of(lost) == {"no_route": FRAMES}
        assert of(lost, "vr-2") == {}
        assert of(lost, None) == {}


def blasted_until(
    where: tuple[str | None, str], bed: Testbed, wire: Wire, core: int, traffic: Any
) -> tuple[int, int, Counters]:
    """Send more than a core can forward until frames are lost there: (sent, received, lost).

    A machine that has little time for the sender may need several turns.
    """
    bed.receive_often()
    accounting, sent = traffic.account(bed, wire), 0
    router, point = where
    while True:
        traffic.blast(wire, traffic.frame(wire), MANY, core)
        sent += MANY
        got, lost = accounting.balance(sent)
        if lost.of(router)[point]:
            return sent, got, lost
        assert sent < 200 * MANY, f"none of {sent} frames was lost at {where}"


@pytest.mark.parametrize("receive", ["threaded", "softirq"])
@pytest.mark.parametrize(
    ("path", "owner"), [("direct", "vr-1"), ("none", "vr-1"), ("bridge", None), ("macvlan", None)]
)
def test_nic_queue(
    path: str, owner: str | None, receive: str, journal: Any, plan: Any, traffic: Any
) -> None:
    """More than a core can forward: the NIC's ring is full most of the time."""
    setting = plan(path, receive=receive)
    with Testbed(setting, journal) as bed:
        core = setting.measure_cores[0]
        where = owner, "nic_queue"
        sent, got, lost = blasted_until(where, bed, bed.wires[0], core, traffic)
        accepted = sent - lost.of(owner)["nic_queue"]
        assert RING_FRAMES - (FREED_AT_ONCE - 1) <= accepted < sent, lost
        assert got <= accepted, "the next queue may have been full, too"


def test_router_queue_of_a_bridge_is_the_backlog(journal: Any, plan: Any, traffic: Any) -> None:
    """Two routers behind one bridge: the one that is flooded loses in its own queue."""
    setting = plan("bridge", 2, receive="softirq")
    with Testbed(setting, journal) as bed:
        core = setting.measure_cores[0]
        where = "vr-2", "router_queue"
        _, _, lost = blasted_until(where, bed, bed.wires[1], core, traffic)
        mine = lost.of("vr-2")
        assert lost.backlog_dropped >= mine["router_queue"] + mine["egress"]
        assert of(lost, "vr-1") == {}


def refused_by_the_wire(bed: Testbed, wire: Wire, core: int, traffic: Any) -> Counters:
    """Send while the receiver is polled too rarely, until its ring overflows: what was lost."""
    accounting, sent = traffic.account(bed, wire), 0
    while True:
        traffic.moderate(wire, 500_000_000)
        traffic.blast(wire, traffic.frame(wire), MANY, core)
        traffic.moderate(wire, bed.receiver_moderation_ns)
        sent += MANY
        lost: Counters = accounting.balance(sent)[1]
        if lost.of("vr-1")["egress"] + lost.of(None)["egress"]:
            return lost
        assert sent < 200 * MANY, "the wire took every frame"


@pytest.mark.parametrize("path", ["direct", "bridge", "macvlan"])
def test_egress_ring(path: str, journal: Any, plan: Any, traffic: Any) -> None:
    setting = plan(path, receive="softirq")
    with Testbed(setting, journal) as bed:
        lost = refused_by_the_wire(bed, bed.wires[0], setting.measure_cores[0], traffic)
        if path == "bridge":  # there nobody knows whose frame the shared wire refused
            assert lost.own_receiver_dropped == {}
        else:
            assert lost.of(None)["egress"] == 0
            assert lost.own_receiver_dropped == {"vr-1": lost.receiver_dropped}


@pytest.mark.parametrize("kind", ["tbf", "htb"])
def test_egress_limited_by_the_user(kind: str, journal: Any, plan: Any, traffic: Any) -> None:
    """A token bucket that somebody put on a router's interface drops there."""
    with Testbed(plan("direct"), journal) as bed:
        commands = {
            "tbf": ["qdisc add dev isl-out0 root tbf rate 100kbit burst 2000 limit 2000"],
            "htb": [
                "qdisc add dev isl-out0 root handle 1: htb default 1",
                "class add dev isl-out0 parent 1: classid 1:1 htb rate 100kbit burst 2000",
                "qdisc add dev isl-out0 parent 1:1 handle 2: bfifo limit 1000",
            ],
        }
        for command in commands[kind]:
            tc = ["tc", "-netns", "isolane-vr-1", *command.split()]
            subprocess.run(tc, check=True)
        wire = bed.wires[0]
        accounting, sent = traffic.account(bed, wire), 0
        while True:
            traffic.send(wire, [traffic.frame(wire)] * 400)
            sent += 400
            got, lost = accounting.balance(sent)
            if lost.of("vr-1")["egress"]:
                break
            assert sent < 200 * 400, "frames came too slowly to be too many"
        assert 0 < got < sent
        assert set(of(lost)) <= {"egress", "nic_queue"}  # the latter where the machine pauses


def test_frames_that_a_full_ring_refuses_are_lost_there(
    journal: Any, plan: Any, traffic: Any
) -> None:
    """The sender has the core of the thread that would poll, so the ring fills up."""
    with Testbed(setting := plan("direct", receive="threaded"), journal) as bed:
        wire, refused, sent = bed.wires[0], 0, 0
        accounting = traffic.account(bed, wire)
        while not refused:
            refused = traffic.overrun(wire, traffic.frame(wire), 1000, setting.dut_cores[0])
            sent += 1000
            assert sent < 1_000_000, "no ring was ever full"
        got, lost = accounting.balance(sent)
        assert of(lost)["nic_queue"] >= refused
        assert set(of(lost)) == {"nic_queue"}
        assert got == sent - of(lost)["nic_queue"]

"""Forwarded by XDP, a router does what its kernel would do; what is unusual its kernel does."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from isolane import _native

from tests.enforce.frames import Frame, catching, icmp, send, wait
from tests.enforce.rig import DUT, Rig, inside, shown
from tests.live import LIMIT_S
from tests.wires import bring_up

pytestmark = [pytest.mark.root, pytest.mark.native]


def by_xdp(rig: Rig) -> int:
    """Frames of vr1 that XDP has forwarded."""
    plane = _native.Plane.open(netns=None, ifindex=socket.if_nametoindex(rig.nics[0]))
    assert plane is not None
    slot = rig.enforcer.numbers()["queue:vr1:isl-in0"]
    queue = plane.queue_counts(slot)
    assert queue is not None
    return queue.forwarded


def sent_bytes(rig: Rig) -> int:
    """Bytes that vr1 has sent, with the frame check sequence, whoever forwarded them."""
    sample = rig.enforcer.sample()
    assert sample is not None
    return sample.routers[0].forwarded_bytes


def passed(
    rig: Rig, frames: list[Frame], answers: int | None = None
) -> tuple[list[bytes], list[tuple[int, int]]]:
    """Send frames; returns what came out of the router, and the ICMP that came back.

    Parameters
    ----------
    answers
        How many frames come of them at least, here or there; default: one of each.
    """
    wire = rig.wire("vr1")
    there = catching(wire.rcv_netns, wire.rcv_ifname)
    with there as out, catching(wire.gen_netns, wire.gen_ifname) as back:
        send(wire, frames)
        wait((out, back), len(frames) if answers is None else answers)
        came = [frame for frame in out.frames if icmp(frame) is None]
        return came, [found for frame in back.frames if (found := icmp(frame))]


def with_replies_by_xdp(rig: Rig) -> Rig:
    """Have the sender's end of the wire take frames that XDP sends, as any NIC's other end does."""
    wire = rig.wire("vr1")

    def renew() -> None:
        shown("ethtool", "-K", wire.gen_ifname, "gro", "on")
        shown("ip", "link", "set", "dev", wire.gen_ifname, "down")

    netns = Path(wire.gen_netns).name
    inside(netns, renew)
    bring_up((netns, wire.gen_ifname), (DUT, rig.nics[0]))
    return rig


ODD: dict[str, Callable[[Frame], Frame]] = {
    "options": lambda f: replace(f, options=b"\x01\x01\x01\x00"),
    "last hop": lambda f: replace(f, ttl=1),
    "no hop": lambda f: replace(f, ttl=0),
    "too long": lambda f: replace(f, payload=1300, flags=0x4000),
    "no route": lambda f: replace(f, dst="203.0.113.9" if "." in f.wire.dst_ip else "2001:db8::9"),
}  # fmt: skip
"""Frames for the kernel."""


@pytest.mark.parametrize("ip", [4, 6])
def test_xdp_forwards_as_the_kernel_does(make_rig: Callable[..., Rig], ip: int) -> None:
    rig = with_replies_by_xdp(make_rig(routers=1, ip=ip))
    shown("ip", "-n", "isolane-vr1", "link", "set", "dev", "isl-out0", "mtu", "1280")
    plain = Frame(rig.wire("vr1"))
    usual = [replace(plain, number=number, ttl=64 - number) for number in range(20)]
    fragments = [replace(plain, number=40, flags=0x2000), replace(plain, number=41, flags=0x00B9)]
    odd = {name: make(plain) for name, make in ODD.items() if ip == 4 or name != "options"}
    found = {}
    for forward in ("kernel", "xdp"):
        rig.cli("apply", rig.file(vr1=f"forward: {forward}"))
        before, bytes_before = by_xdp(rig), sent_bytes(rig)
        came, told = passed(rig, usual + fragments * (ip == 4))
        assert sent_bytes(rig) >= bytes_before + sum(len(frame.data()) + 4 for frame in usual)
        assert (len(came), told) == (20 + 2 * (ip == 4), [])
        if forward == "kernel":
            assert by_xdp(rig) == before
        else:
            assert by_xdp(rig) >= before + 20
        before = by_xdp(rig)
        unusual = {name: passed(rig, [frame]) for name, frame in odd.items()}
        assert by_xdp(rig) == before
        found[forward] = (sorted(came), unusual)
    assert found["kernel"] == found["xdp"]
    _, unusual = found["xdp"]
    exceeded, unreachable, too_big = ((11, 0), (3, 0), (3, 4)) if ip == 4 else (
        (3, 0), (1, 0), (2, 0)
    )  # fmt: skip
    assert unusual["last hop"] == ([], [exceeded])
    assert unusual["too long"] == ([], [too_big])
    assert unusual["no route"] == ([], [unreachable])
    if ip == 4:
        assert len(unusual["options"][0]) == 1


def test_routes_that_change_are_followed_at_once(make_rig: Callable[..., Rig]) -> None:
    rig = with_replies_by_xdp(make_rig(routers=1))
    rig.cli("apply", rig.file(vr1="forward: xdp"))
    frame = Frame(rig.wire("vr1"))
    came, told = passed(rig, [frame])
    assert (len(came), told) == (1, [])
    assert came[0][22] == 63, "one hop less"
    route = ("ip", "-n", "isolane-vr1", "route")
    shown(*route, "add", "unreachable", f"{rig.wire('vr1').dst_ip}/32")
    assert passed(rig, [frame]) == ([], [(3, 1)])
    shown(*route, "del", "unreachable", f"{rig.wire('vr1').dst_ip}/32")
    assert passed(rig, [frame]) == (came, [])


def test_frames_for_the_router_itself_reach_it(make_rig: Callable[..., Rig]) -> None:
    rig = with_replies_by_xdp(make_rig(routers=1))
    rig.cli("apply", rig.file(vr1="forward: xdp"))
    address = rig.wire("vr1").dst_ip.rpartition(".")[0] + ".1"  # of its other side
    assert passed(rig, [Frame(rig.wire("vr1"), dst=address)]) == ([], [(3, 3)])


def udp(frames: list[bytes]) -> list[bytes]:
    return [frame for frame in frames if frame[12:14] == b"\x08\x00" and frame[23] == 17]


def test_a_neighbour_that_is_not_known_is_found_by_the_kernel(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(routers=1, path="bridge")
    wire = rig.wire("vr1")
    for port in ("isl-q0", rig.nics[1]):
        flood = ("flood", "on", "bcast_flood", "on", "learning", "on")
        shown("bridge", "link", "set", "dev", port, *flood)
    for netns, ifname in (("isolane-vr1", "isl-out0"), ("isolane-rcv", wire.rcv_ifname)):
        shown("ip", "-n", netns, "link", "set", "dev", ifname, "arp", "on")
    shown("ip", "-n", "isolane-rcv", "addr", "add", f"{wire.dst_ip}/24", "dev", wire.rcv_ifname)
    shown("ip", "-n", "isolane-vr1", "neigh", "flush", "nud", "permanent", "dev", "isl-out0")
    rig.cli("apply", rig.file(vr1="forward: xdp"))
    deadline = time.monotonic() + LIMIT_S
    with catching(wire.rcv_netns, wire.rcv_ifname) as out:
        send(wire, [Frame(wire)])
        while not udp(out.frames):  # it asks for the neighbour first, and again while it waits
            assert time.monotonic() < deadline
            out.take()
            time.sleep(0.01)
        wait((out,), len(out.frames))  # no more come
    assert b"\x08\x06" in {frame[12:14] for frame in out.frames}
    assert len(udp(out.frames)) == 1
    assert by_xdp(rig) == 0
    while wire.dst_ip not in shown("ip", "-n", "isolane-vr1", "neigh", "show", "nud", "reachable"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    later, _ = passed(rig, [Frame(wire, number=number) for number in range(10)])
    assert len(udp(later)) == 10
    assert by_xdp(rig) >= 10

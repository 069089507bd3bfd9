"""Containers at ports of `isolane netback`: behind an interface of the host, not at a socket."""

from __future__ import annotations

import os
import socket
import time
from contextlib import closing
from pathlib import Path

import pytest
from isolane.testbed.host_links import in_netns

from tests.live import LIMIT_S, isolane, transmit
from tests.netback.back_end import DUT, FAR, back_end, dropped, far_mac, mac, outer
from tests.netback.container import attached, container
from tests.netback.far_end import Arrivals, conserved, of, send
from tests.netback.streams import SERVER, ends, stream
from tests.wires import ip

pytestmark = [
    pytest.mark.root,
    pytest.mark.beside,
    pytest.mark.native,
    pytest.mark.usefixtures("needs_root"),
]

BATCH = 12
"""Frames that find space in any ring."""


@pytest.mark.parametrize("ip_version", [4, 6])
def test_containers_forward_to_the_frame(ip_version: int, tmp_path: Path) -> None:
    """They are started after the back-end, which waits for their interfaces."""
    sizes = [62, 63, 594, 1514]
    with back_end(tmp_path, 2, containers=(0, 1)) as one:
        assert not any(port.attached for port in one.status().ports)
        with container(0, ip_version), container(1, ip_version), closing(Arrivals()) as arrivals:
            attached(one, 0)
            attached(one, 1)
            for _ in range(5):
                for number in (0, 1):
                    send([one.frame(number, ip_version, size) for size in sizes] * BATCH)
                arrivals.take(2 * BATCH * len(sizes))
            assert sorted(map(len, arrivals.frames)) == sorted(sizes * 2 * BATCH * 5)
            conserved(one.status())
            for number in (0, 1):
                # They also hear what the other one says to all, with IPv6.
                assert of(one.status(), one.port(0, number)).delivered >= 5 * BATCH * len(sizes)


@pytest.mark.usefixtures("needs_guest_kernel")
def test_one_comes_and_goes_beside_a_guest(tmp_path: Path) -> None:
    """A new container's interface has the name of the former one's; its socket is bound anew."""
    with (
        back_end(tmp_path, 2, containers=(1,)) as one,
        one.guest(0),
        closing(Arrivals()) as arrivals,
    ):
        for _ in range(3):
            with container(1):
                attached(one, 1)
                send([one.frame(0), one.frame(1)] * BATCH)
                arrivals.take(2 * BATCH)
            attached(one, 1, there=False)
            send([one.frame(0), one.frame(1)] * BATCH)
            arrivals.take(BATCH)
        status = one.status()
        conserved(status)
        assert of(status, one.port(0, 1)).no_guest == 3 * BATCH
        assert of(status, one.port(0, 0)).delivered == 6 * BATCH, "the guest lost nothing"


@pytest.mark.parametrize("offloads", ["on", "off"])
def test_streams_from_and_to_one(offloads: str, tmp_path: Path) -> None:
    """Its kernel merges segments and leaves checksums to its interface, whatever the port says."""
    data = os.urandom(2_000_000)
    with (
        back_end(tmp_path, containers=(0,), more=f", offloads: {offloads}") as one,
        container(0) as netns,
        ends(4) as through,
    ):
        attached(one, 0)
        through(data)
        stream(data, netns, SERVER, "10.9.1.2")
        stream(data, SERVER, netns, "10.9.1.1")
        status = one.until("all is sent", lambda s: not any(port.waiting for port in s.ports))
    conserved(status)
    assert all(port.malformed == port.too_long == 0 for port in status.ports), status


def test_what_is_not_taken_in_time_is_counted_and_costs_nothing(tmp_path: Path) -> None:
    """While the uplink takes nothing, frames wait; the rest is the container's own loss."""
    with (
        back_end(tmp_path, containers=(0,)) as one,
        container(0) as netns,
        closing(Arrivals()) as arrivals,
    ):
        attached(one, 0)
        ip("-n", DUT, "link", "set", "n1", "down")
        name, there = one.port(1, 0), f"/run/netns/{netns}"
        sent = in_netns(there, lambda: flood(2500))
        one.until("the container's ring was full", lambda s: of(s, name).not_taken > 0)
        conserved(one.status())
        began, used_s = time.monotonic(), one.cpu_s()
        time.sleep(1.0)
        assert one.cpu_s() - used_s < 0.5 * (time.monotonic() - began), "it does not spin"
        ip("-n", DUT, "link", "set", "n1", "up")
        status = one.until("all went on", lambda s: of(s, name).transmitted == sent)
        status = one.until("and out", lambda s: of(s, name).waiting == 0)
        conserved(status)
        arrivals.take(of(status, name).sent)
        assert dropped("n1") == status.uplinks[1].retried


def test_what_a_full_wire_does_not_take_is_sent_later_and_once(tmp_path: Path) -> None:
    """The wire's far end is polled twice a second, and somebody else has filled it."""
    with (
        back_end(tmp_path, containers=(0,)) as one,
        container(0) as netns,
        closing(Arrivals()) as arrivals,
    ):
        attached(one, 0)
        hold_far_end()
        name, there = one.port(1, 0), f"/run/netns/{netns}"
        others = refused = sent = 0
        deadline = time.monotonic() + LIMIT_S
        while not one.status().uplinks[1].retried:  # a slow machine polls between the two
            assert time.monotonic() < deadline, one.status()
            taken = in_netns(f"/run/netns/{DUT}", lambda: flood(200, by="n1"))
            others, refused = others + taken, refused + 200 - taken
            sent += in_netns(there, lambda: flood(600))
            one.until("all is known", lambda s: of(s, name).transmitted == sent)  # noqa: B023
        status = one.until("and sent", lambda s: of(s, name).waiting == 0)
        arrivals.take(others + of(status, name).sent)
        time.sleep(1.0)
        status = one.status()
        conserved(status)
        assert dropped("n1") == status.uplinks[1].retried + refused
        assert not arrivals.have_one_within(0.1), "each came once"


def hold_far_end() -> None:
    """Have the uplink's far end polled by timer alone, twice a second, from its first frame on."""
    ip("netns", "exec", DUT, "ethtool", "-K", "n1", "tso", "off", "tx", "off", "sg", "off")
    ip("netns", "exec", FAR, "ethtool", "-K", "r0", "gro", "on")
    settings = {"napi_defer_hard_irqs": 2**31 - 1, "gro_flush_timeout": 500_000_000}
    for key, value in settings.items():
        command = f"mount -t sysfs sysfs /sys; echo {value} >/sys/class/net/r0/{key}"
        ip("netns", "exec", FAR, "sh", "-c", command)


def test_frames_that_are_too_long_are_counted(tmp_path: Path) -> None:
    with back_end(tmp_path, containers=(0,)) as one, container(0) as netns:
        attached(one, 0)
        for where, name in ((DUT, outer(1, 0)), (netns, "eth1")):
            ip("-n", where, "link", "set", name, "mtu", "9000")
        name, there = one.port(1, 0), f"/run/netns/{netns}"
        sent = in_netns(there, lambda: flood(200, size=4000))
        status = one.until("all are known", lambda s: of(s, name).transmitted == sent)
        conserved(status)
        assert of(status, name).malformed + of(status, name).not_taken == sent
        assert of(status, name).malformed > 0
        sent += in_netns(there, lambda: flood(3))
        status = one.until("and those behind them", lambda s: of(s, name).sent == 3)
        assert of(status, name).transmitted == sent


def flood(frames: int, size: int = 60, by: str = "eth1") -> int:
    """Transmit by an interface, from inside the container; returns the frames that it took."""
    header = bytes.fromhex((far_mac(1) + mac(1, 0)).replace(":", "")) + b"\x08\x00"
    frame = header.ljust(size, b"\0")
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
        raw.bind((by, 0))
        return sum(transmit(raw, frame) for _ in range(frames))


def test_an_interface_of_a_bridge_is_refused(tmp_path: Path) -> None:
    with back_end(tmp_path, containers=(0,)) as one, container(0):
        one.end()
        ip("-n", DUT, "link", "add", "b0", "type", "bridge")
        ip("-n", DUT, "link", "set", outer(1, 0), "master", "b0")
        done = isolane("netback", "start", one.file, prefix=("ip", "netns", "exec", DUT))
    assert done.returncode == 1
    assert f"ip link set {outer(1, 0)} nomaster" in done.stderr

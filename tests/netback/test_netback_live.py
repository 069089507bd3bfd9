"""`isolane netback` with guests that forward: every frame arrives or is counted."""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from isolane.guests import DIRECTORY as GUESTS
from isolane.guests import UmlGuest
from isolane.guests.leftovers import processes_of
from isolane.netback import DIRECTORY, Status, names, socket_of

from tests.live import LIMIT_S, isolane
from tests.netback.back_end import DUT, FAR, NAME, BackEnd, back_end, mac
from tests.netback.far_end import Arrivals, conserved, in_far, of, ones_sum, send
from tests.wires import ip

pytestmark = [
    pytest.mark.root,
    pytest.mark.beside,
    pytest.mark.native,
    pytest.mark.usefixtures("needs_root", "needs_guest_kernel"),
]

TURNS, BATCH = 6, 12
"""Frames of a batch find space in any ring, however slow the machine."""


def test_guests_forward_to_the_frame(tmp_path: Path) -> None:
    """IPv6: tests/testbed/test_guest_routers.py; other tests here have the usual scheduler."""
    with back_end(tmp_path, 2, "hierarchical") as one, one.guest(0), one.guest(1):
        with closing(Arrivals()) as arrivals:
            sizes = [60, 62, 63, 594, 1514]
            for _ in range(TURNS):
                for number in (0, 1):
                    send([one.frame(number, size=size) for size in sizes] * BATCH)
                arrivals.take(2 * BATCH * len(sizes))
            assert sorted(map(len, arrivals.frames)) == sorted(sizes * 2 * BATCH * TURNS)
        conserved(one.status())


def test_a_frame_of_a_vlan_keeps_its_tag(tmp_path: Path) -> None:
    """Else a guest would take what is for a VLAN as what is for itself."""
    tag = b"\x81\x00\x20\x07"
    with back_end(tmp_path) as one, one.guest(0) as guest:
        plain = one.frame(0)
        send([plain[:12] + tag + plain[12:]] * 5 + [plain] * 3)
        status = one.until("the others came out", lambda s: s.uplinks[1].sent == 3)
        assert of(status, one.port(0, 0)).delivered == 8
        received = guest.proc("net/dev").partition("eth0:")[2].split()
        assert int(received[0]) == 5 * (len(plain) + len(tag)) + 3 * len(plain), "bytes with tags"


def test_a_port_of_a_vlan_has_the_tag_on_the_uplink_alone(tmp_path: Path) -> None:
    """The guest forwards, so that it has seen frames without a tag."""

    def tagged(frame: bytes, vlan: int) -> bytes:
        return frame[:12] + b"\x81\x00" + vlan.to_bytes(2, "big") + frame[12:]

    with (
        back_end(tmp_path, 1, more=", vlan: 7") as one,
        one.guest(0),
        closing(Arrivals()) as arrivals,
    ):
        frames = [one.frame(0, size=size) for size in (60, 1514)]
        send(frames)
        for vlan in (8, 7):
            send([tagged(frame, vlan) for frame in frames])
        arrivals.take(2)
        status = one.status()
        assert of(status, one.port(0, 0)).delivered == 2, "the others are not of its VLAN"
        assert status.uplinks[0].received == 6
        assert [frame[12:16] for frame in arrivals.frames] == [b"\x81\x00\x00\x07"] * 2
        assert [len(frame) for frame in arrivals.frames] == [64, 1518]


def test_an_uplink_that_goes_down_costs_nothing_and_comes_back(tmp_path: Path) -> None:
    with back_end(tmp_path) as one, one.guest(0):
        ip("-n", DUT, "link", "set", "n1", "down")
        send([one.frame(0)] * 5)
        one.until("they wait", lambda s: of(s, one.port(1, 0)).transmitted == 5)
        before, began = one.cpu_s(), time.monotonic()
        time.sleep(1.0)
        assert one.cpu_s() - before < 0.5 * (time.monotonic() - began), "it does not spin"
        ip("-n", DUT, "link", "set", "n1", "up")
        with closing(Arrivals()) as arrivals:
            deadline = time.monotonic() + LIMIT_S
            while not arrivals.have_one_within(0.1):
                assert time.monotonic() < deadline
                send([one.frame(0)])


def test_a_checksum_that_the_sender_left_open_is_complete(tmp_path: Path) -> None:
    """A sender on the same host leaves it to the NIC, which a veth is not."""
    with back_end(tmp_path) as one, one.guest(0), closing(Arrivals()) as arrivals:
        ip("-n", FAR, "address", "add", "10.9.0.2/24", "dev", "g0")
        ip("-n", FAR, "neighbour", "add", "10.9.0.1", "lladdr", mac(0, 0), "dev", "g0")
        ip("-n", FAR, "route", "add", "10.9.1.0/24", "via", "10.9.0.1")
        in_far(_say_something)
        arrivals.take(1)
    packet = arrivals.frames[0][14:]
    datagram = packet[20 : int.from_bytes(packet[2:4], "big")]
    pseudo = packet[12:20] + bytes((0, 17)) + len(datagram).to_bytes(2, "big")
    assert datagram[6:8] != b"\0\0"
    assert ones_sum(pseudo + datagram) == 0xFFFF


def _say_something() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as plain:
        plain.sendto(b"odd bytes", ("10.9.1.2", 9))


def test_frames_go_to_whom_they_are_for(tmp_path: Path) -> None:
    with back_end(tmp_path, 2) as one, one.guest(0), one.guest(1):
        nobody, everybody = "02:15:aa:00:00:77", "ff:ff:ff:ff:ff:ff"
        send([one.frame(0, to=nobody)] * 10 + [one.frame(0, to=everybody)] * 7 + [one.frame(0)] * 5)
        status = one.until("its own came out", lambda s: s.uplinks[1].sent == 5)
        delivered = {name: of(status, name).delivered for name in map(one.port, (0, 0), (0, 1))}
        assert delivered == {one.port(0, 0): 12, one.port(0, 1): 7}
        assert [of(status, one.port(1, number)).delivered for number in (0, 1)] == [0, 0]
        assert status.uplinks[0].received == 22


def test_frames_without_a_guest_are_counted(tmp_path: Path) -> None:
    with back_end(tmp_path, 1) as one:
        send([one.frame(0)] * 20)
        status = one.until("counted", lambda s: of(s, one.port(0, 0)).no_guest == 20)
        conserved(status)
        with one.guest(0):
            send([one.frame(0)] * 20)
            one.until("came out", lambda s: s.uplinks[1].sent == 20)


def test_another_source_address_is_dropped_and_counted(tmp_path: Path) -> None:
    with back_end(tmp_path, 1) as one:
        plan = one.plan(0)
        changed = plan.script.replace(
            "ip link set eth1 arp off up", "ip link set eth1 address 02:00:00:00:00:99 arp off up"
        )
        assert changed != plan.script
        with UmlGuest(replace(plan, script=changed), LIMIT_S):
            send([one.frame(0)] * 9)
            status = one.until("dropped", lambda s: of(s, one.port(1, 0)).wrong_source == 9)
            conserved(status)
            assert status.uplinks[1].sent == 0


def test_a_guest_that_dies_takes_nothing_of_another_and_can_come_back(tmp_path: Path) -> None:
    with back_end(tmp_path, 2) as one, one.guest(1):
        with one.guest(0):
            for process in processes_of(GUESTS / "netback-0"):
                with suppress(ProcessLookupError):  # it went with another one
                    os.kill(process, signal.SIGKILL)
            ports = [one.port(side, 0) for side in (0, 1)]
            one.until("gone", lambda s: not any(of(s, port).attached for port in ports))
            send([one.frame(0)] * 5 + [one.frame(1)] * 20)
            status = one.until("the other's came out", lambda s: s.uplinks[1].sent == 20)
            assert of(status, ports[0]).no_guest == 5
        with one.guest(0):
            send([one.frame(0)] * 5)
            one.until("it is back", lambda s: s.uplinks[1].sent == 25)


def memory_of(folder: Path) -> list[Path]:
    """Descriptors of a guest's processes that are files of its memory."""
    found = []
    for process in processes_of(folder):
        with suppress(OSError):  # processes come and go
            for file in Path(f"/proc/{process}/fd").iterdir():
                with suppress(OSError):  # and so do descriptors
                    if str(file.readlink()).startswith("/dev/shm/"):
                        found.append(file)
    return found


def test_memory_that_is_cut_short_ends_its_own_guest_alone(tmp_path: Path) -> None:
    with back_end(tmp_path, 2) as one, one.guest(0), one.guest(1):
        files = memory_of(GUESTS / "netback-0")
        assert files, "its memory is a file"
        for file in files:
            with suppress(OSError):  # it has gone, with its memory
                os.truncate(file, 0)
        send([one.frame(0)] * 5 + [one.frame(1)] * 20)
        status = one.until("the other's came out", lambda s: s.uplinks[1].sent >= 20)
        ports = [one.port(side, 0) for side in (0, 1)]
        status = one.until("gone", lambda s: not any(of(s, port).attached for port in ports))
        assert of(status, one.port(1, 1)).sent == 20


def is_hung_up(connection: socket.socket) -> bool:
    """Tell whether the other end closes, whatever it has not read."""
    with suppress(ConnectionResetError):
        return connection.recv(1) == b""
    return True


def cut_off(one: BackEnd, port: str, times: int) -> Status:
    return one.until("cut off", lambda status: of(status, port).cut_offs == times)


NONSENSE = {
    "has flags": b"\xff" * 64,
    "a payload of 65535 bytes": b"\x07\0\0\0\x01\0\0\0\xff\xff\0\0",
    "99": b"\x63\0\0\0\x01\0\0\0\0\0\0\0",
}
"""What to find in the reason -> what is sent."""


def test_who_talks_nonsense_is_cut_off_and_others_lose_nothing(tmp_path: Path) -> None:
    with back_end(tmp_path, 2) as one, one.guest(1):
        port = one.port(0, 0)
        for number, (reason, message) in enumerate(NONSENSE.items(), 1):
            with socket.socket(socket.AF_UNIX) as hostile:
                hostile.connect(str(socket_of(NAME, port)))
                hostile.sendall(message)
                assert is_hung_up(hostile)
            status = cut_off(one, port, number)
            assert reason in (of(status, port).last_cut_off or "")
        with socket.socket(socket.AF_UNIX) as second:
            second.connect(str(socket_of(NAME, one.port(0, 1))))
            assert is_hung_up(second), "a guest is there already"
        send([one.frame(1)] * 20)
        one.until("the other's came out", lambda s: s.uplinks[1].sent == 20)
        told = isolane("netback", "status", NAME)
        assert f"port {port}: cut off 3 times, last: " in told.stdout


def test_it_has_no_rights_once_it_works(tmp_path: Path) -> None:
    with back_end(tmp_path) as one:
        threads = one.threads()
        assert len(threads) > 1
        for thread in threads:
            told = Path(f"/proc/{one.process.pid}/task/{thread}/status").read_text()
            assert "CapEff:\t0000000000000000" in told
            assert "CapPrm:\t0000000000000000" in told
            assert "NoNewPrivs:\t1" in told


def test_its_sockets_are_its_owners_alone(tmp_path: Path) -> None:
    with back_end(tmp_path):
        assert (DIRECTORY / NAME).stat().st_mode & 0o777 == 0o700


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    with back_end(tmp_path):
        inside = ("ip", "netns", "exec", DUT)
        done = isolane("netback", "start", tmp_path / "netback.yaml", prefix=inside)
        assert done.returncode == 1
        assert f"a network back-end named {NAME} runs" in done.stderr
        assert names() == [NAME]
    assert names() == []


def test_what_a_killed_one_left_goes_with_the_next_start(tmp_path: Path) -> None:
    with back_end(tmp_path, 1) as one:
        one.end(signal.SIGKILL)
        left = socket_of(NAME, one.port(0, 0))
        assert left.exists()
        assert names() == []
        done = isolane("netback", "status", NAME)
        assert done.returncode == 1
        assert f"no network back-end named {NAME} runs; running: none" in done.stderr
    with back_end(tmp_path, 1) as one, one.guest(0):
        send([one.frame(0)] * 20)
        one.until("came out", lambda s: s.uplinks[1].sent == 20)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_with_its_sockets(number: int, status: int, tmp_path: Path) -> None:
    with back_end(tmp_path) as one:
        assert one.end(number) == status
        assert not DIRECTORY.exists()

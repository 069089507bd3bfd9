"""Frames between ports of `isolane netback`, to a router that takes fewer than others send it."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path

import pytest
from isolane.netback import Status
from isolane.testbed.host_links import in_netns

from tests.live import LIMIT_S, transmit
from tests.netback.back_end import DUT, BackEnd, back_end, mac, outer
from tests.netback.container import container, netns_of
from tests.netback.far_end import SO_RCVBUFFORCE, conserved, of
from tests.wires import ip

pytestmark = [
    pytest.mark.root,
    pytest.mark.beside,
    pytest.mark.native,
    pytest.mark.usefixtures("needs_root"),
]

RING, OF_ONE = 256, 256
"""What an interface's ring takes while it is down, and frames of a sender that wait then."""
TO = 2
"""The container that the others send to, by the second wire."""


def send(number: int, frames: int) -> None:
    """Transmit from inside a container to that one: frames as long as a round's turn."""

    def there() -> None:
        frame = bytes.fromhex((mac(1, TO) + mac(1, number)).replace(":", "")) + b"\x88\xb5"
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
            raw.bind(("eth1", 0))
            assert all(transmit(raw, frame + bytes(1500)) for _ in range(frames))

    in_netns(f"/run/netns/{netns_of(number)}", there)


def transmitted(one: BackEnd, number: int, frames: int) -> Status:
    name = one.port(1, number)
    return one.until("they are known", lambda s: of(s, name).transmitted == frames)


def all_attached(one: BackEnd) -> None:
    one.until("all are attached", lambda s: all(port.attached for port in s.ports))


def start_with(one: BackEnd, keys: dict[str, str]) -> None:
    """Start it again with keys for some ports."""
    lines = one.file.read_text().splitlines()
    for name, more in keys.items():
        lines = [
            line.replace("}", f", {more}}}") if line.strip().startswith(f"{name}:") else line
            for line in lines
        ]
    one.file.write_text("\n".join(lines) + "\n")
    one.start_again()


def test_buffers_are_shared_by_weight(tmp_path: Path) -> None:
    """While the receiver takes nothing, two senders fill what may wait; then all goes at once."""
    with (
        back_end(tmp_path, 3, containers=(0, 1, TO)) as one,
        container(0),
        container(1),
        container(TO) as receiver,
    ):
        to = one.port(1, TO)
        start_with(one, {one.port(1, 0): "weight: 3", to: "wait: 1min"})
        all_attached(one)
        ip("-n", DUT, "link", "set", outer(1, TO), "down")
        send(0, RING // 2)
        transmitted(one, 0, RING // 2)
        send(0, RING // 2)  # now its ring is full
        transmitted(one, 0, RING)
        for number, known in ((1, 0), (0, RING)):
            total = known
            for frames in (OF_ONE // 2, OF_ONE // 2 + 9):  # no more at once than its own ring takes
                send(number, frames)
                total += frames
                transmitted(one, number, total)
        status = one.status()
        assert [of(status, one.port(1, number)).waiting for number in (0, 1)] == [OF_ONE] * 2
        assert of(status, to).ring_full == 2 * 9, "no more than that waits"
        conserved(status)
        raw: socket.socket = in_netns(f"/run/netns/{receiver}", _listen)
        with closing(raw):
            ip("-n", DUT, "link", "set", outer(1, TO), "up")
            came = [raw.recv(2048) for _ in range(RING + 2 * OF_ONE)]
        status = one.until("none waits", lambda s: not any(port.waiting for port in s.ports))
        conserved(status)
        assert of(status, to).delivered == RING + 2 * OF_ONE
    first, second = (bytes.fromhex(mac(1, number).replace(":", "")) for number in (0, 1))
    assert {frame[6:12] for frame in came[:RING]} == {first}, "what was there before is first"
    shared = [frame[6:12] for frame in came[RING : RING + 40]]
    assert abs(shared.count(first) - 30) <= 3, "three to one, as long as both wait"
    assert shared.count(second) == 40 - shared.count(first)


def _listen() -> socket.socket:
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88B5))
    raw.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)
    raw.bind(("eth1", 0x88B5))
    raw.settimeout(LIMIT_S)
    return raw


def test_what_waits_too_long_is_lost_and_counted(tmp_path: Path) -> None:
    """And what the senders have for others goes on meanwhile."""
    with (
        back_end(tmp_path, 3, containers=(0, 1, TO)) as one,
        container(0),
        container(1),
        container(TO),
    ):
        all_attached(one)
        ip("-n", DUT, "link", "set", outer(1, TO), "down")
        for batch in (1, 2):
            send(0, RING // 2)
            transmitted(one, 0, batch * RING // 2)
        send(1, OF_ONE // 2)
        transmitted(one, 1, OF_ONE // 2)
        status = one.until("none waits", lambda s: of(s, one.port(1, 1)).waiting == 0)
        conserved(status)
        assert of(status, one.port(1, TO)).ring_full == OF_ONE // 2
        assert of(status, one.port(1, TO)).delivered == RING

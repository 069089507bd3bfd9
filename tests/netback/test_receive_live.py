"""`isolane netback`: frames arrive before the kernel makes packets of them, or as such."""

from __future__ import annotations

import signal
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from isolane.netback import Status

from tests.netback.back_end import back_end, start
from tests.netback.container import attached, container
from tests.netback.far_end import Arrivals, conserved, of, ones_sum, send, send_merged

pytestmark = [
    pytest.mark.root,
    pytest.mark.beside,
    pytest.mark.native,
    pytest.mark.usefixtures("needs_root"),
]

MODES = [("auto", "xdp-copy"), ("packet", "packet")]
SIZES = (60, 61, 64, 333, 1024, 1513, 1514)
ROUNDS = 50
IP_BYTES = {4: 20, 6: 40}
EVERYBODY = "ff:ff:ff:ff:ff:ff"


def received(frames: int) -> Callable[[Status], bool]:
    return lambda status: status.uplinks[0].received == frames


@pytest.mark.parametrize("ip_version", [4, 6])
@pytest.mark.parametrize(("word", "receive"), MODES)
def test_frames_arrive_whole_and_in_order(
    word: str, receive: str, ip_version: int, tmp_path: Path
) -> None:
    start = 14 + IP_BYTES[ip_version]
    with (
        back_end(tmp_path, containers=(0,), uplink=f", early_drop: driver, receive: {word}") as one,
        container(0, ip_version),
        closing(Arrivals()) as arrivals,
    ):
        attached(one, 0)
        uplink = one.status().uplinks[0]
        assert (uplink.receive, uplink.receive_reason) == (receive, None)
        sent = []
        for number in range(ROUNDS):
            frames = [one.frame(0, ip_version, size) for size in SIZES]
            frames = [each[:-6] + bytes((number,)) * 6 for each in frames]
            send(frames)
            arrivals.take(len(frames))
            sent += frames
        assert [frame[start:] for frame in arrivals.frames] == [frame[start:] for frame in sent]
        status = one.status()
        conserved(status)
        assert status.uplinks[0].received == of(status, one.port(0, 0)).delivered == len(sent)


@pytest.mark.parametrize(("word", "receive"), MODES)
def test_what_is_for_all_arrives_beside_what_is_for_one(
    word: str, receive: str, tmp_path: Path
) -> None:
    with (
        back_end(tmp_path, 2, containers=(0, 1),
                 uplink=f", early_drop: driver, receive: {word}") as one,
        container(0),
        container(1),
    ):  # fmt: skip
        attached(one, 0)
        attached(one, 1)
        assert one.status().uplinks[0].receive == receive
        for number in range(ROUNDS):
            send([one.frame(0), one.frame(0, to=EVERYBODY), one.frame(1)])
            status = one.until("all have arrived", received(3 * (number + 1)))
        conserved(status)
        for number in (0, 1):
            assert of(status, one.port(0, number)).delivered == 2 * ROUNDS


@pytest.mark.parametrize(("word", "receive"), MODES)
def test_a_checksum_that_was_left_open_is_there(word: str, receive: str, tmp_path: Path) -> None:
    with (
        back_end(tmp_path, containers=(0,), uplink=f", early_drop: driver, receive: {word}") as one,
        container(0),
        closing(Arrivals()) as arrivals,
    ):
        attached(one, 0)
        assert one.status().uplinks[0].receive == receive
        for size in (60, 61, 1000, 1514):
            frame = bytearray(one.frame(0, 4, size))
            length = size - 34
            frame[34:] = struct.pack("!HHHH", 7, 9, length, 0) + bytes(range(256)) * 6
            del frame[size:]
            pseudo = bytes(frame[26:34]) + struct.pack("!HH", 17, length)
            frame[40:42] = ones_sum(pseudo).to_bytes(2, "big")
            # struct virtio_net_hdr: the checksum is needed, from byte 34 on, at 6 behind it.
            send_merged(struct.pack("=BBHHHH", 1, 0, 0, 0, 34, 6), bytes(frame))
            arrivals.take(1)
            assert ones_sum(pseudo + arrivals.frames[-1][34:size]) == 0xFFFF, size


def test_a_receive_queue_is_free_again_after_its_back_end(tmp_path: Path) -> None:
    with back_end(tmp_path, uplink=", early_drop: driver") as one:
        assert one.status().uplinks[0].receive == "xdp-copy"
        assert one.status().uplinks[1].receive == "packet", "it drops nothing early in its driver"
        one.end(signal.SIGKILL)
        one.process = start(one.file)
        assert one.status().uplinks[0].receive == "xdp-copy", "nothing is left of the former one"

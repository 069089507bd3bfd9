"""Counters of drivers, read while whoever has the interface changes how many there are."""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct
from dataclasses import dataclass, field

import pytest

from isolane.testbed import kernel

GSET_INFO, GSTRINGS, GSTATS = 0x37, 0x1B, 0x1D


@dataclass
class Driver:
    """Answers as the kernel does: with all that there is, whatever it was told."""

    names: int = 2
    values: int = 2
    asked: list[bytes] = field(default_factory=list)

    def ioctl(self, _file: int, _call: int, command: bytes) -> None:
        name, address = struct.unpack("16sP16x", command)
        self.asked.append(name.rstrip(b"\0"))
        kind = struct.unpack("=I", ctypes.string_at(address, 4))[0]
        if kind == GSET_INFO:
            answer = struct.pack("=IIQI", kind, 0, 2, 2)
        elif kind == GSTRINGS:
            texts = b"".join((b"rx_%d" % number).ljust(32, b"\0") for number in range(self.names))
            answer = struct.pack("=III", kind, 1, self.names) + texts
        elif kind != GSTATS:
            return
        else:
            answer = struct.pack(f"=II{self.values}Q", kind, self.values, *range(self.values))
        ctypes.memmove(address, answer, len(answer))


@pytest.fixture
def sock() -> socket.socket:
    return socket.socket()


@pytest.mark.parametrize(
    ("driver", "found"),
    [
        (Driver(), [("rx_0", 0), ("rx_1", 1)]),
        (Driver(values=36_864), []),
        (Driver(names=36_864, values=36_864), []),
        (Driver(values=1), []),
    ],
    ids=["as many as it said", "more values", "more names", "fewer"],
)
def test_counters_that_change_meanwhile_are_none_and_hurt_nobody(
    driver: Driver,
    found: list[tuple[str, int]],
    sock: socket.socket,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fcntl, "ioctl", driver.ioctl)
    with sock:
        assert kernel.counters(sock, "eth0") == found


def test_a_name_may_be_any_bytes(sock: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    monkeypatch.setattr(fcntl, "ioctl", driver.ioctl)
    with sock:
        assert kernel.counters(sock, "a\udcffb")
        kernel.get_offload(sock, "a\udcffb", "tx")
    assert set(driver.asked) == {b"a\xffb"}

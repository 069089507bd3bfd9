"""Real frames into and out of a test bed, without Isolane's own generator and receiver.

Two ways to send: a packet socket (few frames, exact content) and an XDP program of a few
instructions run over live frames (millions per second, from a chosen core).
"""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
from isolane.errors import TestbedError
from isolane.testbed import (
    BedPlan,
    Counters,
    Journal,
    RouterPlan,
    Testbed,
    Wire,
    clean,
    exclusive,
    kernel,
)
from isolane.testbed.namespace_thread import run_in_thread
from pyroute2 import NetNS

from tests.live import FREE_S, LIMIT_S, transmit

T = TypeVar("T")


@pytest.fixture(autouse=True)
def _root(needs_root: None) -> None:
    """All tests here build test beds."""


@pytest.fixture
def journal() -> Iterator[Journal]:
    with ExitStack() as stack:
        deadline = time.monotonic() + FREE_S
        while True:
            try:
                journal = stack.enter_context(exclusive())
                break
            except TestbedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        clean()
        yield journal


@pytest.fixture
def plan() -> Callable[..., BedPlan]:
    def make(path: str = "direct", routers: int = 1, ip: int = 4, **more: Any) -> BedPlan:
        measure, dut = sorted(os.sched_getaffinity(0))[:2]
        kind = "native" if path == "none" else "container"
        settings: dict[str, Any] = {
            "receive": "threaded",
            "moderation_ns": 50_000,
            "dut_cores": (dut,),
            "measure_cores": (measure,),
            **more,
        }
        names = [f"vr-{number + 1}" for number in range(routers)]
        return BedPlan(
            tuple(RouterPlan(name, kind, path, None) for name in names),  # type: ignore[arg-type]
            ip=ip,  # type: ignore[arg-type]
            **settings,
        )

    return make


def inside(netns: str, work: Callable[[], T], core: int | None = None) -> T:
    """Run ``work`` in a namespace (and on a core), in a thread of its own."""

    def entered() -> T:
        fd = os.open(netns, os.O_RDONLY | os.O_CLOEXEC)
        try:
            kernel.setns_net(fd)
        finally:
            os.close(fd)
        if core is not None:
            os.sched_setaffinity(0, {core})
        return work()

    return run_in_thread(entered)


class Traffic:
    """Sends and receives on the wires of a test bed."""

    inside = staticmethod(inside)

    def frame(self, wire: Wire, *, source: int = 0, ttl: int = 64, dst: str | None = None) -> bytes:
        """A UDP frame without FCS: 60 bytes (IPv4) or 80 (IPv6)."""
        src = ipaddress.ip_address(wire.src_ip) + source
        to = ipaddress.ip_address(dst or wire.dst_ip)
        udp = struct.pack("!HHHH", 49184, 9, 26, 0 if src.version == 4 else 1) + bytes(18)
        macs = bytes.fromhex((wire.dst_mac + wire.src_mac).replace(":", ""))
        if src.version == 6:
            head = struct.pack("!IHBB", 6 << 28, len(udp), 17, ttl) + src.packed + to.packed
            return macs + b"\x86\xdd" + head + udp
        head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, ttl, 17, 0)
        total = sum(struct.unpack("!10H", head + src.packed + to.packed))
        total = (total & 0xFFFF) + (total >> 16)
        total = (total & 0xFFFF) + (total >> 16)
        head = head[:10] + struct.pack("!H", ~total & 0xFFFF)
        return macs + b"\x08\x00" + head + src.packed + to.packed + udp

    def send(self, wire: Wire, frames: list[bytes]) -> None:
        """Send frames through a packet socket, slowly enough for any queue that is polled."""

        def work() -> None:
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as raw:
                raw.bind((wire.gen_ifname, 0))
                for frame in frames:
                    transmit(raw, frame)
                    time.sleep(0.0002)

        inside(wire.gen_netns, work)

    def overrun(self, wire: Wire, frame: bytes, count: int, core: int) -> int:
        """Send from a core that does nothing else meanwhile; return how many frames were refused.

        Parameters
        ----------
        core
            That of the thread which would poll the other end.
        """

        def work() -> int:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as raw:
                raw.bind((wire.gen_ifname, 0))
                return sum(not transmit(raw, frame) for _ in range(count))

        return inside(wire.gen_netns, work, core)

    def blast(self, wire: Wire, frame: bytes, count: int, core: int) -> None:
        """Send ``count`` copies of a frame as fast as ``core`` can."""

        def work() -> None:
            program = _redirect_program(wire.gen_ifindex, frame)
            try:
                _run_live(program, frame, count)
            finally:
                os.close(program)

        inside(wire.gen_netns, work, core)

    def attach_drop(self, netns: str, ifname: str) -> None:
        """Attach an XDP program that drops everything, as a receiver would."""
        program = _load([_instruction(0xB7, 0, 0, 0, 1), _instruction(0x95)])
        try:
            with NetNS(netns.rpartition("/")[2], flags=0) as links:
                index = links.link_lookup(ifname=ifname)[0]
                links.link("set", index=index, xdp_fd=program)
        finally:
            os.close(program)

    def listen(self, netns: str) -> socket.socket:
        """A packet socket that sees all UDP that arrives in a namespace.

        No more: a kernel that is busy elsewhere sends its multicast listener reports late
        (RFC 3810; they cannot be switched off), and they would be taken for forwarded frames.
        """

        def work() -> socket.socket:
            raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            _only_udp(raw)
            raw.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:  # what came before the filter
                    raw.recv(2048)
            raw.settimeout(LIMIT_S)
            return raw

        return inside(netns, work)

    def statistic(self, netns: str, ifname: str, name: str) -> int:
        """A counter of an interface."""
        return self.attribute(netns, ifname, f"statistics/{name}")

    def attribute(self, netns: str, ifname: str, name: str) -> int:
        """A number that sysfs has of an interface."""

        def work() -> int:
            sysfs = kernel.open_detached()
            fd = os.open(f"class/net/{ifname}/{name}", os.O_RDONLY, dir_fd=sysfs)
            try:
                return int(os.read(fd, 64))
            finally:
                os.close(fd)
                os.close(sysfs)

        return inside(netns, work)

    def moderate(self, wire: Wire, interval_ns: int) -> None:
        """Have the receiver's end of a wire polled at this interval."""

        def work() -> None:
            sysfs = kernel.open_detached()
            path = f"class/net/{wire.rcv_ifname}/gro_flush_timeout"
            fd = os.open(path, os.O_WRONLY, dir_fd=sysfs)
            try:
                os.write(fd, str(interval_ns).encode())
            finally:
                os.close(fd)
                os.close(sysfs)

        inside(wire.rcv_netns, work)

    def received(self, wire: Wire) -> int:
        """Frames that the receiver's end of a wire has taken."""
        return self.statistic(wire.rcv_netns, wire.rcv_ifname, "rx_packets")

    def account(self, bed: Testbed, wire: Wire) -> Accounting:
        """Begin to account for what is sent on a wire from now on."""
        return Accounting(self, bed, wire, self.received(wire), bed.counters())


@dataclass(frozen=True)
class Accounting:
    """How many frames had arrived and been lost when it began."""

    traffic: Traffic
    bed: Testbed
    wire: Wire
    had: int
    before: Counters

    def balance(self, sent: int) -> tuple[int, Counters]:
        """Wait until each frame that was sent has arrived or is lost; return how many, and where.

        On a busy machine that may take a while, even where a frame is on its way for microseconds.
        """
        deadline = time.monotonic() + LIMIT_S
        while True:
            got = self.traffic.received(self.wire) - self.had
            lost = self.bed.counters() - self.before
            if got + lost.total == sent:
                return got, lost
            assert time.monotonic() < deadline, f"sent {sent}, received {got}, lost {lost}"
            time.sleep(0.01)


@pytest.fixture
def traffic() -> Traffic:
    return Traffic()


_BPF_PROG_LOAD, _BPF_PROG_TEST_RUN, _XDP, _LIVE_FRAMES = 5, 10, 6, 2
_libc = ctypes.CDLL(None, use_errno=True)


def _bpf(command: int, attributes: bytes) -> int:
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    result = int(_libc.syscall(321, command, buffer, len(attributes)))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _instruction(code: int, dst: int = 0, src: int = 0, off: int = 0, imm: int = 0) -> bytes:
    return struct.pack("<BBhi", code, src << 4 | dst, off, imm)


def _redirect_program(ifindex: int, frame: bytes) -> int:
    """Load an XDP program that writes ``frame`` and redirects it to ``ifindex``.

    It writes each frame afresh: the kernel hands pages back as the last user left them.
    """
    op = _instruction
    words = [struct.unpack_from("<i", frame, at)[0] for at in range(0, len(frame), 4)]
    write = [op(0x62, 2, 0, 4 * number, word) for number, word in enumerate(words)]
    leave = [op(0xB7, 1, 0, 0, ifindex), op(0xB7, 2), op(0x85, 0, 0, 0, 23), op(0x95)]
    code = [
        op(0x61, 2, 1, 0),  # r2 = data
        op(0x61, 3, 1, 4),  # r3 = data_end
        op(0xBF, 4, 2),
        op(0x07, 4, 0, 0, len(frame)),
        op(0x2D, 4, 3, len(write) + len(leave)),  # too short: XDP_DROP
        *write,
        *leave,
        op(0xB7, 0, 0, 0, 1),
        op(0x95),
    ]
    return _load(code)


def _load(code: list[bytes]) -> int:
    text = ctypes.create_string_buffer(b"".join(code))
    licence = ctypes.create_string_buffer(b"GPL")
    pointers = ctypes.addressof(text), ctypes.addressof(licence)
    return _bpf(_BPF_PROG_LOAD, struct.pack("<IIQQ32x", _XDP, len(code), *pointers))


def _run_live(program: int, frame: bytes, count: int) -> None:
    data = ctypes.create_string_buffer(frame, len(frame))
    context = ctypes.create_string_buffer(struct.pack("<6I", 0, len(frame), 0, 1, 0, 0), 24)
    head = struct.pack("<IIIIQQ", program, 0, len(frame), 0, ctypes.addressof(data), 0)
    tail = struct.pack(
        "<IIIIQQIII", count, 0, 24, 0, ctypes.addressof(context), 0, _LIVE_FRAMES, 0, 64
    )
    _bpf(_BPF_PROG_TEST_RUN, head + tail)


def _only_udp(raw: socket.socket) -> None:
    """Attach a classic BPF filter: UDP in IPv4 without options, or in IPv6 without extensions."""
    code = [
        (0x28, 0, 0, 12),  # EtherType
        (0x15, 0, 2, 0x0800),
        (0x30, 0, 0, 23),  # protocol
        (0x05, 0, 0, 2),
        (0x15, 0, 3, 0x86DD),
        (0x30, 0, 0, 20),  # next header
        (0x15, 0, 1, socket.IPPROTO_UDP),
        (0x06, 0, 0, 0xFFFF),
        (0x06, 0, 0, 0),
    ]
    text = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *one) for one in code))
    program = struct.pack("<HxxxxxxQ", len(code), ctypes.addressof(text))
    raw.setsockopt(socket.SOL_SOCKET, 26, program)  # SO_ATTACH_FILTER

"""A network back-end with real guests behind it, in namespaces of the test's own."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from isolane.errors import MeasurementError
from isolane.guests import QemuGuest, QemuPlan, UmlGuest, UmlPlan, VhostUserNic
from isolane.guests.router_script import RouterSide, router_script
from isolane.netback import Status, socket_of, status_of
from isolane.procfs import threads_of
from isolane.testbed.host_links import in_netns

from tests.commands import Begun
from tests.live import LIMIT_S, begin
from tests.wires import bring_up, ip, pair

NAME = "under-test"
DUT, FAR = "e2e-netback", "e2e-netback-far"
SIDES = (("n0", "g0"), ("n1", "r0"))
"""Wires: the back-end's interface, and the other end, where frames come from or arrive."""
ADDRESSES = {4: ("10.9.{}.{}/24", "10.9.{}.{}"), 6: ("2001:db8:{}::{}/64", "2001:db8:{}::{}")}


def mac(side: int, number: int) -> str:
    return f"02:15:aa:00:{side:02x}:{number:02x}"


def outer(side: int, number: int) -> str:
    """The host's end of a container's pair of interfaces."""
    return f"c{number}-{side}"


def far_mac(side: int) -> str:
    return f"02:15:aa:00:{side:02x}:ff"


@dataclass
class BackEnd:
    """A running back-end of routers, each with a port on either wire."""

    file: Path
    process: Begun

    def port(self, side: int, number: int) -> str:
        return f"vm{number}-{side}"

    def script(self, number: int, ip_version: int = 4) -> str:
        """What makes a guest forward from the first wire to the second."""
        own, other = ADDRESSES[ip_version]
        sides = [
            RouterSide(own.format(2 * number + side, 1), other.format(2 * number + side, 2),
                       far_mac(side))
            for side in (0, 1)
        ]  # fmt: skip
        return router_script(4 if ip_version == 4 else 6, ("eth0", "eth1"), (sides[0], sides[1]))

    def nics(self, number: int) -> tuple[VhostUserNic, ...]:
        sockets = [socket_of(NAME, self.port(side, number)) for side in (0, 1)]
        return tuple(VhostUserNic(path, mac(side, number)) for side, path in enumerate(sockets))

    def plan(self, number: int, ip_version: int = 4) -> UmlPlan:
        script = self.script(number, ip_version)
        return UmlPlan(f"netback-{number}", script, nics=self.nics(number))

    @contextlib.contextmanager
    def guest(self, number: int, ip_version: int = 4) -> Iterator[UmlGuest]:
        with UmlGuest(self.plan(number, ip_version), LIMIT_S) as guest:
            yield guest

    @contextlib.contextmanager
    def qemu_guest(self, number: int) -> Iterator[QemuGuest]:
        plan = QemuPlan(f"netback-{number}", self.script(number), nics=self.nics(number))
        with QemuGuest(plan, LIMIT_S) as guest:
            yield guest

    def frame(self, number: int, ip_version: int = 4, size: int = 60, **other: object) -> bytes:
        """A UDP datagram for the second wire, through a guest; without the frame check sequence."""
        to, ttl = str(other.get("to", mac(0, number))), int(str(other.get("ttl", 64)))
        header = bytes.fromhex((to + far_mac(0)).replace(":", ""))
        payload = size - 14
        if ip_version == 6:
            fields = b"\x60\0\0\0" + (payload - 40).to_bytes(2, "big") + bytes((59, ttl))
            addresses = [f"20010db8000{2 * number + s:x}" + "0" * 19 + "2" for s in (0, 1)]
            packet = fields + bytes.fromhex("".join(addresses))
            return header + b"\x86\xdd" + packet.ljust(payload, b"\0")
        body = bytearray(b"\x45\0" + payload.to_bytes(2, "big") + b"\0\0\0\0" + bytes((ttl, 17)))
        body += b"\0\0" + b"".join(bytes((10, 9, 2 * number + s, 2)) for s in (0, 1))
        total = sum(int.from_bytes(body[i : i + 2], "big") for i in range(0, 20, 2))
        total = (total & 0xFFFF) + (total >> 16)
        body[10:12] = (0xFFFF - total - (total >> 16)).to_bytes(2, "big")
        return header + b"\x08\0" + bytes(body).ljust(payload, b"\0")

    def status(self) -> Status:
        """What it says; asked again where this machine took longer than either waits."""
        deadline = _deadline()
        while True:
            try:
                return status_of(NAME)
            except MeasurementError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def until(self, what: str, reached: Callable[[Status], bool]) -> Status:
        """Wait until the counters say something."""
        deadline = _deadline()
        while not reached(status := self.status()):
            assert self.process.poll() is None, "the back-end has ended"
            assert time.monotonic() < deadline, f"{what}: {status}"
            time.sleep(0.01)
        return status

    def threads(self) -> list[int]:
        return threads_of(self.process.pid)

    def cpu_s(self) -> float:
        """CPU time that it has used, s."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def start_again(self) -> None:
        """End it and start another one, with the same sockets."""
        self.end()
        self.process = start(self.file)

    def end(self, number: int = signal.SIGTERM) -> int:
        os.kill(self.process.pid, number)
        return self.process.wait(LIMIT_S)


def dropped(ifname: str) -> int:
    """Frames that an interface of the back-end's has not sent, as the kernel counts."""

    def read() -> int:
        table = Path("/proc/thread-self/net/dev").read_text()
        return int(table.split(f"{ifname}:")[1].split()[11])

    return int(in_netns(f"/run/netns/{DUT}", read))


FILE = """\
isolane: 1
name: {name}
uplinks:
  n0: {{scheduler: fifo{uplink}}}
  n1: {{scheduler: {scheduler}}}
ports:
"""
PORT = '  {name}: {{mac: "{mac}", uplink: n{side}{more}}}\n'


@contextlib.contextmanager
def wires() -> Iterator[None]:
    """Two wires between two namespaces, whose far ends talk to nobody by themselves."""
    try:
        for name in (DUT, FAR):
            ip("netns", "add", name)
            ip("netns", "exec", name, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        for side, (near, far) in enumerate(SIDES):
            pair((DUT, near), (FAR, far), 10 + 2 * side)
            ip("-n", FAR, "link", "set", far, "address", far_mac(side))
            bring_up((DUT, near), (FAR, far), arp=False)
        yield
    finally:
        for name in (DUT, FAR):
            with contextlib.suppress(AssertionError):
                ip("netns", "del", name)


def start(file: Path) -> Begun:
    """Start one between the wires, and wait until it is ready."""
    process, deadline = begin(file.parent, "netback", "start", file, netns=DUT), _deadline()
    while "ready\n" not in (file.parent / "stdout").read_text():
        told = (file.parent / "stderr").read_text()
        assert process.poll() is None, f"it ended before it was ready: {told}"
        assert time.monotonic() < deadline, f"it is never ready: {told}"
        time.sleep(0.005)
    return process


def _deadline() -> float:
    return time.monotonic() + LIMIT_S


@contextlib.contextmanager
def back_end(
    folder: Path,
    guests: int = 1,
    scheduler: str = "drr",
    more: str = "",
    containers: Sequence[int] = (),
    uplink: str = "",
) -> Iterator[BackEnd]:
    """Have one between the wires; it is ended again, whatever happens.

    Its routers are guests, but for those with these numbers (see :mod:`tests.netback.container`).
    Ports have some more keys, and so has the uplink that frames come by.
    """
    file = folder / "netback.yaml"
    text = FILE.format(name=NAME, scheduler=scheduler, uplink=uplink)
    for number in range(guests):
        for side in (0, 1):
            name = f"vm{number}-{side}"
            own = f", interface: {outer(side, number)}" if number in containers else ""
            text += PORT.format(name=name, mac=mac(side, number), side=side, more=more + own)
    file.write_text(text)
    with wires():
        one = BackEnd(file, start(file))
        try:
            yield one
        finally:
            one.process.send_signal(signal.SIGTERM)
            one.process.wait(LIMIT_S)

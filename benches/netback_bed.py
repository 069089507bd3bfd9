"""A network back-end between synthetic guests and a wire that swallows everything; and testpmd."""

from __future__ import annotations

import contextlib
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from isolane.errors import MeasurementError, NotSupported
from isolane.netback import Status, remove_left, socket_of, status_of
from isolane.procfs import cpu_ns, threads_of

from benches import programs
from benches.common import GENERATOR_CORE, RECEIVER_CORE
from benches.process import terminate

NAME = "bench"
HERE, FAR = "isolane-bench-netback", "isolane-bench-netback-far"
"""Namespaces: of the back-end, and of the wire's other end."""
UPLINK, FAR_END = "n1", "r1"
LIMIT_S = 20.0
"""How long anything may take that is waited for."""
WITH_US = ("setpriv", "--pdeathsig", "KILL")
"""Before a command: it does not outlive the bench."""
TESTPMD = "dpdk-testpmd"
TESTPMD_MB = 512


def allow_many_files() -> None:
    """Let this process and its children have as many open files as may be: NICs have a dozen."""
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


def ip(*words: str) -> None:
    """Run `ip`.

    Raises
    ------
    MeasurementError
        If it fails; with its words.
    """
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise MeasurementError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def remove_wire() -> None:
    """Remove the namespaces of this bench that are there."""
    for name in (HERE, FAR):
        with contextlib.suppress(MeasurementError):
            ip("netns", "del", name)


@contextlib.contextmanager
def wire() -> Iterator[None]:
    """Have a wire where nobody else talks, and whose far end the kernel drops all frames at.

    The guests' frames are of a type that no protocol there takes.
    """
    remove_wire()
    try:
        for name in (HERE, FAR):
            ip("netns", "add", name)
            no_ipv6 = "net.ipv6.conf.default.disable_ipv6=1"
            ip("netns", "exec", name, "sysctl", "-qw", no_ipv6)
        ip("-n", HERE, "link", "add", UPLINK, "type", "veth", "peer", "name", FAR_END, "netns", FAR)
        ip("-n", FAR, "link", "set", FAR_END, "arp", "off", "up")
        ip("-n", HERE, "link", "set", UPLINK, "arp", "off", "up")
        yield
    finally:
        remove_wire()


def mac(number: int) -> str:
    """Return the address of a port's NIC."""
    return f"02:00:00:00:{number >> 8:02x}:{number & 255:02x}"


@dataclass(frozen=True)
class BackEnd:
    """A running back-end."""

    pid: int
    sockets: tuple[Path, ...]
    """Of its ports, in order."""

    def set(self, **keys: str) -> None:
        """Change keys of the uplink.

        Raises
        ------
        MeasurementError
            If that is refused; with the command's words.
        """
        changes = [f"{key}={value}" for key, value in keys.items()]
        argv = [sys.executable, "-m", "isolane", "set", f"{NAME}/{UPLINK}", *changes]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            raise MeasurementError(done.stderr.strip())

    def status(self) -> Status:
        """Return its counters."""
        return status_of(NAME)

    def cpu_s(self) -> float:
        """Return the CPU time that it has used, s."""
        return sum(cpu_ns(thread) for thread in threads_of(self.pid)) / 1e9


@contextlib.contextmanager
def back_end(
    ports: Sequence[Mapping[str, object]], uplink: Mapping[str, object]
) -> Iterator[BackEnd]:
    """Run one on the receivers' core.

    Parameters
    ----------
    ports
        Keys of each, besides its address.
    uplink
        Keys of the only one.
    """
    named = {f"p{number}": {"mac": mac(number), **keys} for number, keys in enumerate(ports)}
    file = {
        "isolane": 1, "name": NAME, "core": RECEIVER_CORE, "uplinks": {UPLINK: uplink},
        "ports": named,
    }  # fmt: skip
    remove_left(NAME)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as written:
        json.dump(file, written)
        written.flush()
        start = (sys.executable, "-m", "isolane", "netback", "start", written.name)
        command = [*WITH_US, "ip", "netns", "exec", HERE, *start]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            _await_ready(process)
            yield BackEnd(process.pid, tuple(socket_of(NAME, port) for port in named))
            if process.poll() is not None:
                raise MeasurementError("the back-end has ended by itself")
        finally:
            terminate(process)


def _await_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stderr is not None
    for line in process.stdout:
        if line == "ready\n":
            return
    words = process.stderr.read().strip()
    raise MeasurementError(f"the back-end ended before it was ready: {words}")


@cache
def guests_program() -> Path:
    """Build the synthetic guests; return their program."""
    return programs.cargo_example("isolane-netback", "guests")


def guests(*words: object) -> dict[str, Any]:
    """Run the synthetic guests on the generators' core; return what they found.

    Raises
    ------
    MeasurementError
        If they fail; with their words.
    """
    argv = [str(guests_program()), "--core", str(GENERATOR_CORE), *map(str, words)]
    found: dict[str, Any] = json.loads(programs.output(argv, GENERATOR_CORE))
    return found


@contextlib.contextmanager
def idle_guests(one: BackEnd, seconds: float) -> Iterator[None]:
    """Have a guest at each port that does nothing, for so many seconds at most."""
    argv = [*WITH_US, str(guests_program()), "--core", str(GENERATOR_CORE), "idle", str(seconds)]
    process = subprocess.Popen([*argv, *map(str, one.sockets)], stdout=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + LIMIT_S
        while not all(port.attached for port in one.status().ports):
            if time.monotonic() > deadline or process.poll() is not None:
                raise MeasurementError("not all guests could be attached")
            time.sleep(0.1)
        yield
    finally:
        terminate(process)


@contextlib.contextmanager
def testpmd() -> Iterator[tuple[Path, Path]]:
    """Run DPDK's testpmd between two vhost ports, on the receivers' core; yields their sockets.

    Raises
    ------
    NotSupported
        If it is not installed or does not start; with its last words.
    """
    if shutil.which(TESTPMD) is None:
        raise NotSupported(f"{TESTPMD} is not installed: make bench-setup")
    with tempfile.TemporaryDirectory(prefix="isolane-bench-") as folder:
        sockets = (Path(folder) / "a.sock", Path(folder) / "b.sock")
        devices = [f"--vdev=net_vhost{i},iface={path}" for i, path in enumerate(sockets)]
        argv = [
            *(*WITH_US, "stdbuf", "-oL", TESTPMD, "-l", f"{GENERATOR_CORE},{RECEIVER_CORE}"),
            *("--main-lcore", str(GENERATOR_CORE), "--no-pci", "--no-huge", "--no-shconf"),
            *("-m", str(TESTPMD_MB), "--no-telemetry", *devices, "--"),
            *("--forward-mode=io", "--nb-cores=1", "--disable-link-check"),
            "--total-num-mbufs=16384",
        ]
        with (Path(folder) / "log").open("w+") as log:
            process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=log, stderr=log, text=True
            )
            try:
                _await_forwarding(process, Path(log.name))
                yield sockets
            finally:
                terminate(process)


def _await_forwarding(process: subprocess.Popen[str], log: Path) -> None:
    """Wait until testpmd says which key would end it."""
    deadline = time.monotonic() + LIMIT_S
    while "Press enter to exit" not in (told := log.read_text(errors="replace")):
        if process.poll() is not None or time.monotonic() > deadline:
            lines = [line for line in told.splitlines() if line.strip()]
            raise NotSupported(f"{TESTPMD} did not start: {' / '.join(lines[-3:])}")
        time.sleep(0.05)

"""A host with routers to put policies on: a test bed, in whose device under test the test lives.

The main thread, and with it the command line, called in this process or in one of its own, is in
the network namespace of the device under test: to it, that is the host. State and cgroups
are the test's own (``ISOLANE_POLICY``).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from isolane import _native, scheduling
from isolane.enforce import Enforcer
from isolane.enforce.cpu_cgroups import Groups
from isolane.errors import TestbedError
from isolane.netdev import napi_threads
from isolane.spec.policy import Policy, parse_policy
from isolane.testbed import (
    NETNS_DIR,
    BedPlan,
    RouterPlan,
    Testbed,
    Wire,
    clean,
    exclusive,
    kernel,
    layout,
)
from isolane.testbed.namespace_thread import run_in_thread
from isolane.trials.live.cores import awake, staying_on

from tests.live import FREE_S, LIMIT_S, SETTLE_S, in_process

T = TypeVar("T")
DUT = "isolane-dut"
POLICY_DROPS = ("queue", "share", "rate_in", "cpu", "rate_out", "size")
"""Points at which a policy's programs drop; the others are counters of the kernel's."""
_LEAD_NS = 15_000_000
_SETTINGS = ("threaded", "gro_flush_timeout", "napi_defer_hard_irqs")
_LETTER = {"isolane": "i", "bridge": "b", "macvlan": "m"}


def inside(netns: str, work: Callable[[], T]) -> T:
    """Run ``work`` in a named namespace, in a thread of its own; commands it starts are there."""

    def entered() -> T:
        fd = os.open(NETNS_DIR / netns, os.O_RDONLY | os.O_CLOEXEC)
        try:
            kernel.setns_net(fd)
        finally:
            os.close(fd)
        return work()

    return run_in_thread(entered)


def shown(*command: str) -> str:
    """Run a command to its end; returns what it printed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Trial:
    """What came of offering load; frames by router."""

    sent: dict[str, int]
    received: dict[str, int]
    dropped: dict[str, int]
    """Point -> frames, of all routers: those of the policy, and ``wire`` for all that the kernel
    counts (rings, backlogs, qdiscs). No frame is neither received nor counted as dropped."""
    seconds: float

    def rate(self, router: str) -> float:
        """Frames per second that arrived."""
        return self.received[router] / self.seconds

    def lost(self, router: str) -> int:
        return self.sent[router] - self.received[router]


@dataclass
class Rig:
    """The host and its routers, named vr1, vr2 and so on."""

    bed: Testbed
    plan: BedPlan
    folder: Path
    nics: tuple[str, ...]
    """Those that the routers share; none on path ``direct``."""
    steer: str = ""
    """What the policy says of its NICs' receive queues."""
    tag: str = field(default_factory=lambda: f"e2e-{os.getpid()}")

    @property
    def enforcer(self) -> Enforcer:
        return Enforcer(directory=self.directory, group=self.group)

    @property
    def directory(self) -> Path:
        """Where the state is."""
        return Path(f"/run/isolane/policy-{self.tag}")

    @property
    def group(self) -> str:
        return f"isolane-{self.tag}"

    @property
    def core(self) -> int:
        """The one that routers and NICs are bound to."""
        return self.plan.dut_cores[0]

    @property
    def routers(self) -> list[str]:
        return [router.name for router in self.plan.routers]

    def wire(self, router: str) -> Wire:
        return next(wire for wire in self.bed.wires if wire.router == router)

    def text(self, rate: str = "10Gbps", *, more: str = "", **keys: str) -> str:
        """A policy file of all routers, with further keys of some (``vr1="cpu_weight: 200"``).

        Parameters
        ----------
        more
            Further lines of ``routers``.
        """
        lines = ["isolane: 1", "name: test", f"nics:{'' if self.nics else ' {}'}"]
        steer = f", steer: {self.steer}" if self.steer else ""
        lines += [f"  {nic}: {{rate: {rate}, cores: [{self.core}]{steer}}}" for nic in self.nics]
        lines += [f"defaults: {{cores: [{self.core}]}}", "routers:"]
        for name in self.routers:
            first, second = self.bed.inner_interfaces[name]
            leave_by = (self.nics[0], self.nics[1]) if self.nics else ("own", None)
            pairs = [f"{a}: {b}" for a, b in zip((first, second), leave_by, strict=True) if b]
            uplinks = f"{{{', '.join(pairs)}}}"
            given = f", {keys[name]}" if keys.get(name) else ""
            lines.append(f"  {name}: {{netns: isolane-{name}, interfaces: {uplinks}{given}}}")
        return "\n".join(lines) + f"\n{more}"

    def policy(self, rate: str = "10Gbps", **keys: str) -> Policy:
        return parse_policy(self.text(rate, **keys))

    def file(self, rate: str = "10Gbps", *, more: str = "", **keys: str) -> Path:
        path = self.folder / "policy.yaml"
        path.write_text(self.text(rate, more=more, **keys))
        return path

    def cli(self, *arguments: object, status: int = 0) -> str:
        """Call the command line; returns what it printed on both streams."""
        done = in_process(*arguments)
        assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    def data(self, *arguments: object, status: int = 0) -> Any:
        """Call the command line with ``--json``; returns what it printed."""
        done = in_process(*arguments, "--json")
        assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
        return json.loads(done.stdout)

    def apply(self, rate: str = "10Gbps", **keys: str) -> None:
        """Put a policy in force for measuring: the NICs are polled by timer, as by interrupts."""
        self.bed.stop_polling()
        self.enforcer.apply(self.policy(rate, **keys))
        self.bed.start_polling()

    def offer(
        self,
        pps: dict[str, float],
        seconds: float = 0.3,
        *,
        size: int = 64,
        meanwhile: Callable[[], object] | None = None,
    ) -> Trial:
        """Send frames to routers and count what comes out of them, to the last one."""
        wires = [self.wire(router) for router in pps]
        ends = dict.fromkeys((w.rcv_netns, w.rcv_ifindex) for w in wires)
        interfaces = [_native.Interface(netns=netns, ifindex=index) for netns, index in ends]
        receiver = _native.Receiver(interfaces=interfaces, cookie=7, flows=[8] * len(wires))
        # Beside the generator, which never sleeps, nothing else gets done.
        cores = self.plan.dut_cores if meanwhile else self.plan.measure_cores
        before = self._dropped()
        with awake(), staying_on(cores), contextlib.closing(receiver):
            end_ns = round(seconds * 1e9)
            source = self._source(wires, list(pps.values()), size, end_ns)
            self.bed.receive_often()
            try:
                source.start(_native.monotonic_ns() + _LEAD_NS)
                if meanwhile is not None:
                    meanwhile()
                assert source.wait(seconds + LIMIT_S)
            finally:
                source.stop()
            sent = [stream.sent for stream in source.report().streams]
            counts, dropped = self._accounted(receiver, sum(sent), before)
            self.bed.receive_rarely()
        names = list(pps)
        return Trial(
            dict(zip(names, sent, strict=True)), dict(zip(names, counts, strict=True)),
            dropped, seconds,
        )  # fmt: skip

    def _accounted(
        self, receiver: _native.Receiver, sent: int, before: dict[str, int]
    ) -> tuple[list[int], dict[str, int]]:
        """Wait until each frame has arrived or been dropped; a busy machine is late with some."""
        deadline = time.monotonic() + LIMIT_S
        while True:
            counts = [count.received for count in receiver.counts()]
            dropped = {point: n - before.get(point, 0) for point, n in self._dropped().items()}
            if sum(counts) + sum(dropped.values()) == sent:
                return counts, dropped
            assert time.monotonic() < deadline, f"sent {sent}, received {counts}, lost {dropped}"
            time.sleep(0.01)

    def _dropped(self) -> dict[str, int]:
        """Frames dropped so far; what HTB drops is among those that the kernel counts."""
        sample = self.enforcer.sample()
        routers = sample.routers if sample else ()
        found = {point: sum(r.dropped[point] for r in routers) for point in POLICY_DROPS}
        return {**found, "wire": self.bed.counters().total}

    def _source(
        self, wires: list[Wire], pps: list[float], size: int, end_ns: int
    ) -> _native.Generator:
        streams = [
            _native.Stream(
                ifindex=wire.gen_ifindex, src_mac=wire.src_mac, dst_mac=wire.dst_mac,
                src_ip=wire.src_ip, src_count=1, dst_ip=wire.dst_ip, first_sport=1024,
                first_dport=9, flows=8, sizes=[size],
                segments=[_native.Segment(
                    duration_ns=end_ns, start_rate_millipps=round(rate * 1000),
                    end_rate_millipps=round(rate * 1000),
                )],
            )
            for wire, rate in zip(wires, pps, strict=True)
        ]  # fmt: skip
        return _native.Generator(
            netns=wires[0].gen_netns, core=self.plan.measure_cores[0], cookie=7, streams=streams,
            window_start_ns=0, window_end_ns=end_ns, end_ns=end_ns,
        )  # fmt: skip

    def host(self) -> dict[str, Any]:
        """Everything that a policy may change."""
        found: dict[str, Any] = {}
        for netns in (DUT, *(f"isolane-{name}" for name in self.routers)):
            if (NETNS_DIR / netns).exists():
                found |= {f"{netns}: {key}": value for key, value in inside(netns, _links).items()}
                found[f"{netns}: NAPI threads"] = inside(netns, _threads)
        groups = Path("/sys/fs/cgroup").glob(f"*/{self.group}")
        found["cgroups"] = sorted(str(path) for path in groups)
        found["pinned"] = sorted(str(path) for path in Path("/sys/fs/bpf").rglob("*"))
        found["state"] = sorted(path.name for path in self.directory.glob("*"))
        return found

    def assert_host(self, before: dict[str, Any]) -> None:
        """The host is (soon: threads end, programs are freed) as it was."""
        deadline = time.monotonic() + SETTLE_S
        while (after := self.host()) != before and time.monotonic() < deadline:
            time.sleep(0.05)
        keys = {*before, *after}
        changed = {k: (before.get(k), after.get(k)) for k in keys if before.get(k) != after.get(k)}
        assert not changed, f"(before, after): {changed}"


def _links() -> dict[str, Any]:
    """Links, qdiscs and settings in the namespace of this thread."""
    sysfs = kernel.open_detached()
    found: dict[str, Any] = {}
    try:
        for link in json.loads(shown("ip", "-j", "-d", "link")):
            name, xdp = link["ifname"], link.get("xdp", {}).get("prog", {}).get("name")
            settings = {key: _read(sysfs, f"class/net/{name}/{key}") for key in _SETTINGS}
            filters = shown("tc", "filter", "show", "dev", name, "ingress")
            filters = re.sub(r":\[\d+\]|\bid \d+", "", filters)  # another load, the same program
            features = shown("ethtool", "-k", name) if name != "lo" else ""
            kept = ("mtu", "qdisc", "master", "flags", "num_tx_queues", "txqlen")
            found[name] = (xdp, [link.get(key) for key in kept], settings, filters.split())
            for line in features.splitlines()[1:]:
                feature, _, value = line.strip().partition(": ")
                found[f"{name} {feature}"] = value
    finally:
        os.close(sysfs)
    found["qdiscs"] = shown("tc", "qdisc").splitlines()
    return found


def _read(sysfs: int, path: str) -> str:
    fd = os.open(path, os.O_RDONLY, dir_fd=sysfs)
    try:
        return os.read(fd, 64).decode().strip()
    finally:
        os.close(fd)


def _threads() -> list[tuple[str, list[int], list[int], str]]:
    """Name, cores, scheduling, cgroup of the NAPI threads of this thread's namespace."""
    found, groups = [], Groups("")
    for index, ifname in socket.if_nameindex():
        for thread in napi_threads(index):
            with contextlib.suppress(OSError, ProcessLookupError):
                cores, how = os.sched_getaffinity(thread), scheduling.get_scheduling(thread)
                found.append((ifname, sorted(cores), list(how), groups.of_thread(thread) or ""))
    return sorted(found)


@contextlib.contextmanager
def rigged(folder: Path, routers: int, path: str, ip: int) -> Iterator[Rig]:
    """Build a test bed and live in its device under test."""
    measure, dut = sorted(os.sched_getaffinity(0))[:2]
    names = [f"vr{number + 1}" for number in range(routers)]
    plan = BedPlan(
        tuple(RouterPlan(name, "container", path, None) for name in names),  # type: ignore[arg-type]
        receive="threaded", moderation_ns=50_000, dut_cores=(dut,), measure_cores=(measure,),
        ip=ip,  # type: ignore[arg-type]
    )  # fmt: skip
    letter = _LETTER.get(path)
    nics = (f"{layout.PREFIX}n{letter}0", f"{layout.PREFIX}n{letter}1") if letter else ()
    with contextlib.ExitStack() as stack:
        journal = _patiently(lambda: stack.enter_context(exclusive()))
        clean()
        bed = stack.enter_context(Testbed(plan, journal))
        rig = Rig(bed, plan, folder, nics)
        stack.callback(_end, rig)
        stack.enter_context(_living_in(NETNS_DIR / DUT))
        bed.stop_polling()
        yield rig


def _patiently(work: Callable[[], T]) -> T:
    deadline = time.monotonic() + FREE_S
    while True:
        try:
            return work()
        except TestbedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


@contextlib.contextmanager
def _living_in(path: Path) -> Iterator[None]:
    home, there = kernel.open_own_net(), os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    kernel.setns_net(there)
    try:
        yield
    finally:
        kernel.setns_net(home)
        os.close(home)
        os.close(there)


def _end(rig: Rig) -> None:
    """Whatever the test has done, no policy outlives it."""
    if rig.directory.exists():
        Enforcer(NETNS_DIR / DUT, rig.directory, rig.group).clear()

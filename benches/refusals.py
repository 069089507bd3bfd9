"""What it costs to refuse a frame on a shared NIC, beside programs that drop all they are given."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from isolane.errors import MeasurementError, NotSupported
from isolane.netdev import napi_threads
from isolane.procfs import cpu_ns

from benches.common import Check, Options, Outcome, main, median, spread
from benches.steady_load import Load, send
from tests.enforce.rig import Rig, rigged, shown

EMPTY, KNOWN, POLICY = "drops all", "reads whom it is for", "Isolane, above rate_max"
PROGRAMS = {EMPTY: "drop_all", KNOWN: "drop_known"}
"""Name -> program in :data:`SOURCE`."""
LOADS_KPPS = (800, 1500, 3000)
SILENT, FLOODED = "vr1", "vr2"
TIMES = 1.5
FIRST = -20
COOKIE = 0x0F10
DRAIN_S = 0.3
SOURCE = Path(__file__).parent / "peers" / "floors.c"
INCLUDES = (f"-I/usr/include/{os.uname().machine}-linux-gnu",)
"""Where Debian has what the kernel's headers include."""

Costs = dict[tuple[str, int], list[float]]
"""By what refuses and offered load, kpps: ns of the NIC's thread a frame, of each round."""


@dataclass(frozen=True)
class Nic:
    """The NIC that the routers share."""

    ifname: str
    thread: int
    """The kernel's, which polls it."""

    def taken(self) -> int:
        """Return how many frames it has taken from its wire."""
        (link,) = json.loads(shown("ip", "-json", "-stats", "link", "show", "dev", self.ifname))
        return int(link["stats64"]["rx"]["packets"])


def _nic(rig: Rig) -> Nic:
    ifname = rig.nics[0]
    (link,) = json.loads(shown("ip", "-json", "link", "show", "dev", ifname))
    threads = napi_threads(link["ifindex"])
    if len(threads) != 1:
        raise MeasurementError(f"{ifname} is polled by {len(threads)} threads of the kernel's")
    return Nic(ifname, threads[0])


@contextmanager
def dropping(rig: Rig, file: Path, program: str) -> Iterator[Nic]:
    """Have the NIC drop everything, polled as a policy would have it polled."""
    ifname = rig.nics[0]
    where = ("object", str(file), "program", program)
    rig.bed.stop_polling()
    shown("ip", "link", "set", "dev", ifname, "xdpdrv", *where)
    try:
        rig.bed.start_polling()
        nic = _nic(rig)
        os.sched_setaffinity(nic.thread, {rig.core})
        os.setpriority(os.PRIO_PROCESS, nic.thread, FIRST)
        yield nic
    finally:
        rig.bed.stop_polling()
        shown("ip", "link", "set", "dev", ifname, "xdpdrv", "off")


@contextmanager
def under_policy(rig: Rig) -> Iterator[Nic]:
    """Have a policy that lets next to nothing through to one of the routers."""
    keys = {SILENT: "cpu_weight: 100", FLOODED: "cpu_weight: 100, rate_max: {ingress: 1kpps}"}
    rig.apply(**keys)
    try:
        yield _nic(rig)
    finally:
        rig.cli("clear")


def cost_ns(rig: Rig, nic: Nic, kpps: int, seconds: float) -> float:
    """Flood a router; return what a frame took of the NIC's thread, ns."""
    wire = rig.wire(FLOODED)
    flood = Load(kpps * 1e3, wire.src_mac, wire.dst_mac, wire.src_ip, wire.dst_ip)
    taken, ran_ns = nic.taken(), cpu_ns(nic.thread)
    send(Path(wire.gen_netns), wire.gen_ifindex, [flood], COOKIE, seconds)
    time.sleep(DRAIN_S)
    taken = nic.taken() - taken
    if not taken:
        raise MeasurementError(f"no frame reached {nic.ifname}")
    return (cpu_ns(nic.thread) - ran_ns) / taken


def compiled(folder: Path) -> Path:
    """Compile the programs that drop.

    Raises
    ------
    NotSupported
        Without clang.
    """
    if shutil.which("clang") is None:
        raise NotSupported("not supported on this host: clang is not installed (make setup)")
    program = folder / "floors.o"
    subprocess.run(
        ["clang", "-target", "bpf", "-O2", "-g", *INCLUDES, "-c", str(SOURCE), "-o", str(program)],
        check=True,
    )
    return program


def measure(options: Options) -> Costs:
    """Flood the NIC under each, by turns, in one test bed."""
    found: Costs = defaultdict(list)
    with tempfile.TemporaryDirectory() as text, rigged(Path(text), 2, "isolane", 4) as rig:
        os.environ["ISOLANE_POLICY"] = rig.tag
        file = compiled(Path(text))
        opened: Mapping[str, Callable[[], AbstractContextManager[Nic]]] = {
            **{name: partial(dropping, rig, file, each) for name, each in PROGRAMS.items()},
            POLICY: partial(under_policy, rig),
        }
        for number in range(options.rounds):
            # What comes first in one round comes last in the next.
            for name in list(opened)[:: -1 if number % 2 else 1]:
                with opened[name]() as nic:
                    for kpps in LOADS_KPPS:
                        found[name, kpps].append(cost_ns(rig, nic, kpps, options.seconds))
    return found


def bench(options: Options) -> Outcome:
    """Compare what refusing takes with the floor of this machine's wires."""
    found = measure(options)
    rows, checks = [], []
    for kpps in LOADS_KPPS:
        each = [found[name, kpps] for name in (EMPTY, KNOWN, POLICY)]
        ratios = [ours / floor for _, floor, ours in zip(*each, strict=True)]
        cells = [cell for ns in each for cell in (f"{median(ns):.0f}", spread(ns, 1.0, 0))]
        rows.append((f"{kpps}", *cells, f"{median(ratios):.2f}"))
        checks.append(
            Check(
                f"{kpps} kpps: a frame takes at most {TIMES:g} times what reading it does",
                f"{median(ratios):.2f} ({spread(ratios, 1.0, 2)})",
                median(ratios) <= TIMES,
            )
        )
    return Outcome(
        title=(
            f"64-byte frames that a veth's end takes and refuses, ns of the thread that polls it, "
            f"{options.rounds} rounds"
        ),
        columns=("offered, kpps", EMPTY, "range", KNOWN, "range", POLICY, "range", "times"),
        rows=rows,
        checks=checks,
        data={f"{name}, {kpps} kpps": ns for (name, kpps), ns in found.items()},
    )


if __name__ == "__main__":
    main(
        "refusals",
        bench,
        Options(rounds=8, seconds=0.6),
        "What refusing a frame on a shared NIC costs, beside programs that drop all.",
    )

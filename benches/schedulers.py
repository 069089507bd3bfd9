"""Cost of a scheduler's decision, crates/sched beside DPDK's rte_sched."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from isolane.errors import IsolaneError, MeasurementError

from benches import programs
from benches.common import GENERATOR_CORE, Check, Options, Outcome, main, median, spread

SIZES = (2, 64, 1_024, 65_536)
KINDS = ("drr", "wrr", "wfq")
TARGETS_NS = {("drr", size): 40.0 for size in SIZES} | {("wrr", size): 40.0 for size in SIZES}
TARGETS_NS[("wfq", 65_536)] = 200.0
PEER = "rte_sched"
UNITS_NS = {"ps": 1e-3, "ns": 1.0, "µs": 1e3, "us": 1e3, "ms": 1e6}
LIBRARIES = ("-lrte_sched", "-lrte_eal", "-lrte_mbuf", "-lrte_mempool")
EAL = ("--no-pci", "--no-huge", "--no-shconf", "--no-telemetry", "-m", "2048")
"""Nothing of the host is touched; pages of 4 KiB, as crates/sched has."""

Cell = tuple[str, int]


def isolane_ns(executable: Path, kind: str, size: int, seconds: float) -> float:
    """Have criterion measure dequeue + enqueue with ``size`` flows, ns."""
    argv = [str(executable), "--bench", f"^{kind}/steady/{size}$", "--noplot"]
    argv += ["--measurement-time", str(seconds), "--sample-size", "20"]
    found = re.search(r"time:\s+\[\S+ \S+ (\S+) (\S+) ", programs.output(argv, GENERATOR_CORE))
    if not found:
        raise MeasurementError(f"criterion printed no time for {kind} with {size} flows")
    return float(found[1]) * UNITS_NS[found[2]]


def peer_ns(executable: Path, size: int, seconds: float) -> float:
    """Measure rte_sched with ``size`` pipes, ns."""
    argv = [str(executable), str(size), str(seconds), "-l", str(GENERATOR_CORE), *EAL]
    return float(programs.output(argv, GENERATOR_CORE).split()[0])


def build_peer() -> tuple[Path | None, str]:
    """Build the peer, or say why it cannot be."""
    try:
        includes = [flag for flag in programs.flags("libdpdk") if not flag.startswith("-l")]
        arguments = ["-DALLOW_EXPERIMENTAL_API", *includes, *LIBRARIES]
        return programs.compiled("cc", "rte_sched.c", *arguments), ""
    except IsolaneError as error:
        return None, f"not compared with {PEER}: {error}"


def bench(options: Options) -> Outcome:
    """Measure everything in turn, round by round."""
    executable = programs.cargo_bench("isolane-benches", "decision")
    peer, note = build_peer()
    found: dict[Cell, list[float]] = defaultdict(list)
    for _ in range(options.rounds):
        for size in SIZES:
            for kind in KINDS:
                found[kind, size].append(isolane_ns(executable, kind, size, options.seconds))
            if peer:
                found[PEER, size].append(peer_ns(peer, size, options.seconds))
    rows = [
        [
            f"{name}, {size:,} flows",
            f"{min(values):.1f}",
            f"{median(values):.1f}",
            spread(values, digits=1),
        ]
        for (name, size), values in sorted(found.items())
    ]
    return Outcome(
        title=f"Dequeue + enqueue, all flows backlogged, ns ({options.rounds} rounds)",
        columns=("scheduler", "best", "median", "range"),
        rows=rows,
        checks=[check(cell, found[cell], limit) for cell, limit in TARGETS_NS.items()],
        notes=[note] if note else [],
        data={"ns": {f"{name}/{size}": values for (name, size), values in found.items()}},
    )


def check(cell: Cell, values: list[float], limit_ns: float) -> Check:
    """Hold the median against a target."""
    kind, size = cell
    figure = f"{median(values):.1f} ns (best {min(values):.1f})"
    target = f"{kind} with {size:,} flows under {limit_ns:.0f} ns"
    return Check(target, figure, median(values) < limit_ns)


if __name__ == "__main__":
    main("schedulers", bench, Options(rounds=5, seconds=1.0), __doc__, live=False)

"""How long a thread waits for its core beside a program: this kernel's scheduler, and ours."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isolane.errors import MeasurementError, NotSupported
from isolane.scheduling import get_scheduling, set_scheduling
from isolane.trials.sim.engine import simulate_model

from benches.common import GENERATOR_CORE, Check, Options, Outcome, main, median

PERIOD_US = 1000
"""Between two wake-ups on average; each time it is drawn anew (exponentially)."""
WORKS_US = (50, 150, 300)
"""What the thread computes each time. The simulated one works as long as the thread did in all,
with falling asleep and waking up."""
CLOCK_MONOTONIC_COARSE = 6
"""Goes on at ticks."""
FACTOR, WITHIN_US = 1.5, 30.0
"""How much longer one mean may be: so many times, or so much (a wake-up takes half of that)."""
PERCENTILES = (0.5, 0.9, 0.99)


@dataclass(frozen=True)
class Kind:
    """How the thread is scheduled."""

    name: str
    policy: int
    slice_ns: int
    """0: the kernel's own."""


KINDS = (
    Kind("default", os.SCHED_OTHER, 0),
    Kind("slice of 100 us", os.SCHED_OTHER, 100_000),
    Kind("the same, SCHED_BATCH", os.SCHED_BATCH, 100_000),
)


def live_waits_us(kind: Kind, work_us: int, seconds: float, seed: int) -> tuple[list[float], float]:
    """Measure the waits of a thread beside a program at full speed on the same core, us, sorted.

    And the CPU time that it used each time, us.
    """
    program, thread = _fork(_spin), 0
    reader, writer = os.pipe()
    try:
        thread = _fork(lambda: _compute(kind, work_us, seconds, seed, writer))
        os.close(writer)
        with os.fdopen(reader) as told:
            text = told.read()
    finally:
        for process in (program, thread):
            if process:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
    if not text:
        raise MeasurementError("the thread that was to be measured ended early")
    waits, used_ns = json.loads(text)
    return [ns / 1e3 for ns in sorted(waits)], used_ns / 1e3


def _fork(work: Any) -> int:
    process = os.fork()
    if process == 0:
        try:
            os.sched_setaffinity(0, {GENERATOR_CORE})
            work()
        finally:
            os._exit(0)
    return process


def _spin() -> None:
    parent = os.getppid()
    while os.getppid() == parent:
        pass


def _compute(kind: Kind, work_us: int, seconds: float, seed: int, writer: int) -> None:
    set_scheduling(0, kind.policy, 0, kind.slice_ns)
    Path(f"/proc/{os.getpid()}/timerslack_ns").write_text("1")
    time.sleep(0.2)
    loops = _loops(1000 * work_us)
    drawn, waits = random.Random(seed), []  # noqa: S311 - times, not secrets
    due, began = time.monotonic_ns(), time.thread_time_ns()
    for _ in range(int(seconds * 1e6 / PERIOD_US)):
        due += int(drawn.expovariate(1e-3 / PERIOD_US))
        if (left := due - time.monotonic_ns()) > 0:
            time.sleep(left / 1e9)
        waits.append(time.monotonic_ns() - due)
        for _ in range(loops):
            pass
    with os.fdopen(writer, "w") as tell:
        json.dump([waits, (time.thread_time_ns() - began) / len(waits)], tell)


def _loops(ns: int) -> int:
    """Return how many loops take so long.

    To ask for the time that it has used would have the kernel look whether the thread's turn is
    over.
    """
    tried, began = 1_000_000, time.thread_time_ns()
    for _ in range(tried):
        pass
    return round(tried * ns / (time.thread_time_ns() - began))


def simulated(
    kind: Kind, work_us: float, slice_ns: int, tick_ns: int, seed: int
) -> dict[str, float]:
    """Simulate the same for 20 s; mean and percentiles of the waits, us."""
    own = {"slice_ns": kind.slice_ns} if kind.slice_ns else {}
    batch = {"batch": True} if kind.policy == os.SCHED_BATCH else {}
    scheduler = {
        "kind": "eevdf", "slice_ns": slice_ns, "tick_ns": tick_ns, "irq_time_accounting": False
    }  # fmt: skip
    model = {
        "seed": seed, "duration_ns": 20_000_000_000, "warm_up_ns": 200_000_000,
        "cores": [{"name": "cpu0", "scheduler": scheduler}],
        "contexts": [
            {"name": "thread", "kind": "process", "cores": ["cpu0"], **own, **batch},
            {"name": "program", "kind": "process", "cores": ["cpu0"]},
        ],
        "loads": [{"name": "program", "context": "program", "load": {"kind": "cpu"}}],
        "nics": [{"name": "timer", "rate_bps": 10**11, "rings": [
            {"name": "ring", "capacity": 4096, "irq_ns": 0}]}],
        "stages": [{"name": "work", "context": "thread", "ring": "ring",
                    "frame_ns": round(1000 * work_us)}],
        "ports": [{"name": "out", "rate_bps": 10**11, "capacity": 1}],
        "routers": [{"name": "r", "path": ["ring", "work", "out"]}],
        "traffic": [{"name": "r", "router": "r", "frame_bytes": 64,
                     "pattern": {"kind": "poisson", "rate_pps": 1e6 / PERIOD_US}}],
    }  # fmt: skip
    delay = simulate_model(model, "the bench")["flows"][0]["delay"]
    found = {"mean": delay["sum_ns"] / delay["count"]}
    found |= {f"p{100 * p:g}": delay[f"p{100 * p:g}_ns"] for p in PERCENTILES}
    return {name: ns / 1e3 - work_us for name, ns in found.items()}


def measured(kind: Kind, work_us: int, options: Options) -> list[dict[str, float]]:
    """Measure one case, a few times."""
    found = []
    for seed in range(options.rounds):
        waits, used_us = live_waits_us(kind, work_us, options.seconds, seed)
        one = {"mean": sum(waits) / len(waits), "used": used_us}
        one |= {f"p{100 * p:g}": waits[int(p * len(waits))] for p in PERCENTILES}
        found.append(one)
    return found


def _medians(found: list[dict[str, float]]) -> dict[str, float]:
    return {name: median([one[name] for one in found]) for name in found[0]}


def bench(options: Options) -> Outcome:
    """Compare the waits, case by case."""
    slice_ns = get_scheduling(0)[2]
    if not slice_ns:
        raise NotSupported("this kernel does not tell its time slice (Linux 6.12, EEVDF)")
    tick_ns = round(1e9 * time.clock_getres(CLOCK_MONOTONIC_COARSE))
    rows: list[tuple[str, ...]] = []
    ratios: list[float] = []
    distances_us: list[float] = []
    data: list[dict[str, Any]] = []
    for kind in KINDS:
        for work_us in WORKS_US:
            live = measured(kind, work_us, options)
            lived = _medians(live)
            models = [simulated(kind, lived["used"], slice_ns, tick_ns, n) for n in range(5)]
            model = _medians(models)
            ratios.append(model["mean"] / lived["mean"])
            distances_us.append(abs(model["mean"] - lived["mean"]))
            names = ("mean", "p90", "p99")
            shown = [f"{lived[n]:.0f} / {model[n]:.0f}" for n in names]
            rows.append((kind.name, f"{lived['used']:.0f}", *shown, f"{ratios[-1]:.2f}"))
            case = {"kind": kind.name, "work_us": work_us}
            data.append({**case, "live_us": live, "simulated_us": models})
    far = [
        ratio
        for ratio, us in zip(ratios, distances_us, strict=True)
        if us > WITHIN_US and not 1 / FACTOR <= ratio <= FACTOR
    ]
    return Outcome(
        title=f"Waits beside a program, slice {slice_ns / 1e6:g} ms, tick {tick_ns / 1e6:g} ms",
        columns=("scheduled", "work, us", "mean, us", "p90, us", "p99, us", "of the mean"),
        rows=rows,
        checks=[
            Check(
                f"mean within a factor of {FACTOR:g} of this kernel's, or {WITHIN_US:g} us",
                f"{min(ratios):.2f} to {max(ratios):.2f}, {len(far)} of {len(ratios)} outside",
                not far,
            )
        ],
        notes=[
            "each cell: this kernel / simulated; medians of the rounds, and of five seeds",
            "a wake-up takes some 14 us by itself, which the simulated one does not",
        ],
        data={"cases": data},
    )


if __name__ == "__main__":
    main("cpu_scheduler", bench, Options(rounds=3, seconds=4.0), str(__doc__))

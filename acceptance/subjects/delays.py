"""A known delay, and a generator that is held up, are measured as what they are."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from isolane.run.backend import Bench, Demand, Setting
from isolane.run.live import LiveBackEnd
from isolane.run.live.cores import divide
from isolane.run.results import RouterTrial
from isolane.spec import load_experiment
from isolane.spec.arms import Arm
from isolane.spec.load_points import Point
from isolane.stats.promises import Bar
from isolane.testbed import clean, exclusive

from acceptance.subject import Attempt, Figures, Promise, Subject
from tests.conftest import Tiny
from tests.live import await_free
from tests.wires import inside

FRAME_BYTES, FCS_BYTES = 512, 4
RATE_PPS, QUEUE_FRAMES = 20_000, 400
KNOWN_NS = QUEUE_FRAMES / RATE_PPS * 1e9 - 1e9 / (2 * 2 * RATE_PPS)
"""Of a full queue: a frame comes, on average, half an interval after the one that has made way."""
STALL_NS = 5_000_000
HOG = """\
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
end_ns = int(sys.argv[2])
time.sleep(max(0, end_ns - int(sys.argv[3]) - time.monotonic_ns()) / 1e9)
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
while time.monotonic_ns() < end_ns:
    pass
"""
DEPARTURE, DUE = "delay since departure: a queue of 20 ms", "delay since the due time: the same"
MISSED, SEEN, UNSEEN = (
    "a stall of 5 ms: frames too late to be sent",
    "its last ms is in the delay since the due time",
    "it is not in the delay since departure",
)


@contextmanager
def full_queue(folder: Path) -> Iterator[Attempt]:
    """Offer twice the rate of a shaper whose queue has a known depth."""
    load = f"{{one: {2 * RATE_PPS}pps, two: 500pps}}"
    with _back_end(folder, str(FRAME_BYTES), load) as (back_end, arm, point):
        setting = _setting(point, 300_000_000, 500_000_000)
        queued = FRAME_BYTES - FCS_BYTES  # a qdisc does not count the frame check sequence
        with back_end.bench(arm, point.routers) as bench:
            shaper = ("tbf", "rate", f"{8 * queued * RATE_PPS}bit", "burst", "50kb")
            depth = ("limit", str(queued * QUEUE_FRAMES))
            inside("isolane-one", "tc", "qdisc", "add", "dev", "isl-out0", "root", *shaper, *depth)

            def attempt() -> Figures:
                router = bench.trial(setting).routers[0]
                assert router.delay is not None
                assert router.due_delay is not None
                pairs = ((DEPARTURE, router.delay), (DUE, router.due_delay))
                return {
                    name: [abs(delay.median_arrived_ns / KNOWN_NS - 1)] for name, delay in pairs
                }

            yield attempt


@contextmanager
def stall(folder: Path) -> Iterator[Attempt]:
    """Take the generator's core away for 5 ms, at a real-time priority."""
    with _back_end(folder, "imix", "{one: 50kpps, two: 0pps}") as (back_end, arm, point):
        setting = _setting(point, 20_000_000, 450_000_000)
        core = divide(arm.cores).measure[0]
        with back_end.null_dut(arm, point.routers) as bench:

            def attempt() -> Figures:
                found = held_up(bench, setting, core)
                if found.lateness is None or found.delay is None or found.due_delay is None:
                    return {}
                return {
                    # 4 of the 5 ms are too late to be sent, the last one is sent late.
                    MISSED: [found.lateness.missed],
                    SEEN: [found.due_delay.max_ns / 1e3],
                    UNSEEN: [found.delay.p99_ns / 1e3],
                }

            yield attempt


def held_up(bench: Bench, setting: Setting, core: int) -> RouterTrial:
    """Carry out a trial in which somebody else has the generator's core for 5 ms."""
    # The generator starts within 300 ms, so this is in the window.
    end_ns = time.monotonic_ns() + 330_000_000
    words = [sys.executable, "-c", HOG, str(core), str(end_ns), str(STALL_NS)]
    hog = Thread(target=lambda: subprocess.run(words, check=True))
    hog.start()
    try:
        return bench.trial(setting).routers[0]
    finally:
        hog.join()


@contextmanager
def _back_end(folder: Path, size: str, load: str) -> Iterator[tuple[LiveBackEnd, Arm, Point]]:
    experiment = load_experiment(Tiny(folder)(size=size, load=load))
    await_free()
    with exclusive() as journal:
        clean()
        back_end = LiveBackEnd(experiment, journal)
        yield back_end, experiment.resolved_arms()[0], experiment.points()[0]


def _setting(point: Point, warmup_ns: int, window_ns: int) -> Setting:
    demands = tuple(Demand(router, router.load.value, None) for router in point.routers)
    return Setting(demands, warmup_ns=warmup_ns, window_ns=window_ns)


_CLOSE = Bar(0.0, 0.01 + 20_000 / KNOWN_NS, at_most=True)
SUBJECTS = (
    Subject(
        "a queue of known depth",
        (Promise(DEPARTURE, _CLOSE), Promise(DUE, _CLOSE)),
        full_queue,
        1.1,
    ),
    Subject(
        "a stall of the generator",
        (
            Promise(MISSED, Bar(200, 50), "frames"),
            Promise(SEEN, Bar(900.0, 0.0), "us"),
            Promise(UNSEEN, Bar(200.0, 0.0, at_most=True), "us"),
        ),
        stall,
        0.8,
    ),
)

"""A known delay, and a generator that is held up, are measured as what they are."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from isolane.results.results import RouterTrial
from isolane.stats.promises import Bar
from isolane.trials.backend import Bench, Setting
from isolane.trials.live.cores import divide

from acceptance.subject import Attempt, Figures, Promise, Subject
from acceptance.subjects.trials import back_end, setting
from tests.shapers import FCS_BYTES, FRAME_BYTES
from tests.wires import inside

RATE_PPS, QUEUE_FRAMES = 20_000, 400
KNOWN_NS = QUEUE_FRAMES / RATE_PPS * 1e9 - 1e9 / (2 * 2 * RATE_PPS)
"""Of a full queue: a frame comes, on average, half an interval after the one that has made way."""
STALL_NS = 5_000_000
HOG = """\
import os, sys, time
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
os.sched_setaffinity(0, {int(sys.argv[1])})
print("ready", flush=True)
end_ns = int(input())
time.sleep(max(0, end_ns - int(sys.argv[2]) - time.monotonic_ns()) / 1e9)
while time.monotonic_ns() < end_ns:
    pass
os._exit(0)  # an interpreter that ends in peace would take some ms more
"""
LOST = "half of the frames are lost, and their delays are told as such"
INFINITE = "so the 90th percentile is infinite"
WINDOW_NS = 500_000_000
DEPARTURE, DUE = "delay since departure: a queue of 20 ms", "delay since the due time: the same"
MISSED, DUE_LOST, SEEN, SEEN_P99, UNSEEN, KEPT = (
    "a stall of 5 ms: frames too late to be sent",
    "they are lost delays since the due time",
    "its last ms is in the delay since the due time",
    "its last ms is in the p99 of it",
    "it is not in the delay since departure",
    "no delay since departure is lost",
)


@contextmanager
def full_queue(folder: Path) -> Iterator[Attempt]:
    """Offer twice the rate of a shaper whose queue has a known depth."""
    load = f"{{one: {2 * RATE_PPS}pps, two: 500pps}}"
    with back_end(folder, str(FRAME_BYTES), load) as (live, arm, point):
        planned = setting(point, 300_000_000, WINDOW_NS)
        queued = FRAME_BYTES - FCS_BYTES  # a qdisc does not count the frame check sequence
        with live.bench(arm, point.routers) as bench:
            shaper = ("tbf", "rate", f"{8 * queued * RATE_PPS}bit", "burst", "50kb")
            depth = ("limit", str(queued * QUEUE_FRAMES))
            inside("isolane-one", "tc", "qdisc", "add", "dev", "isl-out0", "root", *shaper, *depth)

            def attempt() -> Figures:
                router = bench.trial(planned).routers[0]
                delay, due = router.delay, router.due_delay
                assert delay is not None
                assert due is not None
                return {
                    DEPARTURE: [abs(delay.median_arrived_ns / KNOWN_NS - 1)],
                    DUE: [abs(due.median_arrived_ns / KNOWN_NS - 1)],
                    LOST: [abs((delay.lost or 0) / (RATE_PPS * WINDOW_NS / 1e9) - 1)],
                    INFINITE: [float(math.isinf(delay.p90_ns))],
                }

            yield attempt


@contextmanager
def stall(folder: Path) -> Iterator[Attempt]:
    """Take the generator's core away for 5 ms, at a real-time priority."""
    with back_end(folder, "imix", "{one: 50kpps, two: 0pps}") as (live, arm, point):
        planned = setting(point, 20_000_000, 450_000_000)
        core = divide(arm.cores).measure[0]
        with live.null_dut(arm, point.routers) as bench:

            def attempt() -> Figures:
                found = held_up(bench, planned, core)
                if found.lateness is None or found.delay is None or found.due_delay is None:
                    return {}
                return {
                    # 4 of the 5 ms are too late to be sent, the last one is sent late.
                    MISSED: [found.lateness.missed],
                    DUE_LOST: [found.due_delay.lost or 0],
                    SEEN: [found.due_delay.max_ns / 1e3],
                    SEEN_P99: [found.due_delay.p99_ns / 1e3],
                    UNSEEN: [found.delay.p99_ns / 1e3],
                    KEPT: [found.delay.lost or 0],
                }

            yield attempt


def held_up(bench: Bench, planned: Setting, core: int) -> RouterTrial:
    """Carry out a trial in which somebody else has the generator's core for 5 ms."""
    words = [sys.executable, "-c", HOG, str(core), str(STALL_NS)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as hog:
        assert hog.stdin is not None
        assert hog.stdout is not None
        # A generator in real time keeps a process from starting, on its core and, for long, at all.
        assert hog.stdout.readline() == "ready\n"
        # The generator starts within 300 ms, so this is in the window.
        print(time.monotonic_ns() + 330_000_000, file=hog.stdin, flush=True)
        return bench.trial(planned).routers[0]


_CLOSE = Bar(0.0, 0.01 + 20_000 / KNOWN_NS, at_most=True)
SUBJECTS = (
    Subject(
        "a queue of known depth",
        (
            Promise(DEPARTURE, _CLOSE),
            Promise(DUE, _CLOSE),
            Promise(LOST, Bar(0.0, 0.05, at_most=True)),
            Promise(INFINITE, Bar(1.0, 0.4)),
        ),
        full_queue,
        1.1,
    ),
    Subject(
        "a stall of the generator",
        (
            Promise(MISSED, Bar(200, 50), "frames"),
            Promise(DUE_LOST, Bar(200, 50), "frames"),
            Promise(SEEN, Bar(900.0, 0.0), "us"),
            Promise(SEEN_P99, Bar(300.0, 0.0), "us"),
            Promise(UNSEEN, Bar(200.0, 0.0, at_most=True), "us"),
            Promise(KEPT, Bar(0.0, 10.0, at_most=True), "frames"),
        ),
        stall,
        0.8,
    ),
)

"""Known delays, and a generator that is held up, are measured as what they are."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from threading import Thread

import pytest
from isolane.run.backend import Bench, Demand, Observation, Setting
from isolane.run.live import LiveBackEnd
from isolane.run.live.cores import divide
from isolane.run.results import RouterTrial
from isolane.spec import load_experiment
from isolane.testbed import Journal, clean, exclusive

from tests.conftest import Tiny
from tests.live import await_free
from tests.wires import inside

pytestmark = [
    pytest.mark.root,
    pytest.mark.native,
    pytest.mark.acceptance,
    pytest.mark.usefixtures("needs_root"),
]

FRAME_BYTES, FCS_BYTES = 512, 4
RATE_PPS, QUEUE_FRAMES = 20_000, 400
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


@pytest.fixture
def journal() -> Iterator[Journal]:
    await_free()
    with ExitStack() as stack:
        found = stack.enter_context(exclusive())
        clean()
        yield found


def test_a_full_queue_of_known_depth_and_rate_is_the_delay(journal: Journal, tiny: Tiny) -> None:
    """A frame that finds room at the end of the queue waits until all before it have left."""
    load = f"{{one: {2 * RATE_PPS}pps, two: 500pps}}"
    experiment = load_experiment(tiny(size=str(FRAME_BYTES), load=load))
    arm, point = experiment.resolved_arms()[0], experiment.points()[0]
    demands = tuple(Demand(router, router.load.value, None) for router in point.routers)
    setting = Setting(demands, warmup_ns=300_000_000, window_ns=1_000_000_000)
    queued = FRAME_BYTES - FCS_BYTES  # a qdisc does not count the frame check sequence
    with LiveBackEnd(experiment, journal).bench(arm, point.routers) as bench:
        shaper = ("tbf", "rate", f"{8 * queued * RATE_PPS}bit", "burst", "50kb")
        depth = ("limit", str(queued * QUEUE_FRAMES))
        inside("isolane-one", "tc", "qdisc", "add", "dev", "isl-out0", "root", *shaper, *depth)
        seen: Observation = bench.trial(setting)
    delay, due = seen.routers[0].delay, seen.routers[0].due_delay
    assert delay is not None
    assert due is not None
    # It comes, on average, half an interval after the frame whose place it takes has left.
    known_ns = QUEUE_FRAMES / RATE_PPS * 1e9 - 1e9 / (2 * 2 * RATE_PPS)
    assert delay.median_arrived_ns == pytest.approx(known_ns, abs=20_000 + 0.01 * known_ns)
    assert due.median_arrived_ns == pytest.approx(known_ns, abs=20_000 + 0.01 * known_ns)
    assert math.isinf(delay.p90_ns), "half of the frames are lost, so they are infinitely late"
    assert delay.lost == pytest.approx(RATE_PPS, rel=0.05)


def held_up(bench: Bench, setting: Setting, core: int) -> RouterTrial:
    """Carry out a trial in which somebody else has the generator's core for 5 ms."""
    # The generator starts within 300 ms, so this is in the window.
    end_ns = time.monotonic_ns() + 330_000_000
    words = [sys.executable, "-c", HOG, str(core), str(end_ns), str(STALL_NS)]
    hog = Thread(target=lambda: subprocess.run(words, check=True))
    hog.start()
    router = bench.trial(setting).routers[0]
    hog.join()
    return router


def test_a_stall_of_the_generator_shows_in_the_delay_since_the_due_time_alone(
    journal: Journal, tiny: Tiny
) -> None:
    experiment = load_experiment(tiny(load="{one: 50kpps, two: 0pps}"))
    arm, point = experiment.resolved_arms()[0], experiment.points()[0]
    demands = tuple(Demand(router, router.load.value, None) for router in point.routers)
    setting = Setting(demands, warmup_ns=20_000_000, window_ns=450_000_000)
    core = divide(arm.cores).measure[0]
    with LiveBackEnd(experiment, journal).null_dut(arm, point.routers) as bench:
        usual = bench.trial(setting).routers[0]
        stalled = held_up(bench, setting, core)
        for _ in range(4):  # on a busy machine the stall may miss the window
            if stalled.lateness is None or stalled.lateness.missed < 150:
                stalled = held_up(bench, setting, core)
    assert usual.due_delay is not None
    assert usual.delay is not None
    assert stalled.delay is not None
    assert stalled.due_delay is not None
    assert stalled.lateness is not None
    # 4 of the 5 ms are too late to be sent, the last one is sent late: 200 and 50 of 22,500 frames.
    assert stalled.lateness.missed >= 150
    assert stalled.due_delay.lost is not None
    assert stalled.due_delay.lost >= 150
    assert stalled.due_delay.max_ns >= 900_000
    assert stalled.due_delay.p99_ns >= 300_000
    assert stalled.delay.p99_ns < 200_000
    assert stalled.delay.lost is not None
    assert stalled.delay.lost < 10

"""A rate limit that somebody else has set is measured as what it is."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from isolane.run.backend import Demand, Setting
from isolane.run.live import LiveBackEnd
from isolane.spec import load_experiment
from isolane.stats.promises import Bar
from isolane.testbed import clean, exclusive

from acceptance.subject import Attempt, Figures, Promise, Subject
from tests.conftest import Tiny
from tests.live import await_free
from tests.shapers import EXPECTED_PPS, FRAME_BYTES, limit, sent_and_received
from tests.wires import routed_line

RATE = "the rate that generate and receive find"
IN_A_RUN = "the rate that a run finds"
SHORT_S, LONG_S = 0.2, 0.8
_TOLERANCE = Bar(0.0, 0.01, at_most=True)


def by_commands(kind: str) -> Callable[[Path], AbstractContextManager[Attempt]]:
    """Return what sends through a router with such a qdisc, for a short time and a long one."""

    @contextmanager
    def opened(folder: Path) -> Iterator[Attempt]:
        numbers = itertools.count()
        with routed_line(4) as line:
            assert line.router_netns
            limit(line.router_netns, line.router_out, kind)

            def attempt() -> Figures:
                short, long = (
                    sent_and_received(line, folder / str(next(numbers)), seconds)[1]
                    for seconds in (SHORT_S, LONG_S)
                )
                return {RATE: [abs((long - short) / (LONG_S - SHORT_S) / EXPECTED_PPS - 1)]}

            yield attempt

    return opened


@contextmanager
def in_a_run(folder: Path) -> Iterator[Attempt]:
    """Begin the window when bucket and queue are full already: nothing has to drop out."""
    load = "{one: 8kpps, two: 500pps}"
    experiment = load_experiment(Tiny(folder)(size=str(FRAME_BYTES), load=load))
    arm, point = experiment.resolved_arms()[0], experiment.points()[0]
    demands = tuple(Demand(router, router.load.value, None) for router in point.routers)
    setting = Setting(demands, warmup_ns=400_000_000, window_ns=1_000_000_000)
    await_free()
    with exclusive() as journal:
        clean()
        with LiveBackEnd(experiment, journal).bench(arm, point.routers) as bench:
            limit("isolane-one", "isl-out0", "tbf")

            def attempt() -> Figures:
                limited = bench.trial(setting).routers[0]
                return {IN_A_RUN: [abs(limited.received_pps / EXPECTED_PPS - 1)]}

            yield attempt


SUBJECTS = (
    *(
        Subject(f"{kind} of 20 Mbit/s", (Promise(RATE, _TOLERANCE),), by_commands(kind), 3.3)
        for kind in ("tbf", "htb")
    ),
    Subject("tbf in a run", (Promise(IN_A_RUN, _TOLERANCE),), in_a_run, 1.6),
)

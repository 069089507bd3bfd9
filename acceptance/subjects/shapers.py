"""A rate limit that somebody else has set is measured as what it is."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from isolane.stats.promises import Bar

from acceptance.subject import Attempt, Figures, Promise, Subject
from acceptance.subjects.trials import back_end, setting
from tests.shapers import EXPECTED_PPS, FRAME_BYTES, limit, sent_and_received
from tests.wires import routed_line

RATE = "the rate that generate and receive find"
IN_A_RUN = "the rate that a run finds"
ITS_LOSS = "what does not arrive is told as lost on the way out"
NO_OTHERS = "the other router loses nothing there"
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
    with back_end(folder, str(FRAME_BYTES), load) as (live, arm, point):
        planned = setting(point, 400_000_000, 1_000_000_000)
        with live.bench(arm, point.routers) as bench:
            limit("isolane-one", "isl-out0", "tbf")

            def attempt() -> Figures:
                limited, other = bench.trial(planned).routers
                missing = limited.offered_total - limited.received_total
                return {
                    IN_A_RUN: [abs(limited.received_pps / EXPECTED_PPS - 1)],
                    ITS_LOSS: [abs(limited.lost["egress"] / max(1, missing) - 1)],
                    NO_OTHERS: [other.lost["egress"]],
                }

            yield attempt


SUBJECTS = (
    *(
        Subject(f"{kind} of 20 Mbit/s", (Promise(RATE, _TOLERANCE),), by_commands(kind), 3.3)
        for kind in ("tbf", "htb")
    ),
    Subject(
        "tbf in a run",
        (
            Promise(IN_A_RUN, _TOLERANCE),
            Promise(ITS_LOSS, Bar(0.0, 0.02, at_most=True)),
            Promise(NO_OTHERS, Bar(0.0, 0.4, at_most=True), "frames"),
        ),
        in_a_run,
        1.6,
    ),
)

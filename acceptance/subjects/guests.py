"""Virtual machines under a policy: a victim keeps its frames, shares follow weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from isolane.stats.promises import Bar

from acceptance.subject import Attempt, Promise, Subject
from acceptance.subjects.wires import cpu_share
from tests.live_bench import Offer
from tests.managed_guests import bench

KEPT = "a machine within its share keeps its frames"
SHARE = "a weight of 4:1 gives a machine 80 % of the CPU time"
OVERLOAD_PPS = 300e3
"""More than a core forwards by guests."""
ALONE_PPS = 2e3
"""What a machine forwards on any host."""
WITHIN = 0.5
"""Of what its weight gives a machine when both have too much."""
LONG_NS = 1_000_000_000
"""A window in which a frame is less than what the promise allows."""


def within_its_share(offer: Offer) -> float:
    """Return a load that takes half of what the lighter machine's weight gives it, frames/s.

    A frame that comes alone takes a machine up to four times as long as one of many.
    """
    share = offer(OVERLOAD_PPS, OVERLOAD_PPS).routers[1].cpu_share
    each_ns = offer(1.0, ALONE_PPS).routers[1].cpu_ns_per_frame
    assert share, "its CPU time was not measured"
    assert each_ns, "its CPU time was not measured"
    return WITHIN * share * 1e9 / each_ns


def victim(path: str) -> Callable[[Path], AbstractContextManager[Attempt]]:
    """Return what offers the lighter machine little and the other one too much."""

    @contextmanager
    def opened(_folder: Path) -> Iterator[Attempt]:
        with bench(path) as (_, offer):

            def attempt() -> dict[str, list[float]]:
                load_pps = within_its_share(offer)
                seen = offer(OVERLOAD_PPS, load_pps, window_ns=LONG_NS).routers[1]
                return {KEPT: [seen.received_frames / seen.generated_frames]}

            yield attempt

    return opened


@contextmanager
def weights(_folder: Path) -> Iterator[Attempt]:
    """Overload both."""
    with bench("tap") as (_, offer):
        yield lambda: {SHARE: [cpu_share(offer(OVERLOAD_PPS, OVERLOAD_PPS))]}


SUBJECTS = (
    *(
        Subject(f"machines on {path}, victim", (Promise(KEPT, Bar(1.0, 0.01)),), victim(path), 2.2)
        for path in ("tap", "isolane")
    ),
    Subject("machines on tap, weights", (Promise(SHARE, Bar(0.8, 0.02)),), weights, 0.6),
)

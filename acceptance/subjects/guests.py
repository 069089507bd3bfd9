"""Virtual machines under a policy: a victim keeps its frames, shares follow weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from isolane.stats.promises import Bar

from acceptance.subject import Attempt, Promise, Subject
from acceptance.subjects.wires import cpu_share
from tests.managed_guests import bench

KEPT = "a machine within its share keeps its frames"
SHARE = "a weight of 4:1 gives a machine 80 % of the CPU time"
OVERLOAD_PPS = 300e3
"""More than a core forwards by guests."""
VICTIM_PPS = 10e3
"""Half of its fifth of the core, on path isolane: there the demultiplexer takes a part of the core
that nobody pays for, and shares are of the rest."""


def victim(path: str) -> Callable[[Path], AbstractContextManager[Attempt]]:
    """Return what offers the lighter machine little and the other one too much."""

    @contextmanager
    def opened(_folder: Path) -> Iterator[Attempt]:
        with bench(path) as (_, offer):

            def attempt() -> dict[str, list[float]]:
                seen = offer(OVERLOAD_PPS, VICTIM_PPS).routers[1]
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
        Subject(f"machines on {path}, victim", (Promise(KEPT, Bar(1.0, 0.01)),), victim(path), 0.6)
        for path in ("tap", "isolane")
    ),
    Subject("machines on tap, weights", (Promise(SHARE, Bar(0.8, 0.02)),), weights, 0.6),
)

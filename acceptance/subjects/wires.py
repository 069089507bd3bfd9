"""Wires of their own under a policy: the victim keeps its frames, shares follow weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from isolane.stats.promises import Bar
from isolane.trials.backend import Observation

from acceptance.subject import Attempt, Promise, Subject
from tests.managed_wires import OVERLOAD_PPS, bench, make_dear

KEPT = "a victim within its share keeps its frames"
SHARE = "a weight of 10:1 gives 91 % of the CPU time"


@contextmanager
def victim(_folder: Path) -> Iterator[Attempt]:
    """Offer the victim little and the aggressor more than a core forwards."""
    with bench() as offer:

        def attempt() -> dict[str, list[float]]:
            seen = offer(100e3, OVERLOAD_PPS).routers[0]
            return {KEPT: [seen.received_frames / seen.generated_frames]}

        yield attempt


@contextmanager
def weights(_folder: Path) -> Iterator[Attempt]:
    """Overload both, with frames that are dear."""
    with bench(weight=1000) as offer:
        make_dear("one")
        make_dear("two")
        yield lambda: {SHARE: [cpu_share(offer(OVERLOAD_PPS / 2, OVERLOAD_PPS / 2))]}


def cpu_share(seen: Observation) -> float:
    """Return the first router's part of the CPU time of both."""
    used = [float(router.cpu_ns or 0) for router in seen.routers]
    return used[0] / max(1.0, sum(used))


SUBJECTS = (
    Subject("managed-direct victim", (Promise(KEPT, Bar(1.0, 0.01)),), victim, 0.6),
    Subject("managed-direct weights", (Promise(SHARE, Bar(10 / 11, 0.02)),), weights, 0.6),
)

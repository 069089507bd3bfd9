"""Test beds come and go quickly."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from isolane.stats.promises import Bar
from isolane.testbed import BedPlan, RouterPlan, Testbed, clean, exclusive
from isolane.testbed.bed_plan import Path as BedPath

from acceptance.subject import Attempt, Figures, Promise, Subject
from tests.live import await_free

PATHS: Final[tuple[BedPath, ...]] = ("direct", "bridge", "macvlan")
BUILT, GONE = "built, each path in turn", "gone, each path in turn"
ROUTERS = 8


def plan(path: BedPath) -> BedPlan:
    """Return a test bed of eight routers."""
    measure, dut = sorted(os.sched_getaffinity(0))[:2]
    routers = tuple(RouterPlan(f"r{n}", "container", path, None) for n in range(ROUTERS))
    return BedPlan(routers, "softirq", 50_000, (dut,), (measure,), 4)


@contextmanager
def eight(_folder: Path) -> Iterator[Attempt]:
    """Build a test bed and take it down, the next path each time."""
    paths = itertools.cycle(PATHS)
    await_free()
    with exclusive() as journal:
        clean()

        def attempt() -> Figures:
            began = time.monotonic()
            with Testbed(plan(next(paths)), journal):
                built = time.monotonic()
            return {BUILT: [built - began], GONE: [time.monotonic() - built]}

        yield attempt


SUBJECTS = (
    Subject(
        "eight routers",
        (
            Promise(BUILT, Bar(3.0, 0.0, at_most=True), "s"),
            Promise(GONE, Bar(2.0, 0.0, at_most=True), "s"),
        ),
        eight,
        0.8,
        0.5,
    ),
)

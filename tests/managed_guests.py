"""Two virtual machines on one core, under a policy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from isolane.run.live.bench import LiveBench

from tests.live_bench import Offer, live_bench

EXPERIMENT = """\
isolane: 1
name: managed-guests
traffic: {{ip: {ip}, frame_size: 84}}
routers:
  - {{name: one, kind: vm, path: {path}, policy: {{cpu_weight: 400{cap}}}}}
  - {{name: two, kind: vm, path: {path}, policy: {{cpu_weight: 100}}}}
load: {{one: 1pps, two: 1pps}}
"""
CAP = 0.5
"""Of the first one, where its threads are processes alone."""


@contextmanager
def bench(path: str, ip: int = 4) -> Iterator[tuple[LiveBench, Offer]]:
    """Build a test bed; yields it, and what offers rates and returns what came of it."""
    cap = "" if path in ("tap", "isolane") else f", cpu_max: {100 * CAP:g}%"
    with live_bench(EXPERIMENT.format(path=path, ip=ip, cap=cap)) as found:
        yield found

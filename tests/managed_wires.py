"""Two routers on wires of their own, under a policy, on one core."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.live import LIMIT_S
from tests.live_bench import Offer, live_bench

EXPERIMENT = """\
isolane: 1
name: wires
routers:
  - {{name: one, path: direct, role: victim, policy: {{cpu_weight: {weight}}}}}
  - {{name: two, path: direct, role: aggressor, policy: {{cpu_weight: 100}}}}
load: {{one: 1pps, two: 1pps}}
"""
OVERLOAD_PPS = 1.5e6
"""More than a core forwards, here and in CI."""
RULES = 200
"""Some microseconds a frame."""


@contextmanager
def bench(weight: int = 100) -> Iterator[Offer]:
    """Build a test bed; yields what offers rates and returns what came of it."""
    with live_bench(EXPERIMENT.format(weight=weight)) as (_, offer):
        yield offer


def make_dear(router: str) -> None:
    """Give a router rules that each frame is compared with, so that fewer are an overload."""
    rules = "".join(f"rule add from 203.0.113.{n % 256} lookup main\n" for n in range(RULES))
    words = ["ip", "-netns", f"isolane-{router}", "-batch", "-"]
    subprocess.run(words, input=rules, text=True, check=True, timeout=LIMIT_S)

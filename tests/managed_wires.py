"""Two routers on wires of their own, under a policy, on one core."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from isolane.run.backend import Bench, Demand, Observation, Setting
from isolane.run.live.live_backend import LiveBackEnd
from isolane.spec import parse_experiment
from isolane.testbed import exclusive

from tests.live import LIMIT_S

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
def bench(weight: int = 100) -> Iterator[Callable[..., Observation]]:
    """Build a test bed; yields what offers rates and returns what came of it."""
    experiment = parse_experiment(EXPERIMENT.format(weight=weight))
    (arm,), routers = experiment.resolved_arms(), experiment.points()[0].routers
    with (
        exclusive() as journal,
        closing(LiveBackEnd(experiment, journal)) as back_end,
        back_end.bench(arm, routers) as built,
    ):
        live: Bench = built

        def offer(*rates_pps: float, window_ns: int = 200_000_000) -> Observation:
            demands = (Demand(r, pps, None) for r, pps in zip(routers, rates_pps, strict=True))
            return live.trial(Setting(tuple(demands), 100_000_000, window_ns))

        yield offer


def make_dear(router: str) -> None:
    """Give a router rules that each frame is compared with, so that fewer are an overload."""
    rules = "".join(f"rule add from 203.0.113.{n % 256} lookup main\n" for n in range(RULES))
    words = ["ip", "-netns", f"isolane-{router}", "-batch", "-"]
    subprocess.run(words, input=rules, text=True, check=True, timeout=LIMIT_S)

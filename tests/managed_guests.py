"""Two virtual machines on one core, under a policy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from isolane.run.backend import Demand, Observation, Setting
from isolane.run.live.bench import LiveBench
from isolane.run.live.live_backend import LiveBackEnd
from isolane.spec import Experiment, parse_experiment
from isolane.testbed import exclusive

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


def experiment_of(path: str, ip: int = 4) -> Experiment:
    cap = "" if path in ("tap", "isolane") else f", cpu_max: {100 * CAP:g}%"
    return parse_experiment(EXPERIMENT.format(path=path, ip=ip, cap=cap))


@contextmanager
def bench(path: str, ip: int = 4) -> Iterator[LiveBench]:
    experiment = experiment_of(path, ip)
    (arm,), routers = experiment.resolved_arms(), experiment.points()[0].routers
    with (
        exclusive() as journal,
        closing(LiveBackEnd(experiment, journal)) as back_end,
        back_end.bench(arm, routers) as built,
    ):
        assert isinstance(built, LiveBench)
        yield built


def offer(built: LiveBench, path: str, *rates_pps: float) -> Observation:
    routers = experiment_of(path).points()[0].routers
    demands = (Demand(r, pps, None) for r, pps in zip(routers, rates_pps, strict=True))
    return built.trial(Setting(tuple(demands), 100_000_000, 200_000_000))

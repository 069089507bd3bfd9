"""A live bench of an experiment's first point, as a run builds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from isolane.spec import parse_experiment
from isolane.spec.demands import Demand
from isolane.testbed import exclusive
from isolane.trials.backend import Observation, Setting
from isolane.trials.live.bench import LiveBench
from isolane.trials.live.live_backend import LiveBackEnd

WARMUP_NS = 100_000_000
Offer = Callable[..., Observation]


@contextmanager
def live_bench(text: str) -> Iterator[tuple[LiveBench, Offer]]:
    """Build a test bed; yields it, and what offers rates and returns what came of it."""
    experiment = parse_experiment(text)
    (arm,), routers = experiment.resolved_arms(), experiment.points()[0].routers
    with (
        exclusive() as journal,
        closing(LiveBackEnd(experiment, journal)) as back_end,
        back_end.bench(arm, routers) as built,
    ):
        assert isinstance(built, LiveBench)
        live: LiveBench = built

        def offer(*rates_pps: float, window_ns: int = 200_000_000) -> Observation:
            demands = (Demand(r, pps, None) for r, pps in zip(routers, rates_pps, strict=True))
            return live.trial(Setting(tuple(demands), WARMUP_NS, window_ns))

        yield live, offer

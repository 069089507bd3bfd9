"""Single trials of two routers, on the first test bed of a small experiment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from isolane.spec import load_experiment
from isolane.spec.arms import Arm
from isolane.spec.demands import Demand
from isolane.spec.load_points import Point
from isolane.testbed import clean, exclusive
from isolane.trials.backend import Setting
from isolane.trials.live.live_backend import LiveBackEnd

from tests.conftest import Tiny
from tests.live import await_free


@contextmanager
def back_end(folder: Path, size: str, load: str) -> Iterator[tuple[LiveBackEnd, Arm, Point]]:
    """Take the test bed's lock; yields what builds the bed, its arm and the point of the load."""
    experiment = load_experiment(Tiny(folder)(size=size, load=load))
    await_free()
    with exclusive() as journal:
        clean()
        with closing(LiveBackEnd(experiment, journal)) as found:
            yield found, experiment.resolved_arms()[0], experiment.points()[0]


def setting(point: Point, warmup_ns: int, window_ns: int) -> Setting:
    """Return a trial that offers the point's loads."""
    demands = tuple(Demand(router, router.load.value, None) for router in point.routers)
    return Setting(demands, warmup_ns=warmup_ns, window_ns=window_ns)

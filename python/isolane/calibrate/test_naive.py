from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isolane.calibrate.naive import NaiveModel, max_min
from isolane.calibrate.problem import Target
from isolane.reproduce.trials import Figure
from isolane.spec import parse_experiment
from isolane.spec.demands import Demand

RUN = """\
isolane: 1
name: two
routers: [{name: a, path: direct}, {name: b, path: direct}]
load: {a: [100kpps, 900kpps], b: 300kpps}
"""


@pytest.mark.parametrize(
    ("demands", "capacity", "shares"),
    [
        ([100, 200], 400, [100, 200]),
        ([100, 900], 400, [100, 300]),
        ([900, 900], 400, [200, 200]),
        ([900, 50, 300], 400, [175, 50, 175]),
        ([], 400, []),
        ([5], 0, [0]),
    ],
)
def test_shares(demands: list[float], capacity: float, shares: list[float]) -> None:
    assert max_min(demands, capacity) == pytest.approx(shares)


@given(st.lists(st.floats(0, 1e7), min_size=1, max_size=8), st.floats(0, 1e7))
def test_nobody_can_get_more_without_somebody_poorer_getting_less(
    demands: list[float], capacity: float
) -> None:
    shares = max_min(demands, capacity)
    assert sum(shares) == pytest.approx(min(sum(demands), capacity), abs=1e-3)
    for share, demand in zip(shares, demands, strict=True):
        assert share <= demand
        assert share == pytest.approx(demand) or share >= max(shares) - 1e-3


def demands(point: int) -> list[Demand]:
    found = parse_experiment(RUN).points()[point]
    return [Demand(router, router.load.to_pps(None, 64), None) for router in found.routers]


def target(point: int, router: str, value: float, metric: str = "throughput") -> Target:
    return Target(Figure("two", "direct", point, router, metric, value), value, value)


def test_it_learns_from_other_trials_and_says_nothing_of_what_it_does_not_know() -> None:
    targets = [target(0, "a", 1e5), target(0, "b", 3e5), target(1, "total", 5e5)]
    model = NaiveModel.learned(targets)
    # The trial at the higher load may be as good as the other's total: 400 kpps.
    assert model.capacity(targets[2].figure.key) == 4e5
    a, b = (target(1, router, 2e5) for router in "ab")
    assert model.predict(a.figure, demands(1)) == pytest.approx(2e5)
    assert model.error(b, demands(1)) == pytest.approx(0.0)
    assert model.error(targets[2], demands(1)) == pytest.approx(-0.2)
    busy = target(0, "total", 1.0, "cpu")
    assert model.error(busy, demands(0)) == pytest.approx(4e5 / 5e5 - 1)
    assert model.predict(target(1, "a", 1.0, "delay").figure, demands(1)) is None
    assert NaiveModel.learned(targets[2:]).predict(targets[2].figure, demands(1)) is None

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from isolane.analysis.delay_cells import delay_figures, inflation, maximum, times, without_delay
from isolane.analysis.delivery import ByRound, Runs, delays, runs_of
from isolane.report import test_data as data
from isolane.results.invalid import InvalidKind
from isolane.results.results import Cell, Delay, Interval
from isolane.spec import parse_experiment

TEXT = """\
isolane: 1
name: one
routers: [{name: one, path: direct}]
load: {one: 1kpps}
"""
delays_ns = st.one_of(st.floats(0, 1e12), st.just(math.inf))
rounds = st.lists(delays_ns, min_size=1, max_size=12).map(lambda values: dict(enumerate(values)))


def runs(count: int, p99_ns: float = 5.0) -> Runs:
    """So many rounds of a router."""
    point = parse_experiment(TEXT).points()[0]
    known = dict.fromkeys(("mean_ns", "p50_ns", "p90_ns", "p999_ns", "p9999_ns", "max_ns"), 5.0)
    delay = Delay(count=10, p99_ns=p99_ns, lost=0, arrived_p50_ns=4.0, **known)
    trials = [data.trial("direct", point, repeat, 0) for repeat in range(count)]
    return [
        (trial, router.model_copy(update={"delay": delay}))
        for trial, router in runs_of(trials, trials[0].routers[0].router)
    ]


@settings(max_examples=30)
@given(rounds)
def test_a_median_is_infinite_exactly_when_half_of_the_rounds_are(values: ByRound) -> None:
    found = times(runs(len(values)), values)
    assert found is not None
    assert found.low <= found.median <= found.high
    infinite = sum(map(math.isinf, values.values()))
    # Of an even number the two in the middle are averaged.
    assert math.isinf(found.median) == (2 * infinite >= len(values))
    assert Interval.model_validate_json(found.model_dump_json()) == found


def test_the_maximum_is_the_maximum_and_not_a_median() -> None:
    found = maximum({0: 3.0, 1: 9.0, 2: 4.0})
    assert found == Interval(median=9.0, low=3.0, high=9.0, n=3)
    assert maximum({}) is None


def test_inflation_is_infinite_with_the_delay_and_unknown_with_the_reference() -> None:
    usual, lost = runs(1, 10.0), runs(1, math.inf)
    grown = [inflation(*pair) for pair in ((usual, usual), (lost, usual), (usual, lost))]
    assert [found and found.median for found in grown] == [1.0, math.inf, None]
    assert set(delay_figures(usual)) <= set(Cell.model_fields)


def test_a_late_trial_tells_no_delays_and_counts_for_all_else() -> None:
    usual, late = runs(2)
    late = (late[0].model_copy(update={"invalid": (InvalidKind.LATE,), "reason": "late"}), late[1])
    assert delays([usual, late], lambda delay: delay.p50_ns) == {0: 5.0}
    told = list(without_delay([usual[0], late[0]], ()))
    assert [(gap.what, gap.why) for gap in told] == [
        ("Delays in 1 valid trial on direct", "late; the trials count for all else")
    ]


def test_where_nothing_arrived_in_one_round_its_delay_is_infinite() -> None:
    usual, gone = runs(2)
    gone = (gone[0], gone[1].model_copy(update={"delay": None}))
    assert delays([usual, gone], lambda delay: delay.p50_ns) == {0: 5.0, 1: math.inf}
    assert delays([gone], lambda delay: delay.p50_ns) == {}

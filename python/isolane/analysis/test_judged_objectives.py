"""What becomes of objectives: met, missed, undecided, not measured."""

from __future__ import annotations

import math

import pytest

from isolane.analysis.judged_objectives import judged_objectives
from isolane.analysis.objective_words import told
from isolane.cli.objective_lines import judge_objectives
from isolane.errors import MeasurementError, TargetMissed
from isolane.results.missing import MissingPoint, MissingRouter
from isolane.results.objective_models import ObjectiveFinding
from isolane.results.results import Cell, Interval
from isolane.spec import parse_experiment

TEXT = """\
isolane: 1
name: gate
routers: [{name: victim, role: victim}, {name: noise, role: aggressor, count: 2}]
load: {victim: 0.2x, noise: [0x, 1x]}
arms: [{name: bridge, path: bridge}, {name: wires, path: direct}]
objectives: ["OBJECTIVE"]
"""
NOTHING = Interval(median=0, low=0, high=0, n=3)


def interval(low: float, median: float, high: float) -> Interval:
    return Interval(median=median, low=low, high=high, n=6)


def cell(arm: str, point: int, router: str = "victim", **figures: Interval | int | None) -> Cell:
    fields: dict[str, object] = {
        "arm": arm, "point": point, "point_label": f"noise {point}x", "router": router,
        "group": router.partition("-")[0], "role": "victim", "load_x": 0.2,
        "offered_pps": interval(1e5, 1e5, 1e5), "throughput_pps": NOTHING, "throughput_x": None,
        "loss_ratio": None, "delay_p50_ns": None, "delay_p99_ns": None, "delay_max_ns": None,
        "cpu_share": None, "cpu_ns_per_frame": None, "retained": None, "delay_inflation": None,
        "share_error": None, "lost": {}, **figures,
    }  # fmt: skip
    return Cell.model_validate(fields)


def judged(objective: str, *cells: Cell) -> list[ObjectiveFinding]:
    return list(judged_objectives(parse_experiment(TEXT.replace("OBJECTIVE", objective)), cells))


def test_the_whole_interval_decides_at_the_worst_point() -> None:
    cells = [
        cell("bridge", 0, delivered=interval(0.999, 1, 1)),
        cell("bridge", 1, delivered=interval(0.5, 0.6, 0.7)),
        cell("wires", 0, delivered=interval(0.995, 1, 1)),
        cell("wires", 1, delivered=interval(0.991, 0.995, 1)),
    ]
    bridge, wires = judged("victim delivered >= 99%", *cells)
    assert (bridge.outcome, wires.outcome) == ("missed", "met")
    where = "(60 % [50 %, 70 %] at noise 1x)"
    assert told(bridge) == f"missed: victim delivered >= 99% on bridge {where}"
    (open_,) = judged("victim delivered >= 99.2% on wires", *cells)
    assert open_.outcome == "undecided"
    assert told(open_).startswith("undecided: victim delivered >= 99.2% on wires (99.5 % [")


def test_a_multiple_of_the_delay_alone_is_told_of_points_that_have_one() -> None:
    cells = [
        cell("wires", 0, delay_p99_ns=interval(1e5, 1e5, 1e5)),
        cell("wires", 1, reference=0, delay_inflation=interval(1.5, 1.6, 1.9)),
    ]
    (met,) = judged("victim p99 <= 2x alone on wires", *cells)
    assert told(met) == "met: victim p99 <= 2x alone on wires (1.6x [1.5x, 1.9x] at noise 1x)"
    some = interval(1e5, 1e5, 1e5)
    lost = cell("wires", 1, reference=0, delay_inflation=None, throughput_pps=some)
    (unknown,) = judged("victim p99 <= 2x alone on wires", cells[0], lost)
    assert (unknown.outcome, told(unknown)) == (
        "not measured", "not measured: victim p99 <= 2x alone on wires",
    )  # fmt: skip


def test_what_is_unknown_at_one_point_is_not_met() -> None:
    cells = [cell("wires", 0, loss_ratio=interval(0, 0, 0)), cell("wires", 1)]
    assert judged("victim loss <= 1% on wires", *cells)[0].outcome == "undecided"
    worse = cell("wires", 2, loss_ratio=interval(0.1, 0.2, 0.3))
    assert judged("victim loss <= 1% on wires", *cells, worse)[0].outcome == "missed"


def test_a_point_without_a_valid_trial_keeps_an_objective_open() -> None:
    spec = parse_experiment(TEXT.replace("OBJECTIVE", "victim loss <= 1% on wires"))
    good = [cell("wires", 0, loss_ratio=interval(0, 0, 0))]

    def lacking(arm: str, offered_pps: float) -> MissingPoint:
        router = MissingRouter(
            router="victim", group="victim", role="victim", load_x=None, offered_pps=offered_pps
        )
        return MissingPoint(
            arm=arm, point=1, point_label="noise 1x", routers=(router,), trials=3, invalid=3,
            failed=0, reason="somebody compiled",
        )  # fmt: skip

    def outcome(*missing: MissingPoint) -> str:
        (found,) = judged_objectives(spec, good, missing)
        return found.outcome

    assert outcome() == outcome(lacking("bridge", 1e5)) == outcome(lacking("wires", 0)) == "met"
    assert outcome(lacking("wires", 1e5)) == "undecided"
    (nothing,) = judged_objectives(spec, (), [lacking("wires", 1e5)])
    assert nothing.outcome == "not measured"


def test_a_group_is_each_of_its_members_and_silent_ones_are_left_out() -> None:
    cells = [
        cell("wires", 0, "noise-1", offered_pps=NOTHING, throughput_pps=NOTHING),
        cell("wires", 1, "noise-1", throughput_pps=interval(9e4, 1e5, 1e5)),
        cell("wires", 1, "noise-2", throughput_pps=interval(7e4, 8e4, 8e4)),
    ]
    (group,) = judged("noise throughput >= 85kpps on wires", *cells)
    assert (group.outcome, group.router) == ("missed", "noise-2")
    (one,) = judged("noise-1 throughput >= 85kpps on wires", *cells)
    assert (one.outcome, one.router) == ("met", "noise-1")


def test_a_lost_frame_is_infinitely_late() -> None:
    late = cell("wires", 1, delay_p99_ns=interval(2e5, math.inf, math.inf))
    (found,) = judged("victim p99 <= 1ms on wires", late)
    assert found.outcome == "undecided"
    assert told(found).endswith("(inf [200 µs, inf] at noise 1x)")


def test_a_victim_that_receives_nothing_is_late_without_end() -> None:
    some, none = interval(1e5, 1e5, 1e5), interval(0, 0, 0)
    cells = [
        cell("wires", 0, throughput_pps=some, delay_p99_ns=interval(2e4, 2e4, 2e4)),
        cell("wires", 1, throughput_pps=none, reference=0),
    ]
    for objective in ("victim p99 <= 1ms on wires", "victim p99 <= 2x alone on wires"):
        (found,) = judged(objective, *cells)
        assert found.outcome == "missed"
        assert told(found).endswith("(inf [inf, inf] at noise 1x)")


def test_one_repeat_decides_nothing() -> None:
    once = Interval(median=2e5, low=2e5, high=2e5, n=1)
    late = cell("wires", 1, delay_p99_ns=once, delay_max_ns=once)
    assert judged("victim p99 <= 1ms on wires", late)[0].outcome == "undecided"
    assert judged("victim max <= 1ms on wires", late)[0].outcome == "met", "it is no median"


def test_the_largest_of_all_decides_about_the_maximum() -> None:
    late = cell("wires", 1, delay_max_ns=interval(1e5, 9e5, 9e5))
    (found,) = judged("victim max <= 500us on wires", late)
    assert found.outcome == "missed"
    assert told(found).endswith("(900 µs [100 µs, 900 µs] at noise 1x)")


def test_what_is_told_is_the_figure_that_decided() -> None:
    cells = [
        cell("wires", 1, delay_p99_ns=interval(3e5, 6e5, 9e5)),
        cell("wires", 2, delay_p99_ns=interval(5.05e5, 5.1e5, 5.15e5)),
    ]
    (found,) = judged("victim p99 <= 500us on wires", *cells)
    assert (found.outcome, found.point_label) == ("missed", "noise 2x")


@pytest.mark.parametrize(
    ("outcomes", "raised"),
    [
        ((), None),
        (("met", "met"), None),
        (("met", "undecided"), MeasurementError),
        (("not measured",), MeasurementError),
        (("undecided", "missed", "met"), TargetMissed),
    ],
)
def test_the_exit_status_follows(outcomes: tuple[str, ...], raised: type[Exception] | None) -> None:
    findings = [
        ObjectiveFinding.model_validate({"objective": "o", "arm": "a", "outcome": outcome})
        for outcome in outcomes
    ]
    if raised is None:
        judge_objectives(findings)
        return
    with pytest.raises(raised, match=f"of {len(outcomes)} objectives"):
        judge_objectives(findings)

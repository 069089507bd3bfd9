"""Arms and loads compared, on made-up values and on synthetic trials (isolane.report.test_data)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from isolane.analysis.arm_tests import TESTED, compared_arms, rounds_needed
from isolane.analysis.arm_values import Observed, trend_values
from isolane.analysis.test_cells import summary_of, without
from isolane.report import test_data as data
from isolane.results.arm_test_models import ArmDifference, ArmTests
from isolane.results.results import Trial

P50, P99 = TESTED[0], TESTED[1]
LOADS = (1.0, 30.0, 1000.0)
"""What a delay is multiplied by from load to load: more than arms differ by."""


def values(
    arms: Sequence[str],
    rounds: int,
    draw: np.random.Generator,
    times: Callable[[str], float] = lambda _: 1.0,
) -> dict[str, list[Observed]]:
    """Delays of arms in rounds that have a speed in common, as have the loads of one test bed."""
    found: dict[str, list[Observed]] = {arm: [] for arm in arms}
    for repeat in range(rounds):
        speed = draw.normal(scale=0.3)
        for arm in arms:
            bed = draw.normal(scale=0.1)
            for point, load in enumerate(LOADS):
                noise = math.exp(speed + bed + draw.laplace(scale=0.1))
                found[arm].append(seen(point, repeat, 1e5 * load * times(arm) * noise))
    return found


def seen(point: int, repeat: int, value: float) -> Observed:
    asked = (("victim", "forward"),)
    return Observed(
        point, f"{point}x", repeat, repeat, 1e4, 1e5 * point, 2e5 * point, 2, asked, value
    )


def unchanged(trial: Trial) -> Trial:
    return trial


def compared(
    folder: Path,
    repeats: int = 5,
    text: str = data.NOISY,
    change: Callable[[Trial], Trial] = unchanged,
) -> ArmTests:
    found = summary_of(folder, text, repeats, change).arm_tests
    assert found is not None
    return found


def difference(found: ArmTests, figure: str, first: str, second: str) -> ArmDifference:
    return next(
        d for d in found.differences if (d.figure, d.first, d.second) == (figure, first, second)
    )


@pytest.mark.parametrize(("rounds", "test"), [(5, "Mann-Whitney"), (9, "Wilcoxon")])
def test_equal_arms_are_seldom_called_different(rounds: int, test: str) -> None:
    """One wrong answer among all comparisons of a run comes in at most 5 % of the runs."""
    draw, wrong, runs = np.random.default_rng(6), 0, 240
    for _ in range(runs):
        found = list(compared_arms(P50, values(("a", "b", "c"), rounds, draw)))
        assert {each.test for each in found} == {test}
        wrong += any(each.outcome == "different" for each in found)
    assert wrong / runs <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / runs)


@pytest.mark.parametrize("rounds", [5, 9])
def test_arms_that_differ_are_found_and_by_how_much(rounds: int) -> None:
    draw = np.random.default_rng(7)
    made = values(("a", "b", "c"), rounds, draw, lambda arm: 3.0 if arm == "c" else 1.0)
    found = {(each.first, each.second): each for each in compared_arms(P50, made)}
    assert found["a", "b"].outcome == "no difference shown"
    for pair in (("a", "c"), ("b", "c")):
        each = found[pair]
        assert each.outcome == "different"
        assert each.change is not None
        assert each.low is not None
        assert each.high is not None
        assert each.low < 2 < each.high
        assert each.change == pytest.approx(2, abs=0.7)
        assert each.shift > 0
        assert each.effect == 1
        assert (each.loads, each.pairs, each.values) == (3, rounds, (rounds, rounds))
        assert each.adjusted_p == pytest.approx(min(1, 3 * each.p), abs=0.02)


def test_with_too_few_rounds_nothing_can_be_shown() -> None:
    assert [rounds_needed(comparisons) for comparisons in (1, 3, 10)] == [4, 5, 6]
    draw = np.random.default_rng(8)
    made = values(("a", "b", "c"), 4, draw, lambda arm: 1e3 if arm == "c" else 1.0)
    found = list(compared_arms(P50, made))
    assert {each.outcome for each in found} == {"too few rounds"}
    assert [each.smallest_p for each in found] == pytest.approx([3 * 2 / 70] * 3)
    alone = compared_arms(P50, {arm: made[arm] for arm in ("a", "c")})
    assert next(alone).outcome == "different"


def test_only_the_same_load_is_compared() -> None:
    made = values(("a", "b"), 9, np.random.default_rng(10))
    less = [one for one in made["b"] if one.point != 1]
    (found,) = compared_arms(P50, {"a": made["a"], "b": less})
    assert found.loads == 2
    moved = [Observed(**{**vars(one), "aggressors_pps": 9e5}) for one in made["b"]]
    assert list(compared_arms(P50, {"a": made["a"], "b": moved})) == []
    other = [Observed(**{**vars(one), "asked": (("victim", "echo"),)}) for one in made["b"]]
    assert list(compared_arms(P50, {"a": made["a"], "b": other})) == []


def test_a_delay_is_infinite_where_frames_are_lost() -> None:
    made = values(("a", "b"), 9, np.random.default_rng(11))
    lost = [seen(one.point, one.repeat, math.inf) for one in made["b"]]
    (found,) = compared_arms(P50, {"a": made["a"], "b": lost})
    assert (found.outcome, found.shift, found.change) == ("different", math.inf, None)
    (same,) = compared_arms(P50, {"a": lost, "b": lost})
    assert (same.outcome, same.shift, same.change) == ("no difference shown", 0, 0)


def test_a_run_compares_its_arms_and_loads(tmp_path: Path) -> None:
    found = compared(tmp_path)
    assert {d.figure for d in found.differences} == {"p50", "p99", "CPU per frame"}
    assert {(d.first, d.second) for d in found.differences} == {
        ("direct", "bridge"), ("direct", "macvlan"), ("bridge", "macvlan"),
    }  # fmt: skip
    assert {d.router for d in found.differences} == {"victim"}
    frame = difference(found, "CPU per frame", "direct", "bridge")
    assert (frame.outcome, frame.effect, frame.values) == ("different", 1, (5, 5))
    assert frame.change == pytest.approx(1450 / 1150 - 1, rel=0.01)
    assert frame.shift == pytest.approx(300, rel=0.01)
    p50 = [trend for trend in found.trends if trend.figure == "p50"]
    assert [trend.arm for trend in p50] == ["direct", "bridge", "macvlan"]
    assert {(t.outcome, t.load, t.loads, t.values) for t in p50} == {
        ("rises", "aggressor's load", 5, 25)
    }
    box = found.spreads[0]
    assert (box.arm, box.point, box.trials) == ("direct", 0, 5)
    assert box.minimum < box.p25 < box.median < box.p75 < box.maximum
    assert (found.rounds_needed, found.unit) == (5, "round")
    assert ArmTests.model_validate_json(found.model_dump_json()) == found


def test_what_there_is_one_of_is_not_compared(tmp_path: Path) -> None:
    one_arm = data.NOISY.replace("  - {name: bridge, path: bridge}\n", "")
    one_arm = one_arm.replace("  - {name: macvlan, path: macvlan}\n", "")
    one_arm = one_arm[: one_arm.index("published")]
    alone = compared(tmp_path, text=one_arm)
    assert alone.differences == ()
    assert alone.rounds_needed is None
    assert {trend.arm for trend in alone.trends} == {"direct"}
    one_load = data.NOISY.replace("[0x, 0.5x, 1x, 2x, 4x]", "1x")
    one_load = one_load[: one_load.index("published")]
    assert compared(tmp_path, text=one_load).trends == ()
    neither = one_arm.replace("[0x, 0.5x, 1x, 2x, 4x]", "1x")
    assert summary_of(tmp_path, neither).arm_tests is None


def test_without_victims_all_routers_count(tmp_path: Path) -> None:
    found = compared(tmp_path, text=data.SWEEP)
    assert {d.router for d in found.differences} == {"mean of all routers"}
    assert {t.load for t in found.trends} == {"number of routers"}
    assert {(t.outcome, t.loads) for t in found.trends if t.figure == "p50"} == {
        ("no trend shown", 4)
    }
    ladder = compared(tmp_path, text=data.LADDER)
    assert {t.load for t in ladder.trends} == {"offered load"}


def test_invocations_count_once(tmp_path: Path) -> None:
    def later(trial: Trial) -> Trial:
        return trial.model_copy(update={"invocation": trial.repeat // 2})

    found = compared(tmp_path, repeats=10, change=later)
    assert found.unit == "invocation"
    assert {d.values for d in found.differences} == {(5, 5)}
    assert {t.values for t in found.trends} == {25}


def test_trials_that_give_no_verdict_are_in_no_pair(tmp_path: Path) -> None:
    def spoilt(trial: Trial) -> Trial:
        return without(trial) if trial.arm == "bridge" and trial.repeat == 2 else trial

    found = difference(compared(tmp_path, repeats=9, change=spoilt), "p50", "direct", "bridge")
    assert (found.test, found.pairs, found.values) == ("Wilcoxon", 8, (9, 8))


def test_a_load_without_effect_is_no_trend(tmp_path: Path) -> None:
    draw = np.random.default_rng(12)

    def even(trial: Trial) -> Trial:
        p50_ns = 1e5 * math.exp(draw.normal(scale=0.1))
        routers = tuple(
            r.model_copy(
                update={"delay": r.delay and r.delay.model_copy(update={"p50_ns": p50_ns})}
            )
            for r in trial.routers
        )
        return trial.model_copy(update={"routers": routers})

    found = compared(tmp_path, change=even)
    assert {t.outcome for t in found.trends if t.figure == "p50"} == {"no trend shown"}
    assert {t.outcome for t in found.trends if t.figure == "p99"} == {"rises"}


def test_a_closed_loop_has_no_load_that_a_trend_could_be_over() -> None:
    own = [seen(point, repeat, 1e5 * (point + 1)) for point in range(3) for repeat in range(6)]
    own += [replace(seen(3, repeat, 9e5), aggressors_pps=0.0, closed=True) for repeat in range(6)]
    varied, settings, figures = trend_values(own)
    assert varied == "aggressor's load"
    assert len(settings) == len(figures) == 18
    assert max(figures) == 3e5
    assert trend_values([one for one in own if one.closed])[1:] == ([], [])

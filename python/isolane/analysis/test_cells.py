"""Cells, summary and verdict, from synthetic trials (see isolane.report.test_data)."""

from collections.abc import Callable
from pathlib import Path

import pytest

from isolane.analysis.answer_words import lost_line
from isolane.analysis.summary import summarise
from isolane.report import test_data as data
from isolane.report.points import across
from isolane.results.invalid import InvalidKind
from isolane.results.results import Cell, Summary, Trial


def summary_of(
    folder: Path,
    text: str = data.NOISY,
    repeats: int = 5,
    change: Callable[[Trial], Trial] = lambda trial: trial,
) -> Summary:
    found = data.experiment(folder, text, repeats)
    trials = [change(trial) for trial in data.trials_of(found, repeats)]
    return summarise(found, trials, (), 1.0, 2.0, complete=True)


def cell(summary: Summary, arm: str, point: int, router: str) -> Cell:
    return next(
        c for c in summary.cells if (c.arm, c.point, c.router) == (arm, point, router)
    )  # fmt: skip


def without(trial: Trial, reason: str = "the interface vanished") -> Trial:
    return trial.model_copy(update={"status": "failed", "reason": reason, "routers": ()})


def test_every_point_of_every_arm_has_its_cells(tmp_path: Path) -> None:
    found = summary_of(tmp_path)
    assert [c.arm for c in found.cells] == ["direct"] * 10 + ["bridge"] * 10 + ["macvlan"] * 10
    assert {c.throughput_pps.n for c in found.cells} == {5}
    assert len(found.aggregates) == 15
    assert len(found.cores) == 30


def test_retained_is_paired_with_the_same_round(tmp_path: Path) -> None:
    def drifting(trial: Trial) -> Trial:
        """A host that gets slower by a fifth from round to round: no router is to blame."""
        slower = tuple(
            r.model_copy(
                update={"received_pps": r.offered_pps * 0.8**trial.repeat, "loss_ratio": 0.0}
            )
            for r in trial.routers
        )
        return trial.model_copy(update={"routers": slower})

    found = summary_of(tmp_path, change=drifting)
    retained = cell(found, "bridge", 4, "victim").retained
    assert retained is not None
    assert (retained.low, retained.median, retained.high) == pytest.approx((1, 1, 1))


def test_only_victims_retain_and_the_reference_is_where_aggressors_offer_least(
    tmp_path: Path,
) -> None:
    found = summary_of(tmp_path)
    assert all((c.retained is not None) == (c.role == "victim") for c in found.cells)
    alone = cell(found, "bridge", 0, "victim")
    assert alone.retained is not None
    assert alone.retained.median == 1
    assert alone.delay_inflation is not None
    assert alone.delay_inflation.median == 1
    attacked = cell(found, "bridge", 4, "victim")
    assert attacked.retained is not None
    assert attacked.retained.median < 0.3
    assert attacked.delay_inflation is not None
    assert attacked.delay_inflation.median > 5


def test_a_victim_that_is_offered_different_loads_has_no_reference(tmp_path: Path) -> None:
    text = data.NOISY.replace("victim: 0.27x\n", "victim: [0.1x, 0.2x, 0.3x, 0.4x, 0.5x]\n", 1)
    found = summary_of(tmp_path, text[: text.index("published")])
    assert all(c.retained is None for c in found.cells)
    assert found.verdict.level == "none"
    assert "nothing to compare" in found.verdict.sentence


def test_share_errors_of_two_routers_cancel(tmp_path: Path) -> None:
    found = summary_of(tmp_path)
    victim, aggressor = (cell(found, "bridge", 4, r).share_error for r in ("victim", "aggressor"))
    assert victim is not None
    assert aggressor is not None
    assert victim.median == pytest.approx(-aggressor.median)
    assert victim.median < -20


def test_failed_trials_are_left_out_counted_and_named(tmp_path: Path) -> None:
    found = summary_of(
        tmp_path,
        change=lambda t: without(t) if t.arm == "bridge" and t.point == 4 and t.repeat else t,
    )
    assert found.trials_failed == 4
    assert cell(found, "bridge", 4, "victim").throughput_pps.n == 1
    named = [gap for gap in found.not_measured if gap.why == "the interface vanished"]
    assert len(named) == 4
    assert "bridge, aggressor 4x, round 2" in named[0].what


def marked(trial: Trial, kind: InvalidKind, reason: str) -> Trial:
    return trial.model_copy(update={"invalid": (kind,), "reason": reason})


def test_disturbed_trials_count_and_are_told(tmp_path: Path) -> None:
    quiet = summary_of(tmp_path)
    found = summary_of(
        tmp_path,
        change=lambda t: (
            marked(t, InvalidKind.DISTURBED, "others had the core") if t.arm == "bridge" else t
        ),
    )
    assert (found.cells, found.cores) == (quiet.cells, quiet.cores)
    assert (quiet.trials_disturbed, found.trials_disturbed) == (0, 25)
    told = f"Of {found.trials} trials others disturbed 25, which count"
    assert (lost_line(quiet), lost_line(found)) == (None, told)
    (gap,) = [gap for gap in found.not_measured if "without others" in gap.what]
    assert gap.what.startswith("25 of ")


def test_cpu_time_that_does_not_add_up_is_in_no_figure(tmp_path: Path) -> None:
    why = "the accounts of core 1 miss the window by 10.0 %"
    quiet = summary_of(tmp_path)
    found = summary_of(
        tmp_path,
        change=lambda t: marked(t, InvalidKind.CPU_ACCOUNTING, why) if t.point == 4 else t,
    )
    known = {"cpu_share", "cpu_ns_per_frame", "cpu_caused_share", "cpu_caused_ns_per_frame"}
    told = 0
    for one, before in zip(found.cells, quiet.cells, strict=True):
        if one.point == 4:
            assert {getattr(one, name) for name in known} == {None}
            told += any(getattr(before, name) is not None for name in known)
        else:
            assert one == before
        rest = one.model_dump(exclude=known), before.model_dump(exclude=known)
        assert rest[0] == rest[1], "throughput, loss and delays count"
    assert told, "without the mark there is CPU time to tell"
    assert {one.point for one in found.cores} == {0, 1, 2, 3}
    (gap,) = [gap for gap in found.not_measured if gap.what == "CPU time in 15 valid trials"]
    assert gap.why == f"{why}; the trials count for all else"


def test_a_point_without_a_good_trial_is_named(tmp_path: Path) -> None:
    found = summary_of(
        tmp_path, change=lambda t: without(t) if (t.arm, t.point) == ("macvlan", 1) else t
    )
    assert all((c.arm, c.point) != ("macvlan", 1) for c in found.cells)
    gaps = [gap.what for gap in found.not_measured if gap.why.startswith("no verdict: 5 of 5 tri")]
    assert gaps == ["macvlan, aggressor 0.5x"]


def test_no_good_trial_gives_no_verdict_and_says_why(tmp_path: Path) -> None:
    found = summary_of(tmp_path, change=lambda t: without(t, "the disk is full."))
    assert found.verdict.level == "none"
    assert found.verdict.sentence.endswith("the first because: the disk is full.")
    assert found.cells == ()
    assert found.capacity is None


def test_no_trial_at_all(tmp_path: Path) -> None:
    found = summarise(data.experiment(tmp_path, data.NOISY), [], (), 1, 2, complete=False)
    assert found.verdict.sentence == "No verdict: no trial was run."
    assert len(found.not_measured) == 15


def test_one_repeat_has_no_interval_and_says_so(tmp_path: Path) -> None:
    found = summary_of(tmp_path, repeats=1)
    assert all(c.throughput_pps.low == c.throughput_pps.high for c in found.cells)
    assert any("no interval at all" in gap.why for gap in found.not_measured)
    assert "[" not in found.verdict.sentence
    assert "One repeat only" in found.verdict.sentence


def test_cpu_without_a_context_of_its_own_is_told_as_caused(tmp_path: Path) -> None:
    found = summary_of(tmp_path)
    assert not any(gap.what.startswith("CPU time of each router") for gap in found.not_measured)
    victim = cell(found, "bridge", 1, "victim")
    assert victim.cpu_share is None
    assert victim.cpu_ns_per_frame is None
    assert victim.cpu_caused_share is not None
    assert victim.cpu_caused_ns_per_frame is not None
    assert victim.cpu_caused_ns_per_frame.median == pytest.approx(1_450, rel=0.01)


def test_a_router_whose_frames_are_all_lost_has_no_delay(tmp_path: Path) -> None:
    def starved(trial: Trial) -> Trial:
        first, *rest = trial.routers
        gone = {"received_pps": 0.0, "received_frames": 0, "delay": None, "loss_ratio": 1.0}
        routers = (first.model_copy(update=gone), *rest) if trial.point == 4 else trial.routers
        return trial.model_copy(update={"routers": routers})

    found = summary_of(tmp_path, change=starved)
    victim = cell(found, "direct", 4, "victim")
    assert victim.delay_p99_ns is None
    assert victim.delay_inflation is None
    assert victim.retained is not None
    assert victim.retained.median == 0
    assert any("victim on direct at aggressor 4x" in gap.what for gap in found.not_measured)


def test_verdict_names_the_worst_arm_first(tmp_path: Path) -> None:
    found = summary_of(tmp_path).verdict
    assert found.level == "bad"
    assert found.sentence.startswith(
        "On bridge, an aggressor offered 4x the capacity leaves the victim 18 % "
        "of what it is offered ["
    )
    assert found.sentence.index("macvlan") < found.sentence.index("direct")


def test_verdict_of_a_sweep_of_routers(tmp_path: Path) -> None:
    found = summary_of(tmp_path, data.SWEEP).verdict
    assert found.level == "neutral"
    assert found.sentence.startswith("On direct, 8 routers together forward 7")


def test_published_figures_stand_beside_the_measured_ones(tmp_path: Path) -> None:
    first, second, unknown, elsewhere = summary_of(tmp_path).published
    assert first.published == pytest.approx(400 / 1488)
    assert first.measured == pytest.approx(0.27, abs=0.01)
    assert first.point_label == "aggressor 0.5x"
    assert second.note == "read from the figure"
    assert (unknown.published, unknown.difference) == (None, None)
    assert unknown.measured is not None
    assert (elsewhere.point, elsewhere.measured) == (None, None)


def test_a_point_stands_where_the_generator_fell_short_to(tmp_path: Path) -> None:
    def short(trial: Trial) -> Trial:
        """The victim is untouched, but the aggressor was sent only half of what was planned."""
        routers = tuple(
            r.model_copy(
                update={"received_pps": r.offered_pps, "received_frames": r.offered_frames}
                if r.role == "victim"
                else {"generated_pps": r.offered_pps / 2}
            )
            for r in trial.routers
        )
        return trial.model_copy(update={"routers": routers})

    found = summary_of(tmp_path, change=short)
    assert found.verdict.level == "good"
    assert cell(found, "direct", 4, "victim").aggressor_x == pytest.approx(2)
    offered_pps = cell(found, "direct", 4, "aggressor").offered_pps.median
    assert cell(found, "direct", 4, "victim").aggressor_pps == pytest.approx(offered_pps / 2)
    assert across(found).axis.ticks == pytest.approx((0, 0.25, 0.5, 1, 2))
    assert "could not send the aggressor's whole load" in found.verdict.sentence
    gaps = [gap for gap in found.not_measured if gap.what.startswith("The whole load of aggressor")]
    assert len(gaps) == 3 * 4
    assert "it sent 180 kpps of 360 kpps" in gaps[0].why

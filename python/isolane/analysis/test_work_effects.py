"""What work in a part of the window takes from a router, from time series that are made up."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from isolane.analysis.work_effects import with_work_effect, work_effect
from isolane.cli.answer_table import print_answer
from isolane.report import test_data as data
from isolane.report.answer_box import answer_box
from isolane.report.loaded_run import read_run
from isolane.results.results import Trial
from isolane.results.series import RouterSeries, TrialSeries
from isolane.spec import Experiment, Point

MS = 1_000_000
TEXT = """\
isolane: 1
name: worked
routers:
  - {name: sends}
  - {name: works, work: cpu, work_from: 300ms, work_until: 700ms}
load: {sends: 10kpps, works: 0pps}
arms:
  - {name: direct, path: direct}
  - {name: bridge, path: bridge}
trial: {duration: 1s, warmup: 20ms, repeats: 3, seed: 1}
"""
KEPT = {"direct": 0.9, "bridge": 0.5}


def made(folder: Path, text: str = TEXT) -> tuple[Experiment, list[Trial]]:
    folder.mkdir(exist_ok=True)
    found = data.experiment(folder, text)
    made = [
        (repeat, arm, point)
        for repeat in range(3)
        for arm in found.resolved_arms()
        for point in found.points()
    ]
    return found, [
        working(data.trial(arm.name, point, repeat, number), point)
        for number, (repeat, arm, point) in enumerate(made)
    ]


def working(trial: Trial, point: Point) -> Trial:
    of = {router.name: router for router in point.routers}
    routers = [
        r.model_copy(update={"work": of[r.router].work, "pattern": str(of[r.router].pattern)})
        for r in trial.routers
    ]
    return trial.model_copy(update={"routers": tuple(routers)})


def series(trial: Trial, begin_ms: int = 300, end_ms: int = 700) -> TrialSeries:
    """A router that gets less between two moments, and nothing at all near them."""
    times = [10 * i - 20 for i in range(107)]
    during = round(100 * KEPT[trial.arm]) + trial.repeat
    received = tuple(
        0 if any(abs(at - edge) < 100 for edge in (begin_ms, end_ms))
        else during if begin_ms <= at < end_ms else 100
        for at in times
    )  # fmt: skip
    rows = [
        RouterSeries(router=name, sent=received, received=got, delay_p99_ns=(None,) * 107)
        for name, got in (("sends", received), ("works", (0,) * 107))
    ]
    return TrialSeries(trial=trial.trial, bin_ns=10 * MS, warmup_ns=20 * MS,
                       window_ns=1000 * MS, routers=tuple(rows))  # fmt: skip


def test_what_is_kept_is_told_by_arm_the_best_first(tmp_path: Path) -> None:
    spec, trials = made(tmp_path / "text")
    found = work_effect(spec, trials, [series(trial) for trial in trials])
    assert found is not None
    assert (found.router, found.worker) == ("sends", "works")
    for arm, share in KEPT.items():
        one = found.kept[arm]
        assert one.median == pytest.approx(share + 0.01)
        assert one.low == pytest.approx(share)
        assert one.high == pytest.approx(share + 0.02)
        assert one.n == 3


def test_trials_without_verdict_do_not_count(tmp_path: Path) -> None:
    spec, trials = made(tmp_path / "text")
    assert {router.work for trial in trials for router in trial.routers} == {"none", "cpu"}
    good = [t.model_copy(update={"status": "invalid"}) if t.repeat else t for t in trials]
    found = work_effect(spec, good, [series(trial) for trial in trials])
    assert found is not None
    assert {one.n for one in found.kept.values()} == {1}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (", work: cpu, work_from: 300ms, work_until: 700ms", ""),
        (", work_from: 300ms, work_until: 700ms", ""),
        ("work_from: 300ms, work_until: 700ms", "work_from: 0ms"),
        ("name: sends", "name: sends, work: cpu, work_from: 500ms"),
        ("name: sends", "name: sends, traffic: {pattern: from 100ms}"),
        ("{sends: 10kpps, works: 0pps}", "{sends: 0pps, works: 10kpps}"),
    ],
)
def test_nothing_is_told_where_there_is_nothing_to_compare(
    old: str, new: str, tmp_path: Path
) -> None:
    assert old in TEXT
    spec, trials = made(tmp_path / "text", TEXT.replace(old, new))
    assert work_effect(spec, trials, [series(trial) for trial in trials]) is None


def test_the_last_point_is_that_at_which_it_works(tmp_path: Path) -> None:
    text = TEXT.replace("work: cpu", "work: [cpu, none]")
    spec, trials = made(tmp_path / "text", text)
    assert {trial.point for trial in trials} == {0, 1}
    found = work_effect(spec, trials, [series(trial) for trial in trials])
    assert found is not None
    assert {one.n for one in found.kept.values()} == {3}


def test_arms_whose_order_is_not_clear_are_not_named(tmp_path: Path) -> None:
    spec, trials = made(tmp_path / "text")
    folder = data.run_folder(tmp_path / "run", TEXT, 3, trials)
    alike = [series(trial.model_copy(update={"arm": "direct"})) for trial in trials]
    summary = with_work_effect(read_run(folder.path).summary, spec, trials, lambda: alike)
    sentence = "While works works, sends gets 91 % of what it gets otherwise."
    assert answer_box(summary).sentence.startswith(sentence)


def test_the_answer_of_a_run_begins_with_it(tmp_path: Path) -> None:
    spec, trials = made(tmp_path / "text")
    folder = data.run_folder(tmp_path / "run", TEXT, 3, trials)
    plain = read_run(folder.path).summary

    def read() -> Sequence[TrialSeries]:
        return [series(trial) for trial in trials]

    summary = with_work_effect(plain, spec, trials, read)
    box = answer_box(summary)
    assert [name for name, _ in box.columns][:2] == ["Arm", "sends while works works"]
    assert [row[0].text for row in box.rows] == ["direct", "bridge"]
    assert box.rows[1][1].text.startswith("51 %")
    assert box.sentence.startswith(
        "While works works, sends gets 91 % of what it gets otherwise on direct, and 51 % on bridge"
    )
    console = Console(width=100, record=True, file=io.StringIO())
    print_answer(summary, console)
    told = console.export_text()
    assert "sends while works works" in told
    assert max(map(len, told.splitlines())) <= 100
    assert (
        with_work_effect(
            plain, spec.model_copy(update={"routers": spec.routers[:1]}), trials, _never
        )
        is plain
    )


def _never() -> Sequence[TrialSeries]:
    pytest.fail("nobody works in a part of the window")

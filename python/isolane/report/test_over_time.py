from __future__ import annotations

import json
from pathlib import Path

from isolane.report import test_data as data
from isolane.report.loaded_run import read_run
from isolane.report.over_time import over_time
from isolane.report.render import render
from isolane.results.folder import RunFolder
from isolane.results.invalid import InvalidKind
from isolane.results.series import RouterSeries, TrialSeries

MS = 1_000_000


def with_series(where: Path) -> RunFolder:
    """A run whose routers receive nothing in the warm-up of 20 ms, then 100 frames a bin."""
    folder = data.run_folder(where, repeats=2)
    for trial in folder.trials():
        routers = tuple(
            RouterSeries(
                router=router.router,
                sent=(100,) * 12,
                received=(0, 0, *[100] * 10),
                delay_p99_ns=(None, None, *[5e4] * 10),
            )
            for router in trial.routers
        )
        folder.append_series(
            TrialSeries(
                trial=trial.trial,
                bin_ns=10 * MS,
                warmup_ns=20 * MS,
                window_ns=80 * MS,
                routers=routers,
            )
        )
    return folder


def test_the_victim_is_drawn_over_time_at_the_last_point(tmp_path: Path) -> None:
    run = read_run(with_series(tmp_path / "run").path)
    figure = over_time(run.summary, run.trials, run.series)
    assert figure is not None
    frames, delays = figure.panels
    # Altair keeps data beside the layers, under a name.
    (rows,) = [found for found in frames.spec["datasets"].values() if "y" in found[0]]
    of_arm = [row["y"] for row in rows if row["series"] == run.summary.arms[0]]
    assert of_arm == [0, 0, *[10_000] * 8], "up to the end of the window, in frames per second"
    assert {row["series"] for row in rows} == set(run.summary.arms)
    assert json.dumps(delays.spec).count('"p99"') > 8
    assert "2 trials" in figure.caption
    page = render(tmp_path / "run").read_text()
    assert 'id="figure-over-time"' in page


def test_bins_of_a_long_trial_are_drawn_together(tmp_path: Path) -> None:
    run = read_run(with_series(tmp_path / "run").path)
    bins = 1_000
    long = [
        one.model_copy(
            update={
                "window_ns": (bins - 2) * one.bin_ns,
                "routers": tuple(
                    router.model_copy(
                        update={
                            "sent": (100,) * bins,
                            "received": (90, 100, 110) * (bins // 3) + (0,),
                            "delay_p99_ns": (5e4,) * bins,
                        }
                    )
                    for router in one.routers
                ),
            }
        )
        for one in run.series
    ]
    figure = over_time(run.summary, run.trials, long)
    assert figure is not None
    (rows,) = [found for found in figure.panels[0].spec["datasets"].values() if "y" in found[0]]
    of_arm = [row["y"] for row in rows if row["series"] == run.summary.arms[0]]
    assert of_arm == [10_000] * 333, "three bins in each step; the rest is less than one"
    assert "steps of 30 ms" in figure.caption


def test_invalid_delays_are_not_drawn(tmp_path: Path) -> None:
    run = read_run(with_series(tmp_path / "run").path)
    late = [trial.model_copy(update={"invalid": (InvalidKind.LATE,)}) for trial in run.trials]
    figure = over_time(run.summary, late, run.series)
    assert figure is not None
    (frames,) = figure.panels
    assert frames.title == "frames received per second"


def test_a_folder_of_an_older_version_renders_without(tmp_path: Path) -> None:
    folder = data.run_folder(tmp_path / "run", repeats=2)
    run = read_run(folder.path)
    assert over_time(run.summary, run.trials, run.series) is None
    page = render(folder.path).read_text()
    assert "figure-over-time" not in page


def test_a_part_of_the_window_with_work_is_shaded(tmp_path: Path) -> None:
    run = read_run(with_series(tmp_path / "run").path)
    assert run.spec is not None
    first, other = run.spec.routers
    works = {"work": ("cpu",), "work_from_ns": 30 * MS, "work_until_ns": 50 * MS}
    late = {"work": ("cpu",), "work_from_ns": 40 * MS}
    spec = run.spec.model_copy(
        update={"routers": (first.model_copy(update=works), other.model_copy(update=late))}
    )
    idle = over_time(run.summary, run.trials, run.series, spec)
    assert idle is not None
    assert "Shaded" not in idle.caption, "nobody worked in these trials"
    trials = [
        trial.model_copy(
            update={"routers": tuple(r.model_copy(update={"work": "cpu"}) for r in trial.routers)}
        )
        for trial in run.trials
    ]
    figure = over_time(run.summary, trials, run.series, spec)
    assert figure is not None
    assert "Shaded from 0.05 to 0.07 s: work of victim." in figure.caption
    assert "Shaded from 0.06 to 0.1 s: work of aggressor." in figure.caption
    for panel in figure.panels:
        spans = [rows for rows in panel.spec["datasets"].values() if "to" in rows[0]]
        assert spans == [[{"from": 0.05, "to": 0.07}, {"from": 0.06, "to": 0.1}]]
    plain = over_time(run.summary, run.trials, run.series, run.spec)
    assert plain is not None
    assert "Shaded" not in plain.caption

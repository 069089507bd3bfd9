"""Runs that are made up, of the shipped experiments, beside the simulation."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from isolane.cli.reproduce import print_reproduction
from isolane.cli.reproduction_answer import print_reproduction_answer
from isolane.errors import SpecError
from isolane.report import test_data as data
from isolane.report.reproduction import page
from isolane.reproduce.adamczyk import PAPER, adamczyk_claims, live_runs
from isolane.reproduce.model import Options
from isolane.reproduce.workers import Pool
from isolane.results.results import Trial
from isolane.results.series import RouterSeries, TrialSeries
from isolane.spec import Point

PAPERS = Path(__file__).parents[4] / "experiments" / "papers" / "adamczyk2012"
BIN_NS, WARMUP_NS = 10_000_000, 1_000_000_000
FRAMES_A_MBPS = 1e6 / 8 / 1472
"""Full datagrams a second."""
Course = Callable[[Trial, float], Sequence[float]]
"""What each guest gets, Mbit/s of payload, at a second of a trial's window."""


def made(folder: Path, file: str, course: Course | None, text: str = "") -> Path:
    """A run of a shipped experiment whose guests get what `course` says; None: without series."""
    given = text or (PAPERS / f"{file}.yaml").read_text(encoding="utf-8")
    folder.mkdir()
    found = data.experiment(folder, given)
    numbered = enumerate(
        (repeat, arm, point)
        for repeat in range(2)
        for arm in found.resolved_arms()
        for point in found.points()
    )
    trials = [
        with_patterns(data.trial(arm.name, point, repeat, number), point)
        for number, (repeat, arm, point) in numbered
    ]
    run = data.run_folder(folder / "run", given, 2, trials)
    if course is not None:
        for trial in trials:
            run.append_series(series(trial, course, found.trial.duration_ns))
    return run.path


def with_patterns(trial: Trial, point: Point) -> Trial:
    patterns = {router.name: str(router.pattern) for router in point.routers}
    routers = [
        one.model_copy(update={"pattern": patterns[one.router], "kind": "vm", "path": "netback"})
        for one in trial.routers
    ]
    return trial.model_copy(update={"routers": tuple(routers)})


def series(trial: Trial, course: Course, window_ns: int) -> TrialSeries:
    bins = (WARMUP_NS + window_ns) // BIN_NS
    seconds = [(i * BIN_NS - WARMUP_NS) / 1e9 for i in range(bins)]
    columns = np.array([course(trial, second) for second in seconds]).T
    frames = np.diff(np.floor(np.cumsum(columns * FRAMES_A_MBPS * BIN_NS / 1e9, axis=1)), prepend=0)
    return TrialSeries(
        trial=trial.trial,
        bin_ns=BIN_NS,
        warmup_ns=WARMUP_NS,
        window_ns=window_ns,
        routers=tuple(
            RouterSeries(
                router=router.router,
                sent=tuple(map(int, row)),
                received=tuple(map(int, row)),
                delay_p99_ns=(None,) * bins,
            )
            for router, row in zip(trial.routers, frames, strict=True)
        ),
    )


def shared(trial: Trial, second: float) -> tuple[float, ...]:
    """By what is offered, as where nobody looks at the link."""
    if second < 0:
        return (0.0, 0.0)
    share = {0: 1 / 3, 1: 1 / 4}[trial.point] if trial.arm == "unmodified" else 1 / 2
    return (95 * share, 95 * (1 - share))


def limited(trial: Trial, second: float) -> tuple[float, ...]:
    """Rates are kept; beside the second guest an old back-end takes more of higher ones."""
    word, _, rate_words = trial.arm.partition("-")
    rate = float(rate_words) * 1472 / 1538
    if second < 5:
        return (rate, 0.0) if second >= 0 else (0.0, 0.0)
    if word == "improved":
        return (rate, rate)
    swing = (float(rate_words) - 22) * (1 if trial.repeat else -1)
    return (rate * (0.95 if rate < 30 else 0.85) + swing / 5, rate - swing / 5)


def test_frames_become_payload_of_seconds(tmp_path: Path) -> None:
    path = made(tmp_path / "five", "fig5-equal-rates", limited)
    live = live_runs.read([path])
    it = live.found["equal-rates"]["rate-25"]
    assert it.series("vm1").shape == (2, 15)
    assert live.fine["equal-rates"]["rate-25"].series("vm1").shape == (2, 150)
    assert it.variant.guests["vm2"].start == 5
    # To a frame a second.
    assert it.series("vm1")[0, :5] == pytest.approx(25 * 1472 / 1538, abs=1 / FRAMES_A_MBPS)
    assert "An imaginary CPU" in live.where
    assert "2025-06-15" in live.where


def test_claims_are_decided_by_runs_as_by_simulations(tmp_path: Path) -> None:
    five = made(tmp_path / "five", "fig5-equal-rates", limited)
    eight = made(tmp_path / "eight", "fig8-connections", shared)
    live = live_runs.read([five, eight])
    names = ["equal-rates", "equal-rates-improved", "connections"]
    claims = {claim.text: claim for claim in adamczyk_claims.of(live.found, names)}
    assert len(claims) == 3 + 2 + 3, "nothing of a guest that is alone"
    missed = [text for text, claim in claims.items() if not claim.reproduced]
    assert missed == ["There are some fluctuations even if only one adapter is transmitting."]
    more = claims["A VM with three connections gets more than one with a single connection."]
    assert more.evidence.startswith("its share is 75.0%")
    (alike,) = [claim for text, claim in claims.items() if text.startswith("Isolation is not too")]
    losses = [float(part) for part in re.findall(r"([0-9.]+)% \(95", alike.evidence)]
    assert losses == pytest.approx([5, 5, 15, 15], abs=0.1), "in the mean of both repeats"
    assert live.told[1].endswith("(adamczyk2012-fig8-connections: 2 trials of 10 s each)")


def even(trial: Trial, second: float) -> tuple[float, ...]:
    return (47.0, 47.0) if trial.arm != "unmodified" or second % 4 < 2 else (90.0, 4.0)


def following(_: Trial, second: float) -> tuple[float, ...]:
    first = 30 - max(0, int(second))
    return (95 * first / 31, 95 * (31 - first) / 31)


def disturbed(trial: Trial, second: float) -> tuple[float, ...]:
    kept = {"unmodified": 0.6, "improved": 0.8, "protected": 0.99}[trial.arm]
    return (95 * kept if 15 <= second < 30 else 95 * (second >= 0), 0.0)


def test_what_a_disk_takes_is_decided_by_its_times(tmp_path: Path) -> None:
    nine = made(tmp_path / "nine", "fig9-disk", disturbed)
    found = live_runs.read([nine]).found
    assert list(found["disk"]) == ["unmodified", "improved", "protected"]
    claims = adamczyk_claims.of(found, ["disk"])
    assert [claim.reproduced for claim in claims] == [True, True, True]
    assert claims[0].evidence == "60.0% of it is kept during the disk load, 100.0% after"
    assert claims[1].evidence == "with it 80.0% is kept during the disk load"


def test_figures_without_repeats_or_neighbours_are_decided_as_well(tmp_path: Path) -> None:
    alone = made(tmp_path / "alone", "fig5-alone", lambda _, second: (second >= 0) * [81.0] or [0])
    (claim,) = adamczyk_claims.of(live_runs.read([alone]).found, ["equal-rates"])
    assert (claim.reproduced, claim.evidence[:35]) == (True, "alone, at a rate of 85 Mbit/s: 81.0")
    seven = made(tmp_path / "seven", "fig7-no-rate", even)
    ten = made(tmp_path / "ten", "fig10-priorities", following)
    found = live_runs.read([seven, ten]).found
    names = ["no-rate", "no-rate-improved", "priorities"]
    claims = adamczyk_claims.of(found, names)
    assert [claim.reproduced for claim in claims] == [True, False, True, True, True, True]
    assert "frames lost" not in claims[2].evidence, "which nobody has counted"
    single = {name: its for name, its in found.items() if name != "priorities"}
    once = {
        name: {variant: replace(it, courses=it.courses[:1]) for variant, it in its.items()}
        for name, its in single.items()
    }
    assert len(adamczyk_claims.of(once, names)) == 4


def test_one_repeat_has_no_interval_and_so_no_claim_about_it(tmp_path: Path) -> None:
    found = live_runs.read([made(tmp_path / "five", "fig5-equal-rates", limited)]).found
    once = {
        name: {variant: replace(it, courses=it.courses[:1]) for variant, it in its.items()}
        for name, its in found.items()
    }
    (claim,) = adamczyk_claims.of(once, list(once))
    assert claim.text.startswith("The actual rate")


def test_bins_of_any_width_give_the_same_rates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.BIN_NS", 80_000_000)
    path = made(tmp_path / "five", "fig5-equal-rates", limited)
    it = live_runs.read([path]).found["equal-rates"]["rate-25"]
    assert it.series("vm1").shape == (2, 15)
    assert it.series("vm1")[0, 1:4] == pytest.approx(25 * 1472 / 1538, rel=0.01)


def refused(words: str, *paths: Path) -> None:
    with pytest.raises(SpecError, match=words):
        live_runs.read(paths)


@pytest.mark.parametrize(
    ("file", "before", "after", "words"),
    [
        ("fig8", "fig8-connections", "mine", "of adamczyk2012-mine; accepted: runs of"),
        ("fig8", "pressure: off", "pressure: on", "back_pressure is True"),
        ("fig8", "credit-random", "drr", "scheduler is drr, and the paper's credit-r"),
        ("fig8", "100Mbps", "90Mbps", "uplink_rate is 90000000.0, and the paper's 10"),
        ("fig8", "[16.2kpps, 24.3kpps]", "[24.3kpps, 16.2kpps]", "vm2 is offered 24300 pps"),
        ("fig8", "frame_size: 1518", "frame_size: 1024", "with frames of 1024 bytes"),
        ("fig8", "vm2", "other", "routers are vm1, other, and the paper's vm1, vm2"),
        ("fig8", "name: unmodified", "name: else", "no trial of arm unmodified counts"),
        ("fig8", "duration: 10s", "duration: 3s", "window of 3 s is too short .* 4 s"),
        ("fig5", "    uplink_burst: 20ms\n", "", "uplink_burst is None, and the paper's 20000000"),
        ("fig5", "from 5s", "from 4s", "vm2 sends from 4s, and the paper's from 5 s"),
        ("fig5", "from 5s", "constant", "vm2 sends constant, and the paper's from 5 s"),
        ("fig5", "vm2: {rate_max: 30", "vm2: {rate_max: 31", "rate-30: rate_max of vm2 is 310"),
        ("fig9", "work_from: 15s", "work_from: 14s", "no other machine reads its disk when the"),
        ("fig9", "work: disk", "work: cpu", "no other machine reads its disk when the paper's"),
        (
            "fig9",
            "cpu_weight: 12",
            "cpu_weight: 100",
            "reads has cpu_weight 100, and the other one 100",
        ),
        ("fig9", "cpu_weight: 12", "cpu_weight: 800", "reads has cpu_weight 800, and the other"),
        ("fig9", "vm2: 0kpps", "vm2: 8.1kpps", "routers are vm1, vm2, and the paper's vm1;"),
        ("fig8", "vm2: [16.2kpps, 24.3kpps]", "vm2: 0pps", "vm2 is offered 0 pps, and the paper's"),
        ("fig8", "name: vm2, kind", "name: vm2, work: cpu, kind", "arm unmodified: routers work"),
        ("fig10", "link_weight: 29", "link_weight: 28", "weights do not change as the paper's"),
    ],
)
def test_a_run_with_other_settings_is_refused(
    file: str, before: str, after: str, words: str, tmp_path: Path
) -> None:
    names = {"fig5": "equal-rates", "fig8": "connections", "fig9": "disk", "fig10": "priorities"}
    text = (PAPERS / f"{file}-{names[file]}.yaml").read_text(encoding="utf-8")
    assert before in text
    path = made(tmp_path / "run", "", lambda trial, _: [1.0] * len(trial.routers),
                text.replace(before, after))  # fmt: skip
    refused(words, path)


def test_what_is_no_run_with_real_frames_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = made(tmp_path / "good", "fig8-connections", shared)
    refused("another run that was given has connections, too", good, good)
    refused("trial 0 has no time series", made(tmp_path / "bare", "fig8-connections", None))
    monkeypatch.setattr(data, "HOST", data.HOST.model_copy(update={"simulated": "veth"}))
    refused("this run is simulated", made(tmp_path / "simulated", "fig8-connections", shared))


@pytest.mark.native
def test_a_run_stands_beside_the_simulation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = made(tmp_path / "eight", "fig8-connections", shared)
    with Pool(jobs=1) as pool:
        found = PAPER.reproduce(tuple(PAPER.figures), Options(scale=0.05, runs=(path,)), pool)
        with pytest.raises(SpecError, match="of figure 8, which was not asked for"):
            PAPER.reproduce(["7"], Options(scale=0.05, runs=(path,)), pool)
    assert {row.figure for row in found.rows} == {"figure 8"}, "only what was measured"
    second = found.rows[1]
    assert (second.quantity, second.unit) == ("throughput of vm2", "Mbit/s")
    assert second.live == pytest.approx(95 * 2 / 3, abs=0.1)
    assert {point.series for point in found.plots[0].points} == {
        "vm1", "vm2", "vm1, live", "vm2, live"
    }  # fmt: skip
    assert found.live is not None
    assert [claim.reproduced for claim in found.live.claims] == [True] * 3
    written = page(found)
    assert written.count("live: <strong>✓ reproduced</strong>") == 3
    assert "and live" in written
    print_reproduction(found)
    details = capsys.readouterr().out
    assert details.count("live, reproduced: ") == 3
    assert "fig8-connections: 2 trials of 10 s each)" in " ".join(details.split())
    print_reproduction_answer(found)
    told = capsys.readouterr().out
    assert "; live 3 of 3 claims" in told
    (row,) = [line for line in told.splitlines() if line.startswith("figure 8")]
    assert row.split()[2:8] == [*row.split()[2:5], "3", "of", "3"]

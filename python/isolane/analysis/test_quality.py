"""Noise floors, lost trials and drift, from synthetic trials (see isolane.report.test_data)."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from isolane.analysis.drift import drift
from isolane.analysis.noise_floors import noise_floors, noise_words
from isolane.analysis.quality_words import drift_words, lost_words, quality_words
from isolane.analysis.summary import summarise
from isolane.analysis.twins import twin_point, twins
from isolane.report import test_data as data
from isolane.results.error_budget import ErrorBudget
from isolane.results.invalid import InvalidKind
from isolane.results.quality_models import CoreProbe, LostTrials, NoiseFloor
from isolane.results.results import Summary, Trial

Change = Callable[[Trial], Trial]
HEAVIEST = 4


def trials_of(folder: Path, repeats: int = 5, change: Change = lambda trial: trial) -> list[Trial]:
    return [
        change(trial)
        for trial in data.trials_of(data.experiment(folder, data.NOISY, repeats), repeats)
    ]


def summary_of(folder: Path, trials: list[Trial], repeats: int = 5) -> Summary:
    found = data.experiment(folder, data.NOISY, repeats)
    return summarise(found, trials, (), 1.0, 2.0, complete=True)


def with_twins(trials: list[Trial], noise: float, seed: int = 1) -> list[Trial]:
    """Spread every trial at the heaviest point by so much, and give it a twin."""
    source, found = random.Random(seed), []
    for trial in trials:
        if trial.purpose != "measure" or trial.point != HEAVIEST:
            found.append(trial)
            continue
        twin = trial.model_copy(update={"purpose": "twin"})
        found += [_spread(trial, source, noise), _spread(twin, source, noise)]
    return [trial.model_copy(update={"trial": n}) for n, trial in enumerate(found)]


def _spread(trial: Trial, source: random.Random, noise: float) -> Trial:
    routers = tuple(
        router.model_copy(
            update={"received_frames": round(router.received_frames * source.gauss(1, noise))}
        )
        for router in trial.routers
    )
    return trial.model_copy(update={"routers": routers})


def floor_of(found: tuple[NoiseFloor, ...], arm: str) -> NoiseFloor:
    return next(f for f in found if f.arm == arm and f.figure == "delivered")


def invalid(trial: Trial) -> Trial:
    update = {"status": "no-verdict", "reason": "somebody", "invalid": (InvalidKind.MISPLACED,)}
    return trial.model_copy(update=update)


def lost_at(arm: str, point: int, rounds: set[int]) -> Change:
    def change(trial: Trial) -> Trial:
        hit = (trial.arm, trial.point) == (arm, point) and trial.repeat in rounds
        return invalid(trial) if hit and trial.purpose == "measure" else trial

    return change


def of_arm(summary: Summary, arm: str) -> LostTrials:
    assert summary.quality is not None
    return next(found for found in summary.quality.lost if found.arm == arm)


def test_more_noise_between_twins_is_a_higher_floor(tmp_path: Path) -> None:
    arms = ["direct", "bridge", "macvlan"]
    quiet = noise_floors(arms, with_twins(trials_of(tmp_path), 0.002), ErrorBudget())
    loud = noise_floors(arms, with_twins(trials_of(tmp_path), 0.05), ErrorBudget())
    for arm in arms:
        assert 0.002 <= floor_of(quiet, arm).floor < 0.01
        assert 2 * floor_of(quiet, arm).floor < floor_of(loud, arm).floor < 0.2
    direct = floor_of(loud, "direct")
    assert (direct.pairs, direct.repeats, direct.pooled) == (5, 5, False)
    assert direct.point_label == "aggressor 4x"


def test_an_arm_with_few_pairs_has_the_floor_of_all(tmp_path: Path) -> None:
    trials = with_twins(trials_of(tmp_path), 0.02)
    some = [t for t in trials if t.purpose != "twin" or t.arm == "direct" or t.repeat < 1]
    found = noise_floors(["direct", "bridge", "macvlan"], some, ErrorBudget())
    assert not floor_of(found, "direct").pooled
    assert (floor_of(found, "bridge").pooled, floor_of(found, "bridge").pairs) == (True, 7)


def test_without_twins_nothing_is_said_about_noise(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, trials_of(tmp_path))
    assert summary.quality is not None
    assert summary.quality.noise == ()
    assert quality_words(summary) == [
        "What is noise is not known: too few arms were measured twice (a short run, or --no-aa)."
    ]


def test_no_floor_is_below_the_error_budget(tmp_path: Path) -> None:
    trials = with_twins(trials_of(tmp_path), 0.0)
    found = noise_floors(["direct", "bridge", "macvlan"], trials, ErrorBudget(0.05))
    assert {f.floor for f in found if f.figure == "delivered"} == {0.01}
    assert noise_words(found) == "Differences of what a victim gets under 1 % are noise here."


def test_twins_change_no_other_figure(tmp_path: Path) -> None:
    without, doubled = trials_of(tmp_path), with_twins(trials_of(tmp_path), 0.0)
    plain, shown = summary_of(tmp_path, without), summary_of(tmp_path, doubled)
    assert plain.cells == shown.cells
    assert plain.verdict == shown.verdict
    assert plain.twins == ()
    assert {cell.arm for cell in shown.twins} == {
        "direct (twin)", "bridge (twin)", "macvlan (twin)",
    }  # fmt: skip


def test_twins_are_measured_where_the_load_is_highest(tmp_path: Path) -> None:
    found = data.experiment(tmp_path, data.NOISY, 5)
    assert twin_point(found).index == HEAVIEST
    assert sum(len(twins(found, repeat)) for repeat in range(5)) == 7


def test_a_lost_trial_that_cannot_matter_is_said_so(tmp_path: Path) -> None:
    trials = trials_of(tmp_path, change=lost_at("bridge", HEAVIEST, {1}))
    found = of_arm(summary_of(tmp_path, trials), "bridge")
    assert (found.planned, found.invalid, found.lost) == (25, 1, 1)
    assert found.reasons == {"misplaced": 1}
    assert found.at_worst == found.at_best == "not isolated"
    assert not found.could_change
    (words,) = lost_words(summary_of(tmp_path, trials))
    assert words == (
        "bridge: 1 invalid attempt (1 misplaced), 0 failed; 1 of 25 trials lost, which cannot "
        "change the finding."
    )


def test_lost_trials_that_could_change_the_finding_are_named(tmp_path: Path) -> None:
    """Three of five rounds at the heaviest load lost on the arm that seems isolated."""
    trials = trials_of(tmp_path, change=lost_at("direct", HEAVIEST, {0, 1, 2}))
    summary = summary_of(tmp_path, trials)
    found = of_arm(summary, "direct")
    assert found.could_change
    assert found.at_worst == "undecided", "by intervals, half of the values at 0 prove nothing"
    assert found.at_best == "nearly isolated"
    assert not of_arm(summary, "bridge").could_change
    assert "could change the finding: undecided at worst" in lost_words(summary)[0]


def test_an_invalid_attempt_that_was_made_good_is_not_lost(tmp_path: Path) -> None:
    trials = trials_of(tmp_path)
    spoilt = next(t for t in trials if (t.arm, t.point, t.repeat) == ("direct", HEAVIEST, 0))
    found = of_arm(summary_of(tmp_path, [invalid(spoilt), *trials]), "direct")
    assert (found.invalid, found.lost, found.could_change) == (1, 0, False)


def probed(trials: list[Trial], unit_ns: Callable[[int], float]) -> list[Trial]:
    return [
        trial.model_copy(
            update={
                "probe": (
                    CoreProbe(core=1, unit_ns=unit_ns(n), stalled=0.0, longest_stall_ns=60_000),
                )
            }
        )
        for n, trial in enumerate(trials)
    ]


def test_a_machine_that_slows_down_is_told_and_normalised(tmp_path: Path) -> None:
    trials = trials_of(tmp_path)

    def slowing(number: int) -> float:
        return 20_000 * (1 + 0.3 * number / len(trials))

    found = drift(probed(trials, slowing))
    assert found is not None
    assert found.size == pytest.approx(1.27 / 1.03 - 1, abs=0.01)
    assert found.longest_stall_ns == 60_000
    assert found.normalised
    assert {row.router for row in found.normalised} == {"victim", "aggressor"}


def test_a_throughput_that_follows_the_speed_is_the_same_at_one_speed(tmp_path: Path) -> None:
    def follows(trial: Trial) -> Trial:
        routers = tuple(
            r.model_copy(update={"received_pps": 1e5 / (1 + trial.repeat), "loss_ratio": 0.5})
            for r in trial.routers
        )
        probe = CoreProbe(core=1, unit_ns=1e4 * (1 + trial.repeat), stalled=0.0, longest_stall_ns=0)
        return trial.model_copy(update={"routers": routers, "probe": (probe,)})

    found = drift(trials_of(tmp_path, change=follows))
    assert found is not None
    rates = {round(row.normalised_pps) for row in found.normalised}
    assert len(rates) == 1


def test_a_steady_machine_needs_no_normalising(tmp_path: Path) -> None:
    found = drift(probed(trials_of(tmp_path), lambda n: 20_000 + n % 3))
    assert found is not None
    assert found.size < 0.001
    assert found.normalised == ()
    assert drift(trials_of(tmp_path)) is None


def test_where_nothing_was_found_nothing_could_change(tmp_path: Path) -> None:
    trials = trials_of(tmp_path, change=lost_at("direct", HEAVIEST, {0, 1, 2, 3, 4}))
    summary = summary_of(tmp_path, trials)
    assert of_arm(summary, "direct").at_worst is None
    assert lost_words(summary) == [
        "direct: 5 invalid attempts (5 misplaced), 0 failed; 5 of 25 trials lost."
    ]


def test_cores_that_the_machine_moves_apart_are_told(tmp_path: Path) -> None:
    trials = probed(trials_of(tmp_path), lambda _: 20_000)
    near = drift(trials)
    assert near is not None
    assert "cache line" not in drift_words(near)
    far = [
        trial.model_copy(
            update={
                "probe": tuple(
                    probe.model_copy(update={"transfer_ns": 250.0 if n % 2 else 1_400.0})
                    for probe in trial.probe
                )
            }
        )
        for n, trial in enumerate(trials)
    ]
    found = drift(far)
    assert found is not None
    assert found.transfer_ns == (250.0, 1_400.0)
    assert "back in 250 ns (the fastest tenth) to 1.4 µs" in drift_words(found)

"""Lost trials and drift, from synthetic trials (see isolane.report.test_data)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from isolane.analysis.drift import drift
from isolane.analysis.quality_words import drift_words, lost_words, quality_words
from isolane.analysis.summary import summarise
from isolane.report import test_data as data
from isolane.results.invalid import InvalidKind
from isolane.results.quality_models import CoreProbe, Drift, LostTrials, Quality
from isolane.results.results import Summary, Trial
from isolane.stored_model import StoredModel

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


def test_lost_trials_are_counted_with_their_reasons(tmp_path: Path) -> None:
    trials = trials_of(tmp_path, change=lost_at("bridge", HEAVIEST, {1}))
    found = of_arm(summary_of(tmp_path, trials), "bridge")
    assert (found.planned, found.invalid, found.lost) == (25, 1, 1)
    assert found.reasons == {"misplaced": 1}
    (words,) = lost_words(summary_of(tmp_path, trials))
    assert words == "bridge: 1 invalid attempt (1 misplaced), 0 failed; 1 of 25 trials lost."


def test_an_invalid_attempt_that_was_made_good_is_not_lost(tmp_path: Path) -> None:
    trials = trials_of(tmp_path)
    spoilt = next(t for t in trials if (t.arm, t.point, t.repeat) == ("direct", HEAVIEST, 0))
    found = of_arm(summary_of(tmp_path, [invalid(spoilt), *trials]), "direct")
    assert (found.invalid, found.lost) == (1, 0)


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


def test_a_machine_that_slows_down_is_told(tmp_path: Path) -> None:
    trials = trials_of(tmp_path)

    def slowing(number: int) -> float:
        return 20_000 * (1 + 0.3 * number / len(trials))

    summary = summary_of(tmp_path, probed(trials, slowing))
    assert summary.quality is not None
    found = summary.quality.drift
    assert found is not None
    assert found.size == pytest.approx(1.27 / 1.03 - 1, abs=0.01)
    assert found.longest_stall_ns == 60_000
    (words,) = quality_words(summary)
    assert words.startswith("The machine's speed drifted by 23 % over the run. ")


def test_of_a_steady_machine_nothing_is_said(tmp_path: Path) -> None:
    steady = probed(trials_of(tmp_path), lambda n: 20_000 + n % 3)
    found = drift(steady)
    assert found is not None
    assert found.size < 0.001
    assert quality_words(summary_of(tmp_path, steady)) == []
    assert drift(trials_of(tmp_path)) is None
    assert quality_words(summary_of(tmp_path, trials_of(tmp_path))) == []


def test_the_second_copies_of_arms_that_older_versions_made_change_nothing(tmp_path: Path) -> None:
    trials = trials_of(tmp_path)
    copies = [
        trial.model_copy(update={"purpose": "twin", "trial": len(trials) + n})
        for n, trial in enumerate(trials)
        if trial.point == HEAVIEST
    ]
    without, found = summary_of(tmp_path, trials), summary_of(tmp_path, [*trials, *copies])
    same = without.model_dump(exclude={"trials"})
    assert found.model_dump(exclude={"trials"}) == same


@pytest.mark.parametrize(
    ("model", "stored"),
    [
        (LostTrials, {"could_change": True, "at_worst": "isolated", "at_best": None}),
        (Drift, {"normalised": [{"arm": "direct"}]}),
        (Quality, {"noise": [{"arm": "direct", "floor": 0.01}]}),
    ],
)
def test_what_older_versions_told_besides_is_passed_over(
    model: type[StoredModel], stored: dict[str, object], tmp_path: Path
) -> None:
    trials = probed(trials_of(tmp_path), lambda _: 20_000)
    quality = summary_of(tmp_path, trials).quality
    assert quality is not None
    found = {LostTrials: quality.lost[0], Drift: quality.drift, Quality: quality}[model]
    assert found is not None
    kept = json.loads(found.model_dump_json())
    assert model.model_validate_json(json.dumps(kept | stored)) == found
    with pytest.raises(ValueError, match="unheard_of"):
        model.model_validate_json(json.dumps(kept | {"unheard_of": 1}))


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

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from isolane.calibrate.noise import hint
from isolane.report import test_data as data
from isolane.results.results import Trial


def run(folder: Path, change: Callable[[Trial], Trial]) -> Path:
    found = data.experiment(folder, data.NOISY, 3)
    trials = [change(trial) for trial in data.trials_of(found, 3)]
    return data.run_folder(folder / "run", repeats=3, trials=trials).path


def test_repeats_that_agree_need_no_hint(tmp_path: Path) -> None:
    assert hint(run(tmp_path, lambda trial: trial)) is None


@pytest.mark.parametrize(("factor", "noisy"), [(0.9, False), (0.6, True)])
def test_repeats_that_differ_are_named_with_how_much(
    tmp_path: Path, factor: float, noisy: bool
) -> None:
    def drifting(trial: Trial) -> Trial:
        if (trial.arm, trial.point, trial.repeat) != ("bridge", 1, 2):
            return trial
        slow = tuple(
            r.model_copy(update={"received_pps": factor * r.offered_pps}) for r in trial.routers
        )
        return trial.model_copy(update={"routers": slow})

    found = hint(run(tmp_path, drifting))
    if not noisy:
        assert found is None
        return
    assert found is not None
    assert found.startswith("hint: 2 of 27 throughputs differ by more than +/-8 % between repeats:")
    assert "on bridge at aggressor 0.5x, " in found
    assert "keep the host quiet" in found

"""Predictions of trials that a profile was not fitted to, with runs that the simulator made."""

from __future__ import annotations

from pathlib import Path

import pytest

from isolane.calibrate.check import predict
from isolane.calibrate.live import run_problem
from isolane.errors import SpecError
from isolane.reproduce.model import Options
from isolane.reproduce.workers import Pool
from isolane.results.folder import RunFolder
from isolane.results.invalid import ABOUT_CPU, InvalidKind
from isolane.run.runner import Run
from isolane.spec import parse_experiment
from isolane.trials.sim.sim_backend import SimBackEnd

pytestmark = pytest.mark.native

RUN = """\
isolane: 1
name: tiny
routers: [{name: a, path: direct}, {name: b, path: direct}]
load: {a: [0pps, 3Mpps], b: 200kpps}
trial: {duration: 50ms, warmup: 10ms, repeats: 2}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    spec = parse_experiment(RUN)
    back_end = SimBackEnd(spec, "veth", 1)
    Run(spec, back_end, RunFolder.create(tmp_path / "run", RUN, back_end.host())).execute()
    return tmp_path / "run"


def test_the_profile_that_made_a_run_predicts_it(folder: Path) -> None:
    with Pool(1) as pool:
        check = predict(folder, [0], {}, Options(), pool)
    assert check is not None
    # Nothing is predicted for a where it was silent.
    assert [(p.point[-1:], p.router) for p in check.predictions].count(("s", "a")) == 1
    assert len(check.predictions) == 3
    assert sum(p.trials for p in check.predictions) == 5, "trial 0 is left out"
    assert check.largest < 0.02
    assert f"largest {100 * check.largest:.1f} %" in check.sentence


def test_a_wrong_profile_is_far_off(folder: Path) -> None:
    with Pool(1) as pool:
        check = predict(folder, [0], {"costs.ip-forward.frame_ns": 5000.0}, Options(), pool)
        assert check is not None
        worst = max(check.predictions, key=lambda p: abs(p.error))
        assert (worst.router, worst.error < -0.5) == ("a", True)
        assert check.mean > 0.1
        assert predict(folder, range(99), {}, Options(), pool) is None


@pytest.mark.parametrize("kind", sorted([*ABOUT_CPU, InvalidKind.DISTURBED]))
def test_a_trial_that_does_not_show_the_routers_alone_is_no_measure(
    kind: InvalidKind, folder: Path, tmp_path: Path
) -> None:
    """It counts in a run, but a model of the host must not learn what others took."""
    whole = RunFolder.open(folder)
    marked = RunFolder.create(tmp_path / "marked", RUN, whole.host())
    for trial in whole.trials():
        invalid = (kind,) if trial.trial == 1 else trial.invalid
        marked.append_trial(trial.model_copy(update={"invalid": invalid}))
    with Pool(1) as pool:
        check = predict(marked.path, [0], {}, Options(), pool)
    assert check is not None
    assert sum(p.trials for p in check.predictions) < 5
    assert len(run_problem(marked.path, Options()).jobs) == len(whole.trials()) - 1
    with pytest.raises(SpecError, match="trial 1 gave no verdict, or was disturbed"):
        run_problem(marked.path, Options(), [1])

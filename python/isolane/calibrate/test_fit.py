"""Fits with the real simulator: costs that were used to make figures are found again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from isolane.calibrate.fit import Fit, Fitter
from isolane.calibrate.live import run_problem
from isolane.calibrate.papers import paper_problem
from isolane.calibrate.problem import Problem, Target
from isolane.calibrate.write import profile_text
from isolane.errors import SpecError
from isolane.reproduce.model import Options
from isolane.reproduce.trials import mean
from isolane.reproduce.workers import Pool
from isolane.run.folder import RunFolder
from isolane.run.runner import Run
from isolane.run.sim import SimBackEnd
from isolane.run.sim.catalogue import find_host
from isolane.run.sim.trial import run_trial
from isolane.spec import parse_experiment
from isolane.spec.hostmodel import ProfileData

pytestmark = [pytest.mark.native, pytest.mark.timeout(600)]

FREE = ("costs.guest.frame_ns", "host.wake_ns")


def made_up(truth: dict[str, float]) -> Problem:
    """Scenario I of Rathore, its figures made by the simulator with other costs."""
    problem = paper_problem("rathore2013", Options(scale=0.05))
    jobs = {
        key: own[:1]
        for key, own in problem.jobs.items()
        if key[1] == "vm-sriov" and key[0].endswith("scenario1-sim") and key[2] in {0, 3}
    }
    given = tuple(sorted(truth.items()))
    made = {
        key: [run_trial(replace(job, figures=given)) for job in own] for key, own in jobs.items()
    }
    targets = []
    for target in problem.targets:
        if target.figure.key in jobs:
            wanted = mean(made[target.figure.key], target.figure.router, target.figure.metric)
            assert wanted is not None
            targets.append(Target(target.figure, wanted, max(wanted, 0.01)))
    return Problem(problem.host, jobs, targets, "made-up figures", FREE)


def fitted(problem: Problem, rounds: int = 6) -> Fit:
    with Pool() as pool:
        return Fitter(problem, pool).run(rounds)


@pytest.mark.slow
def test_costs_that_made_the_figures_are_found_again() -> None:
    truth = {"costs.guest.frame_ns": 300.0, "host.wake_ns": 9000.0}
    problem = made_up(truth)
    fit = fitted(problem)
    assert fit.mean < 0.02
    assert fit.mean < sum(map(abs, fit.start_errors)) / len(fit.start_errors) / 3
    assert fit.values["costs.guest.frame_ns"] == pytest.approx(300, abs=20)
    again = fitted(problem)
    assert again.values == fit.values


def test_the_file_of_a_fit_is_a_profile_and_keeps_its_comments(tmp_path: Path) -> None:
    problem = paper_problem("ahn", Options(scale=0.05))
    values = {"costs.dom0-xen.frame_ns": 20_000.0}
    fit = Fit(values, (0.01, -0.03), (0.1, 0.1), 7, complete=True)
    text = profile_text(problem, "ahn", fit, "mine")
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    profile = find_host(file).profile
    assert profile.name == "mine"
    assert profile.costs["dom0-xen"].frame_ns == 20_000
    assert "mean absolute error 2.0 %, largest 3.0 %" in " ".join(profile.source.split())
    assert isinstance(profile, ProfileData)


def test_only_what_takes_part_is_free() -> None:
    problem = paper_problem("rathore2013", Options(scale=0.05))
    assert set(problem.free) <= set(problem.profile.fitted)
    native = next(own[0] for key, own in problem.jobs.items() if key[1] == "native")
    assert "costs.guest.frame_ns" not in problem.relevant(native)
    guest = next(own[0] for key, own in problem.jobs.items() if key[1] == "vm-sriov")
    assert "costs.guest.frame_ns" in problem.relevant(guest)
    assert "rings.vf.moderation_ns" not in problem.relevant(guest)


RUN = """\
isolane: 1
name: tiny
routers: [{name: a, path: direct}]
load: {a: [500kpps, 3Mpps]}
trial: {duration: 50ms, warmup: 10ms, repeats: 1}
"""


def test_a_run_folder_gives_targets(tmp_path: Path) -> None:
    spec = parse_experiment(RUN)
    back_end = SimBackEnd(spec, "veth", 1)
    folder = RunFolder.create(tmp_path / "run", RUN, back_end.host())
    Run(spec, back_end, folder).execute()
    problem = run_problem(tmp_path / "run", Options())
    assert {target.figure.metric for target in problem.targets} == {"throughput", "cpu"}
    assert len(problem.jobs) == 2
    with Pool(1) as pool:
        fit = Fitter(problem, pool).run(2)
    assert max(map(abs, fit.start_errors)) < 0.02  # the same profile made the figures
    with pytest.raises(SpecError, match="no trial of this run gave a verdict"):
        run_problem(tmp_path / "run", Options(), [99])

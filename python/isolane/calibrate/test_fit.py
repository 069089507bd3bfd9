"""Fits with the real simulator: costs that were used to make figures are found again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from isolane.calibrate.fit import Fit, Fitter
from isolane.calibrate.holdout import PARTS, held_out
from isolane.calibrate.identify import CostInterval, Identification, identify
from isolane.calibrate.live import job_of, run_problem
from isolane.calibrate.papers import paper_problem
from isolane.calibrate.problem import Problem, Target
from isolane.calibrate.write import profile_text
from isolane.errors import SpecError
from isolane.reproduce.model import Options
from isolane.reproduce.trials import mean
from isolane.reproduce.workers import Pool
from isolane.results.folder import RunFolder
from isolane.run.runner import Run
from isolane.spec import parse_experiment
from isolane.spec.hostmodel import ProfileData
from isolane.trials.sim.catalogue import find_host
from isolane.trials.sim.sim_backend import SimBackEnd
from isolane.trials.sim.trial import run_trial

pytestmark = pytest.mark.native

FREE = ("costs.guest.frame_ns", "host.cold_ns")
TRUTH = {"costs.guest.frame_ns": 300.0, "host.cold_ns": 15_000.0}


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


@pytest.fixture(scope="module")
def rathore() -> Problem:
    return paper_problem("rathore2013", Options(scale=0.05))


@pytest.fixture(scope="module")
def made() -> Problem:
    return made_up(TRUTH)


@pytest.mark.slow
@pytest.mark.parametrize(("starts", "rounds"), [(0, 4), (8, 2)])
def test_costs_that_made_the_figures_are_found_again(
    made: Problem, starts: int, rounds: int
) -> None:
    with Pool(1) as pool:
        fit = Fitter(made, pool, starts=starts).run(rounds)
    assert fit.mean < 0.02
    assert fit.mean < sum(map(abs, fit.start_errors)) / len(fit.start_errors) / 3
    assert fit.values["costs.guest.frame_ns"] == pytest.approx(TRUTH[FREE[0]], abs=20)
    if not starts:
        with Pool(1) as pool:
            told = identify(Fitter(made, pool), fit)
        for one in told.intervals:
            assert one.low is not None
            assert one.low < TRUTH[one.key]
            assert one.high is None or one.high > TRUTH[one.key]


@pytest.mark.slow
def test_neither_processes_nor_what_the_profile_holds_change_a_fit(made: Problem) -> None:
    key = next(key for key in made.jobs if key[2] == 0)
    targets = [target for target in made.targets if target.figure.key == key]
    small = replace(made, jobs={key: made.jobs[key]}, targets=targets, start="limits")
    profile = made.profile.replaced({FREE[0]: 400.0, FREE[1]: 20_000.0})
    other = replace(small, host=replace(made.host, profile=profile))
    fits = []
    for problem, jobs in ((small, 1), (other, 2)):
        with Pool(jobs) as pool:
            fits.append(Fitter(problem, pool, starts=4, seed=7).run(1))
    assert fits[0] == fits[1]
    assert fits[0].how == "--starts 4 --rounds 1 --seed 7"


def test_the_file_of_a_fit_is_a_profile_and_keeps_its_comments(tmp_path: Path) -> None:
    problem = paper_problem("ahn", Options(scale=0.05))
    values = {"costs.dom0-xen.frame_ns": 20_000.0}
    fit = Fit(values, (0.01, -0.03), (0.1, 0.1), 7, complete=True, how="--starts 2")
    text = profile_text(problem, "ahn", fit, "mine")
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    profile = find_host(file).profile
    assert profile.name == "mine"
    assert profile.costs["dom0-xen"].frame_ns == 20_000
    source = " ".join(profile.source.split())
    assert "mean absolute error 2.0 %, largest 3.0 %" in source
    assert "`isolane calibrate ahn --scale 0.05 --starts 2" in source
    assert isinstance(profile, ProfileData)


def test_only_what_takes_part_is_free(rathore: Problem) -> None:
    assert set(rathore.free) <= set(rathore.profile.fitted)
    native = next(own[0] for key, own in rathore.jobs.items() if key[1] == "native")
    assert "costs.guest.frame_ns" not in rathore.relevant(native)
    guest = next(own[0] for key, own in rathore.jobs.items() if key[1] == "vm-sriov")
    assert "costs.guest.frame_ns" in rathore.relevant(guest)
    assert "rings.vf.irq_ns" not in rathore.relevant(guest)


def test_blocks_are_looked_for_one_after_the_other_and_leave_nothing_out(rathore: Problem) -> None:
    blocks = rathore.blocks()
    assert sorted(key for block in blocks for key in block) == sorted(rathore.free)
    assert "costs.guest.frame_ns" in blocks[0]  # most figures are the guests'
    assert all("costs.guest.frame_ns" not in block for block in blocks[1:])


@pytest.mark.parametrize("name", ["rathore2013", "ahn"])
def test_the_figures_determine_every_cost_that_a_shipped_profile_calls_fitted(name: str) -> None:
    # To find the intervals takes minutes; test_identify.py holds how they are found.
    profile = find_host(name).profile
    for key, limits in profile.fitted.items():
        assert limits.interval is not None, key
        low, high = limits.interval
        value = profile.figure(key)
        assert low is not None, key
        assert high is not None, key
        assert value is not None
        assert limits.low <= low < value < high <= limits.high, key


def test_intervals_are_written_and_those_of_the_start_forgotten(tmp_path: Path) -> None:
    problem = paper_problem("ahn", Options(scale=0.05))
    values = {key: problem.profile.figure(key) or 0.0 for key in problem.free}
    fit = Fit(values, (0.01, 0.0, -0.03), (0.1,), 7, complete=True)
    first, *others = (
        CostInterval(key, value, value - 10, None, (0.0, 1e6), 1) for key, value in values.items()
    )
    found = Identification((first, *others), (True, False, True), 0.02, 9)
    file = tmp_path / "mine.yaml"
    file.write_text(profile_text(problem, "ahn", fit, "mine", found=found))
    profile = find_host(file).profile
    assert profile.fitted[first.key].interval == (first.low, None)
    source = " ".join(profile.source.split())
    assert "Over the 2 figures that respond to a cost: mean 2.0 %" in source
    file.write_text(profile_text(problem, file, fit, "mine"))
    assert find_host(file).profile.fitted[first.key].interval is None


@pytest.mark.parametrize("part", PARTS["rathore2013"])
def test_what_a_part_leaves_still_has_a_figure_for_every_cost(rathore: Problem, part: str) -> None:
    left_out = PARTS["rathore2013"][part]
    options = Options(scale=0.05)
    known = paper_problem("rathore2013", options, lambda figure: not left_out(figure))
    asked = paper_problem("rathore2013", options, left_out)
    assert len(asked.targets) >= 2
    assert len(known.targets) + len(asked.targets) == len(rathore.targets)
    assert known.free == rathore.free


def test_what_was_left_out_is_simulated_with_the_costs_of_the_rest(
    rathore: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = Options(scale=0.05)
    part = "figures 7 and 8"
    seen: list[int] = []

    def fit(fitter: Fitter, rounds: int) -> Fit:
        assert fitter.problem.start == "middle"  # the shipped start has seen what is left out
        seen.append(len(fitter.problem.targets) + rounds)
        values = dict.fromkeys(fitter.problem.free, 1000.0)
        return Fit(values, (0.25,), (0.5,), 0, complete=True)

    monkeypatch.setattr(Fitter, "run", fit)
    with Pool(1) as pool:
        found = held_out("rathore2013", part, options, pool, (0, 3))
    asked = paper_problem("rathore2013", options, PARTS["rathore2013"][part])
    assert seen == [len(rathore.targets) - 5 + 3]
    assert f"On {len(found.predicted)} figures that it was not fitted to ({part})" in found.sentence
    assert found.problem.command.endswith(f"--hold-out '{part}'")
    for target, error in found.predicted:
        own = asked.jobs[target.figure.key]
        given = tuple((key, 1000.0) for key in sorted(asked.profile.fitted))
        assert error == target.error([run_trial(replace(job, figures=given)) for job in own])
    assert (len(found.predicted), found.fitted_mean) == (5, 0.25)


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
    with pytest.raises(SpecError, match="trial 99 is not in this run; accepted: 0 to 1"):
        run_problem(tmp_path / "run", Options(), [99])


BUSY = """\
isolane: 1
name: busy
routers: [{name: a, path: direct, work: [none, cpu], traffic: {pattern: [poisson, constant]}}]
load: {a: 100kpps}
trial: {duration: 50ms, warmup: 10ms, repeats: 1}
"""


def test_each_trial_is_simulated_with_its_own_work_and_pattern(tmp_path: Path) -> None:
    spec = parse_experiment(BUSY)
    back_end = SimBackEnd(spec, "veth", 1)
    folder = RunFolder.create(tmp_path / "run", BUSY, back_end.host())
    Run(spec, back_end, folder).execute()
    for trial in folder.trials():
        (demand,) = job_of(spec, trial, Options()).setting.demands
        assert demand.router.work == ("none", "cpu")[trial.point]
        assert str(demand.router.pattern) == ("poisson", "constant")[trial.point]

"""Targets from a live run on this host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from isolane.analysis import wording
from isolane.analysis.delivery import is_undisturbed
from isolane.analysis.summary import ASIDE
from isolane.calibrate.problem import Problem, Target, targets_of
from isolane.errors import SpecError
from isolane.reproduce.model import Options
from isolane.reproduce.trials import TOTAL, Figure
from isolane.results.folder import EXPERIMENT, RunFolder
from isolane.results.results import RouterTrial, Trial
from isolane.results.resume import refuse_other_experiment
from isolane.spec import Experiment, PointRouter, load_experiment
from isolane.spec.demands import Demand
from isolane.spec.patterns import read_pattern
from isolane.trials.backend import Setting
from isolane.trials.sim.catalogue import find_host
from isolane.trials.sim.trial import TrialJob

PROFILE = "veth"
"""Profile that fits to live runs start from: Isolane's test bed of veth pairs."""


def run_problem(folder: Path, options: Options, wanted: Sequence[int] | None = None) -> Problem:
    """Return the problem of fitting a profile to the trials of a live run.

    Targets are the throughput of each router and the busy share of the device under test's cores.

    Parameters
    ----------
    folder
        A run folder.
    options
        Seed and profile to start from.
    wanted
        Numbers of the trials to fit to; default: all that gave a verdict.

    Raises
    ------
    SpecError
        If the folder holds no run, or one of these trials is not there, gave no verdict, or was
        disturbed.
    """
    run = RunFolder.open(folder)
    refuse_other_experiment(run)
    experiment = load_experiment(folder / EXPERIMENT)
    recorded = [trial for trial in run.trials() if trial.purpose not in ASIDE]
    _refuse_unusable(recorded, wanted or ())
    trials = [
        trial
        for trial in recorded
        if is_undisturbed(trial) and (wanted is None or trial.trial in wanted)
    ]
    if not trials:
        raise SpecError(
            f"{folder}: no trial of this run gave a verdict undisturbed, to be fitted to"
        )
    chosen = Options(options.seed, options.profile or PROFILE, options.scale)
    todo, figures = {}, []
    for trial in trials:
        key = (experiment.name, trial.arm, trial.trial)
        todo[key] = (job_of(experiment, trial, chosen),)
        figures += _figures(key, trial)
    targets = tuple(_weighted(target) for target in targets_of(figures))
    what = f"{len(trials)} trials of the run {folder.name}"
    return Problem(find_host(chosen.profile), todo, targets, what)


def _refuse_unusable(recorded: Sequence[Trial], wanted: Sequence[int]) -> None:
    """Refuse numbers of trials that do not exist or gave no verdict."""
    usable = {trial.trial for trial in recorded if is_undisturbed(trial)}
    known = {trial.trial for trial in recorded}
    for number in wanted:
        if number in usable:
            continue
        accepted = wording.ranges(sorted(usable)) or "none"
        what = "gave no verdict, or was disturbed" if number in known else "is not in this run"
        raise SpecError(f"--trials: trial {number} {what}; accepted: {accepted}")


def job_of(experiment: Experiment, trial: Trial, options: Options) -> TrialJob:
    """Return the simulation of a live trial: the load that its generator really sent."""
    routers = tuple(_router(experiment, trial, router, options.scale) for router in trial.routers)
    demands = tuple(
        Demand(point, router.generated_pps, router.load_x)
        for point, router in zip(routers, trial.routers, strict=True)
    )
    plan = experiment.trial
    label = f"{trial.purpose}/{trial.arm}/{trial.point}/{trial.repeat}/{options.seed}"
    window_ns = max(20_000_000, round(trial.window_s * 1e9 * options.scale))
    setting = Setting(demands, plan.warmup_ns, window_ns, label)
    return TrialJob(experiment, trial.arm, routers, setting, options.profile)


def _router(experiment: Experiment, trial: Trial, router: RouterTrial, scale: float) -> PointRouter:
    """Return a router as it was; times of its work become shorter as the window does."""
    points = sorted(experiment.points(), key=lambda point: point.index != trial.point)
    for point in points:  # a trial besides the rounds may be at none of them
        for member in point.routers:
            if member.name == router.router:
                return replace(
                    member,
                    work=router.work,
                    pattern=read_pattern(router.pattern),
                    work_from_ns=_scaled(member.work_from_ns, scale),
                    work_until_ns=_scaled(member.work_until_ns, scale),
                )
    msg = f"the experiment {experiment.name} has no router {router.router}"
    raise SpecError(msg)


def _scaled(time_ns: int | None, scale: float) -> int | None:
    return None if time_ns is None else round(time_ns * scale)


def _figures(key: tuple[str, str, int], trial: Trial) -> list[Figure]:
    found = [
        Figure(*key, router.router, "throughput", router.received_pps)
        for router in trial.routers
        if router.generated_frames
    ]
    busy = [1 - core.idle for core in trial.cores if core.part == "dut"]
    if busy:
        found.append(Figure(*key, TOTAL, "cpu", sum(busy) / len(busy)))
    return found


def _weighted(target: Target) -> Target:
    """CPU use counts less, because a live core also does work that no frame causes."""
    if target.figure.metric != "cpu":
        return target
    return Target(target.figure, target.value, target.scale, weight=0.3)

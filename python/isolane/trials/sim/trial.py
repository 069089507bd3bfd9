"""One simulated trial as a job that any process can do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from isolane.spec import Arm, Experiment, PointRouter
from isolane.trials.backend import Observation, Setting
from isolane.trials.sim.build import SimModel, build
from isolane.trials.sim.catalogue import SimHost, find_host
from isolane.trials.sim.engine import simulate_model
from isolane.trials.sim.observe import observe


@dataclass(frozen=True)
class TrialJob:
    """Everything that the result of a trial depends on."""

    experiment: Experiment
    arm: str
    routers: tuple[PointRouter, ...]
    setting: Setting
    profile: str | Path | None
    figures: tuple[tuple[str, float], ...] = ()
    """Figures of the profile that take other values, by their dotted keys."""

    def __hash__(self) -> int:
        return hash((self.arm, self.routers, self.setting, self.figures))


@lru_cache(maxsize=32)
def _host(profile: str | Path | None) -> SimHost:
    return find_host(profile)


def run_trial(job: TrialJob) -> Observation:
    """Simulate a trial."""
    model, found = run_job(job)
    return observe(model, job.setting, found)


def run_job(job: TrialJob) -> tuple[SimModel, dict[str, Any]]:
    """Simulate a trial, and return the model and all that the simulator found."""
    arm = next(arm for arm in job.experiment.resolved_arms() if arm.name == job.arm)
    host = _host(job.profile)
    if job.figures:
        host = replace(host, profile=host.profile.replaced(dict(job.figures)))
    return simulate(host, job.experiment, arm, list(job.routers), job.setting)


def simulate(
    host: SimHost,
    experiment: Experiment,
    arm: Arm,
    routers: list[PointRouter],
    setting: Setting,
) -> tuple[SimModel, dict[str, Any]]:
    """Return the model of a trial and what the simulator found.

    Raises
    ------
    KeyboardInterrupt
        If the user has interrupted it.
    MeasurementError
        If the simulator refuses the model: a mistake of ours, or of a path file.
    """
    model = build(host, experiment, arm, routers, setting)
    return model, simulate_model(model.json, f"arm {arm.name}")

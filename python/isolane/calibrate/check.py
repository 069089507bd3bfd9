"""Compares a fitted profile's predictions with trials that it was not fitted to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from isolane.analysis.delivery import is_undisturbed
from isolane.calibrate.live import PROFILE, job_of
from isolane.calibrate.naive import NaiveModel, beside_naive
from isolane.reproduce.model import Options, Workers
from isolane.reproduce.trials import Figure, Key, carry_out, value
from isolane.results.folder import EXPERIMENT, RunFolder
from isolane.results.results import Trial
from isolane.spec import load_experiment
from isolane.trials.backend import Observation
from isolane.trials.sim.trial import TrialJob, run_trial


@dataclass(frozen=True)
class Prediction:
    """Throughput of a router at a point, live and simulated: medians over the point's trials."""

    arm: str
    point: str
    router: str
    trials: int
    live_pps: float
    low_pps: float
    high_pps: float
    """Smallest and largest live value: how well the host itself repeats a measurement."""
    simulated_pps: float
    naive_pps: float | None = None
    """What the naive model predicts (:mod:`isolane.calibrate.naive`); None: it cannot."""

    @property
    def naive_error(self) -> float | None:
        """Relative error of the naive model."""
        return None if self.naive_pps is None else self.naive_pps / self.live_pps - 1

    @property
    def error(self) -> float:
        """Relative error, simulated minus live."""
        return (self.simulated_pps - self.live_pps) / self.live_pps


@dataclass(frozen=True)
class Check:
    """All predictions of a run."""

    predictions: tuple[Prediction, ...]
    run: str

    @property
    def mean(self) -> float:
        """Mean absolute error."""
        return sum(abs(p.error) for p in self.predictions) / len(self.predictions)

    @property
    def largest(self) -> float:
        """Largest absolute error."""
        return max(abs(p.error) for p in self.predictions)

    @property
    def sentence(self) -> str:
        """The sentence for the profile's `error`."""
        trials = sum(p.trials for p in self.predictions)
        both = [(p.error, p.naive_error) for p in self.predictions if p.naive_error is not None]
        beside = beside_naive(both)
        return (
            f"On {len(self.predictions)} throughputs (medians of {trials} trials) of the run "
            f"{self.run} that it was not fitted to, the mean absolute error is "
            f"{100 * self.mean:.1f} %, the largest {100 * self.largest:.1f} %.{beside}"
        )


def predict(
    folder: Path,
    fitted_to: Sequence[int],
    values: Mapping[str, float],
    options: Options,
    workers: Workers,
) -> Check | None:
    """Simulate the trials of a run that a profile was not fitted to, at the loads really sent.

    Parameters
    ----------
    folder
        The run's folder.
    fitted_to
        Numbers of the trials that the profile was fitted to; they are left out.
    values
        Fitted figures by their dotted keys.
    options
        Seed, and the profile that the fit started from.

    Returns
    -------
    None if no other trial of the measurement gave a verdict.
    """
    run = RunFolder.open(folder)
    experiment = load_experiment(folder / EXPERIMENT)
    chosen = Options(options.seed, options.profile or PROFILE, options.scale)
    figures = tuple(sorted(values.items()))
    recorded = run.trials()
    groups = _groups(experiment.name, recorded, fitted_to)
    if not groups:
        return None
    todo: dict[Key, tuple[TrialJob, ...]] = {
        key: tuple(replace(job_of(experiment, t, chosen), figures=figures) for t in trials)
        for key, trials in groups.items()
    }
    naive = NaiveModel(
        {
            (experiment.name, trial.arm, trial.trial): _total(trial)
            for trial in recorded
            if trial.trial in fitted_to and is_undisturbed(trial)
        }
    )
    found = carry_out(run_trial, todo, workers, "predictions")
    predictions = [
        prediction
        for key in sorted(found)  # all, unless it was interrupted
        for prediction in _predictions(key, groups[key], todo[key], found[key], naive)
    ]
    return Check(tuple(predictions), folder.name) if predictions else None


def _groups(
    name: str, recorded: Sequence[Trial], fitted_to: Sequence[int]
) -> dict[Key, list[Trial]]:
    """Return the trials to predict by experiment, arm and point."""
    groups: dict[Key, list[Trial]] = defaultdict(list)
    for trial in recorded:
        known = trial.trial in fitted_to or trial.purpose != "measure"
        if is_undisturbed(trial) and not known and trial.point is not None:
            groups[name, trial.arm, trial.point].append(trial)
    return groups


def _predictions(
    key: Key,
    trials: Sequence[Trial],
    jobs: Sequence[TrialJob],
    observations: Sequence[Observation],
    naive: NaiveModel,
) -> Iterator[Prediction]:
    """Yield what is predicted of each router of a point that received something."""
    for number, router in enumerate(trials[0].routers):
        live = [t.routers[number].received_pps for t in trials if t.routers[number].generated_pps]
        simulated = [
            rate
            for observation in observations
            if (rate := value(observation, router.router, "throughput")) is not None
        ]
        if live and median(live) > 0:
            yield Prediction(
                arm=key[1],
                point=str(trials[0].point_label),
                router=router.router,
                trials=len(live),
                live_pps=median(live),
                low_pps=min(live),
                high_pps=max(live),
                simulated_pps=median(simulated),
                naive_pps=_naive(naive, key, router.router, jobs),
            )


def _total(trial: Trial) -> float:
    return sum(router.received_pps for router in trial.routers if router.generated_frames)


def _naive(model: NaiveModel, key: Key, router: str, jobs: Sequence[TrialJob]) -> float | None:
    """Return what the naive model predicts, frames/s: the median over a point's trials."""
    # No trial that it learned from has this number, so it may use them all.
    figure = Figure(key[0], key[1], -1, router, "throughput", None)
    found = [model.predict(figure, job.setting.demands) for job in jobs]
    known = [rate for rate in found if rate is not None]
    return median(known) if known else None

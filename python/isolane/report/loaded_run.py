"""A run, read from its folder for a report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from isolane.analysis.arm_profiles import with_profiles
from isolane.analysis.capacity import kept_capacity
from isolane.analysis.summary import summarise
from isolane.analysis.work_effects import with_work_effect
from isolane.errors import NotSupported, SpecError
from isolane.results.folder import EXPERIMENT, RunFolder
from isolane.results.results import HostFacts, Summary, Trial
from isolane.results.resume import refuse_other_experiment, refuse_search
from isolane.results.series import TrialSeries
from isolane.results.trial_profile import TrialProfile
from isolane.spec import Experiment, load_experiment


@dataclass(frozen=True)
class Run:
    """One run, ready to be rendered."""

    summary: Summary
    host: HostFacts
    experiment: str
    """The experiment file as it was given."""
    trials: tuple[Trial, ...] = ()
    series: tuple[TrialSeries, ...] = ()
    """Empty in folders of older versions."""
    profiles: tuple[TrialProfile, ...] = ()
    """CPU profiles of trials; empty where none were asked for."""
    spec: Experiment | None = None
    """The experiment; None if this version does not read it any more."""

    @property
    def command(self) -> str:
        """The command that repeats the run."""
        return f"isolane run {EXPERIMENT}"


def read_run(path: Path) -> Run:
    """Read a run folder; one that was killed before its end is summarised again.

    Raises
    ------
    SpecError
        If `path` is not a run folder.
    MeasurementError
        If what is in it cannot be read.
    """
    folder = RunFolder.open(path)
    refuse_search(folder)
    refuse_other_experiment(folder)
    if folder.record.exists:
        folder.options()  # checks them: the report shows what they changed
    text = folder.experiment_text().decode(errors="replace")
    return Run(
        _summary(folder),
        folder.host(),
        text,
        tuple(_without_repeated(folder.trials())),
        tuple(folder.series()),
        tuple(folder.profiles()),
        _spec(folder),
    )


def _spec(folder: RunFolder) -> Experiment | None:
    try:
        return load_experiment(folder.path / EXPERIMENT)
    except (SpecError, NotSupported):
        return None  # an older version's file, which this one cannot read


def _without_repeated(trials: Sequence[Trial]) -> list[Trial]:
    """Leave out failed trials that a resumed run has done again."""
    done = {_key(trial) for trial in trials if trial.status != "failed"}
    return [trial for trial in trials if trial.status != "failed" or _key(trial) not in done]


def _key(trial: Trial) -> tuple[str, str, int, int]:
    return trial.purpose, trial.arm, trial.point, trial.repeat


def _summary(folder: RunFolder) -> Summary:
    known, trials = folder.summary(), _without_repeated(folder.trials())
    if known is not None and (known.complete or known.trials == len(trials)):
        return known if known.missing is not None else _with_missing(known, folder, trials)
    started = min((trial.started_unix_s for trial in trials), default=time.time())
    finished = max((t.started_unix_s + t.window_s for t in trials), default=started)
    summary = summarise(
        load_experiment(folder.path / EXPERIMENT),
        trials,
        known.drawings if known else (),
        known.started_unix_s if known else started,
        finished,
        complete=False,
        capacity=kept_capacity(folder),
        simulated=folder.host().simulated,
        method=folder.record.method(),
    )
    summary = with_profiles(summary, trials, folder.profiles())
    experiment = load_experiment(folder.path / EXPERIMENT)
    return with_work_effect(summary, experiment, trials, folder.series)


def _with_missing(known: Summary, folder: RunFolder, trials: Sequence[Trial]) -> Summary:
    """Add to the summary of an older version which points gave nothing, and judge it by that."""
    experiment = _spec(folder)
    if experiment is None:
        return known
    again = summarise(
        experiment, trials, (), 0.0, 0.0, complete=known.complete, capacity=known.capacity
    )
    return known.model_copy(
        update={
            "arms": again.arms,
            "missing": again.missing,
            "cells": again.cells,
            "verdict": again.verdict,
        }
    )

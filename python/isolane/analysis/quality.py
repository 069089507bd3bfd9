"""Judges the measuring itself: noise floor, lost trials, drift."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from isolane.analysis.drift import drift
from isolane.analysis.lost_trials import lost_trials
from isolane.analysis.noise_floors import noise_floors
from isolane.results.error_budget import ErrorBudget
from isolane.results.quality_models import Quality
from isolane.results.results import Trial, Verdict
from isolane.spec import Experiment

AGAIN = "(twin)"
"""Stands behind the name of an arm when its twin is shown."""


def quality(
    experiment: Experiment, trials: Sequence[Trial], judge: Callable[[Sequence[Trial]], Verdict]
) -> Quality:
    """Judge the trials of a run; `judge` gives the verdict on any of them."""
    arms = [arm.name for arm in experiment.resolved_arms()]
    invocations = 1 + max((trial.invocation for trial in trials), default=0)
    planned = len(experiment.points()) * experiment.trial.repeats * invocations
    threshold = experiment.trial.threshold
    return Quality(
        threshold=threshold,
        lost=lost_trials(arms, planned, trials, judge),
        noise=noise_floors(arms, trials, ErrorBudget(threshold)),
        drift=drift(trials),
    )


def as_arms(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials of twins as those of arms of their own, to show them."""
    return [
        trial.model_copy(update={"arm": f"{trial.arm} {AGAIN}", "purpose": "measure"})
        for trial in trials
        if trial.purpose == "twin"
    ]

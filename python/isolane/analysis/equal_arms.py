"""Compares two equal arms over and over: how often is noise taken for a difference?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from isolane.analysis.noise_floors import noise_floors
from isolane.results.error_budget import ErrorBudget
from isolane.results.quality_models import NoiseFigure
from isolane.results.results import Trial

ROUNDS = 5
"""Rounds of one comparison, the default of `trial.repeats`."""
ARMS = ("one", "other")
FIGURE: NoiseFigure = "delivered"
EXPERIMENT = """\
isolane: 1
name: equal-arms
routers: [{{name: victim, role: victim}}, {{name: noise, role: aggressor}}]
load: {{victim: 50kpps, noise: 1500kpps}}
arms: [{{name: one, path: {path}}}, {{name: other, path: {path}}}]
trial: {{duration: 100ms, warmup: 30ms, repeats: {rounds}, threshold: {threshold}}}
"""


@dataclass(frozen=True)
class Comparison:
    """Two equal arms, compared once."""

    difference: float
    """Between the medians, in parts of the frames offered."""
    floor: float

    @property
    def is_different(self) -> bool:
        """Whether the arms would be called different."""
        return self.difference > self.floor


def comparisons(trials: Sequence[Trial], threshold: float) -> Iterator[Comparison]:
    """Compare the arms once for each group of rounds that has a noise floor."""
    groups: dict[int, list[Trial]] = defaultdict(list)
    for trial in trials:
        if trial.status == "ok":
            groups[trial.repeat // ROUNDS].append(trial)
    for group in groups.values():
        floors = [
            found.floor
            for found in noise_floors(ARMS, group, ErrorBudget(threshold))
            if found.figure == FIGURE
        ]
        medians = [median(_delivered(group, arm)) for arm in ARMS if _delivered(group, arm)]
        if len(medians) == len(ARMS) and floors:
            yield Comparison(abs(medians[0] - medians[1]), max(floors))


def _delivered(trials: Sequence[Trial], arm: str) -> list[float]:
    return [
        trial.routers[0].received_frames / trial.routers[0].generated_frames
        for trial in trials
        if trial.arm == arm and trial.purpose == "measure" and trial.routers[0].generated_frames
    ]

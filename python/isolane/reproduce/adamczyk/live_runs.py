"""Runs of the paper's experiments with real frames, as the claims want them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from isolane.analysis.cells import usable
from isolane.errors import SpecError
from isolane.reproduce.adamczyk import runs
from isolane.reproduce.adamczyk.adamczyk_claims import RATES
from isolane.reproduce.adamczyk.guest_rows import Found
from isolane.reproduce.adamczyk.live_settings import ON_WIRE_BYTES, differences
from isolane.reproduce.adamczyk.runs import Course, Repeats, Series
from isolane.reproduce.adamczyk.spec import Variant
from isolane.reproduce.adamczyk.variant_model import FRAME_BYTES, HEADER_BYTES
from isolane.results.folder import EXPERIMENT, RunFolder
from isolane.results.results import HostFacts, Trial
from isolane.results.resume import refuse_search
from isolane.results.series import TrialSeries
from isolane.spec import Experiment, load_experiment

BIN_S, FINE_BIN_S = 1.0, 0.1
"""Widths of bins: for the claims, as in the simulation, and for the curves."""

_Key = tuple[str, int]
"""Arm and point."""

OF: Final[Mapping[str, Mapping[_Key, tuple[str, str]]]] = {
    "adamczyk2012-fig5-equal-rates": {
        (f"{arm}-{rate}", 0): (experiment, f"rate-{rate}")
        for arm, experiment in (("rate", "equal-rates"), ("improved", "equal-rates-improved"))
        for rate in RATES
    },
    "adamczyk2012-fig5-alone": {("rate-85", 0): ("equal-rates", "alone-85")},
    "adamczyk2012-fig6-unequal-rates": {
        (name, 0): ("unequal-rates", name) for name in ("late-40", "late-30")
    },
    "adamczyk2012-fig7-no-rate": {
        ("unmodified", 0): ("no-rate", "unmodified"),
        ("in-turn", 0): ("no-rate", "in-turn"),
        ("looks", 0): ("no-rate", "looks"),
        ("improved", 0): ("no-rate-improved", "improved"),
    },
    "adamczyk2012-fig8-connections": {
        ("unmodified", 0): ("connections", "two"),
        ("unmodified", 1): ("connections", "three"),
    },
    "adamczyk2012-fig9-disk": {
        (name, 0): ("disk", name) for name in ("unmodified", "improved", "protected")
    },
    "adamczyk2012-fig10-priorities": {("wrr", 0): ("priorities", "sweep")},
}
"""By name of the experiment file: which arm and point is which simulated experiment and variant."""


@dataclass(frozen=True)
class LiveRuns:
    """What runs gave, by simulated experiment and variant."""

    found: Found
    """In bins of the claims' width."""
    fine: Found
    """The same in narrow bins."""
    where: str
    """The hosts that they were made on, and when."""
    told: tuple[str, ...]
    """Each run: its folder, what it is of, how many trials, and how long."""


@dataclass(frozen=True)
class _Run:
    path: Path
    experiment: Experiment
    host: HostFacts
    groups: Mapping[_Key, Sequence[Trial]]
    series: Mapping[int, TrialSeries]

    def __str__(self) -> str:
        counts = sorted({len(trials) for trials in self.groups.values()})
        repeats = " or ".join(map(str, counts))
        window_s = self.experiment.trial.duration_ns / 1e9
        return f"{self.path} ({self.experiment.name}: {repeats} trials of {window_s:g} s each)"


def read(paths: Sequence[Path]) -> LiveRuns:
    """Read runs of the shipped experiments of this paper.

    Raises
    ------
    SpecError
        If one is no such run, is simulated, was made with other settings, is too short, or has the
        same as another one.
    """
    coarse: dict[str, dict[str, Repeats]] = {}
    fine: dict[str, dict[str, Repeats]] = {}
    where: dict[str, None] = {}
    read_runs = [_open(path) for path in paths]
    for run in read_runs:
        for key, trials in run.groups.items():
            name, variant = OF[run.experiment.name][key]
            if variant in coarse.get(name, {}):
                raise SpecError(f"{run.path}: another run that was given has {name}, too")
            coarse.setdefault(name, {})[variant] = _repeats(run, name, variant, trials, BIN_S)
            fine.setdefault(name, {})[variant] = _repeats(run, name, variant, trials, FINE_BIN_S)
            day = time.strftime("%Y-%m-%d", time.gmtime(trials[0].started_unix_s))
            where[f"{run.host.cpu}, {run.host.kernel}, {day}"] = None
    return LiveRuns(coarse, fine, "; ".join(where), tuple(map(str, read_runs)))


def _open(path: Path) -> _Run:
    folder = RunFolder.open(path)
    refuse_search(folder)
    host, experiment = folder.host(), load_experiment(path / EXPERIMENT)
    known = OF.get(experiment.name)
    if known is None:
        raise SpecError(
            f"{path}: this is a run of {experiment.name}; accepted: runs of {', '.join(OF)}"
        )
    if host.simulated is not None:
        raise SpecError(f"{path}: this run is simulated; accepted: runs with real frames")
    groups = usable(folder.trials(), [arm.name for arm in experiment.resolved_arms()])
    used = {key: trials for key, trials in groups.items() if key in known}
    if not used:
        arms = ", ".join(dict.fromkeys(arm for arm, _ in known))
        raise SpecError(f"{path}: no trial of arm {arms} counts")
    return _Run(path, experiment, host, used, {one.trial: one for one in folder.series()})


def _repeats(
    run: _Run, name: str, variant_name: str, trials: Sequence[Trial], width_s: float
) -> Repeats:
    simulated = runs.load_experiment(name)
    (variant,) = (one for one in simulated.variants if one.name == variant_name)
    for wrong in differences(run.experiment, variant, trials[0]):
        raise SpecError(
            f"{run.path}, arm {trials[0].arm}: {wrong}; accepted: the file as it is shipped"
        )
    _refuse_short(run, variant)
    courses = tuple(_course(run, trial, width_s) for trial in trials)
    bins = len(courses[0].mbps[trials[0].routers[0].router])
    update = {"duration": bins * width_s, "bin": width_s, "repeats": len(courses)}
    return Repeats(simulated.model_copy(update=update), variant, courses, ON_WIRE_BYTES)


def _refuse_short(run: _Run, variant: Variant) -> None:
    """Refuse windows in which too little of all guests together is to be seen."""
    last_s = max(guest.start for guest in variant.guests.values())
    shortest_s = last_s + runs.MIN_S
    window_s = run.experiment.trial.duration_ns / 1e9
    if window_s < shortest_s:
        raise SpecError(
            f"{run.path}: a window of {window_s:g} s is too short for what the paper says; "
            f"accepted: {shortest_s:g} s and more"
        )


def _course(run: _Run, trial: Trial, width_s: float) -> Course:
    series = run.series.get(trial.trial)
    if series is None:
        raise SpecError(f"{run.path}: trial {trial.trial} has no time series")
    begin_s, window_s = series.warmup_ns / 1e9, series.window_ns / 1e9
    edges = begin_s + width_s * np.arange(int(window_s / width_s + 1e-9) + 1)
    mbps: dict[str, Series] = {}
    for router in series.routers:
        ends = series.bin_ns / 1e9 * np.arange(len(router.received) + 1)
        until = np.interp(edges, ends, np.concatenate(([0.0], np.cumsum(router.received))))
        payload = FRAME_BYTES - HEADER_BYTES
        mbps[router.router] = np.diff(until) * payload * 8 / width_s / 1e6
    return Course(mbps, None)

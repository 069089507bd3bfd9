"""Runs of the paper's experiments with real frames, as the claims want them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from isolane.errors import SpecError
from isolane.reproduce.adamczyk import runs
from isolane.reproduce.adamczyk.guest_rows import Found
from isolane.reproduce.adamczyk.runs import Course, Repeats, Series
from isolane.reproduce.adamczyk.spec import VMS, Variant
from isolane.reproduce.adamczyk.variant_model import FRAME_BYTES, HEADER_BYTES
from isolane.run.cells import usable
from isolane.run.folder import EXPERIMENT, RunFolder
from isolane.run.results import HostFacts, Trial
from isolane.run.resume import refuse_search
from isolane.run.series import TrialSeries
from isolane.spec import WIRE_OVERHEAD_BYTES, Arm, Experiment, load_experiment
from isolane.spec.patterns import read_pattern

RATES: Final = (25, 30, 35, 40)
BIN_S, FINE_BIN_S = 1.0, 0.1
"""Widths of bins: for the claims, as in the simulation, and for the curves."""

ON_WIRE_BYTES: Final = FRAME_BYTES + WIRE_OVERHEAD_BYTES

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
        ("looks", 0): ("no-rate", "looks"),
        ("improved", 0): ("no-rate-improved", "improved"),
    },
    "adamczyk2012-fig8-connections": {
        ("unmodified", 0): ("connections", "two"),
        ("unmodified", 1): ("connections", "three"),
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


@dataclass(frozen=True)
class _Run:
    path: Path
    experiment: Experiment
    host: HostFacts
    groups: Mapping[_Key, Sequence[Trial]]
    series: Mapping[int, TrialSeries]


def read(paths: Sequence[Path]) -> LiveRuns:
    """Read runs of the shipped experiments of this paper.

    Raises
    ------
    SpecError
        If one is no such run, is simulated, was made with other settings, or has the same as
        another one.
    """
    coarse: dict[str, dict[str, Repeats]] = {}
    fine: dict[str, dict[str, Repeats]] = {}
    where: dict[str, None] = {}
    for run in map(_open, paths):
        for key, trials in run.groups.items():
            name, variant = OF[run.experiment.name][key]
            if variant in coarse.get(name, {}):
                raise SpecError(f"{run.path}: another run that was given has {name}, too")
            coarse.setdefault(name, {})[variant] = _repeats(run, name, variant, trials, BIN_S)
            fine.setdefault(name, {})[variant] = _repeats(run, name, variant, trials, FINE_BIN_S)
            day = time.strftime("%Y-%m-%d", time.gmtime(trials[0].started_unix_s))
            where[f"{run.host.cpu}, {run.host.kernel}, {day}"] = None
    return LiveRuns(coarse, fine, "; ".join(where))


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
    all_groups = usable(folder.trials(), [arm.name for arm in experiment.resolved_arms()])
    groups = {key: trials for key, trials in all_groups.items() if key in known}
    if not groups:
        raise SpecError(f"{path}: no trial of this run counts")
    return _Run(path, experiment, host, groups, {one.trial: one for one in folder.series()})


def _repeats(
    run: _Run, name: str, variant_name: str, trials: Sequence[Trial], width_s: float
) -> Repeats:
    simulated = runs.load_experiment(name)
    (variant,) = (one for one in simulated.variants if one.name == variant_name)
    arms = {arm.name: arm for arm in run.experiment.resolved_arms()}
    arm = arms[trials[0].arm]
    variant = _as_run(variant, trials[0])
    for wrong in _differences(arm, variant):
        raise SpecError(f"{run.path}, arm {arm.name}: {wrong}; accepted: the file as it is shipped")
    courses = tuple(_course(run, trial, width_s) for trial in trials)
    bins = len(courses[0].mbps[VMS[0]])
    update = {"duration": bins * width_s, "bin": width_s, "repeats": len(courses)}
    return Repeats(simulated.model_copy(update=update), variant, courses, ON_WIRE_BYTES)


def _as_run(variant: Variant, trial: Trial) -> Variant:
    """Return a variant whose guests begin when those of the run did."""
    starts = {one.router: read_pattern(one.pattern).timing.from_ns / 1e9 for one in trial.routers}
    guests = {
        vm: guest.model_copy(update={"start": starts.get(vm, 0.0)})
        for vm, guest in variant.guests.items()
    }
    return variant.model_copy(update={"guests": guests})


def _differences(arm: Arm, variant: Variant) -> Iterator[str]:
    """Say what an arm has otherwise than the variant that it stands for."""
    link_bps = runs.load_host(None).link_mbps * 1e6
    uplink = arm.uplink
    for what, has, wanted in (
        ("scheduler", uplink.scheduler, variant.scheduler),
        ("back_pressure", uplink.back_pressure, variant.look),
        ("uplink_rate", uplink.rate_bps, link_bps),
    ):
        if has != wanted:
            yield f"{what} is {has}, and the paper's {wanted}"
    for vm, guest in variant.guests.items():
        policy = arm.router(vm).policy
        rate_max = policy.rate_max.egress if policy is not None else None
        has_bps = rate_max.bps if rate_max is not None else None
        wanted_bps = guest.rate_max * 1e6 if guest.rate_max is not None else None
        if has_bps != wanted_bps:
            yield f"rate_max of {vm} is {has_bps} bit/s, and the paper's {wanted_bps}"


def _course(run: _Run, trial: Trial, width_s: float) -> Course:
    series = run.series.get(trial.trial)
    if series is None:
        raise SpecError(f"{run.path}: trial {trial.trial} has no time series")
    each = round(width_s * 1e9) // series.bin_ns
    if not each:
        raise SpecError(f"{run.path}: its trials are so long that bins are wider than {width_s} s")
    window = series.window()
    used = len(window) // each * each
    mbps: dict[str, Series] = {}
    for router in series.routers:
        payload = run.experiment.traffic_of(router.router).mean_frame_bytes - HEADER_BYTES
        frames = np.array([router.received[i] for i in window[:used]], dtype=float)
        mbps[router.router] = frames.reshape(-1, each).sum(axis=1) * payload * 8 / width_s / 1e6
    lost = sum(router.lost.get("egress", 0) for router in trial.routers)
    return Course(mbps, lost)

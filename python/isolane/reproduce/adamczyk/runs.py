"""Simulating variants, and the series of throughput that come of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import special

from isolane.reproduce.adamczyk.spec import Variant, XenExperiment, XenHost
from isolane.reproduce.adamczyk.variant_model import FRAME_BYTES, HEADER_BYTES, model
from isolane.reproduce.model import Options, Workers
from isolane.spec.loader import load_file, parse_file
from isolane.trials.sim.engine import simulate_model

CONFIDENCE: Final = 0.95
PACKAGE: Final = "isolane.reproduce.adamczyk"
MIN_S: Final = 4.0
"""Shorter ones, after the last guest has begun, show nothing, whatever the scale."""

Series = NDArray[np.float64]


@dataclass(frozen=True)
class Job:
    """One simulation; any process can do it."""

    host: XenHost
    experiment: XenExperiment
    variant: Variant
    seed: int


@dataclass(frozen=True)
class Course:
    """What one simulation gave."""

    mbps: Mapping[str, Series]
    """Throughput by guest, UDP payload received, Mbit/s; one value a bin."""
    lost_after_netback: int | None
    """Frames that were scheduled and found the output buffer full; None: not told."""


@dataclass(frozen=True)
class Repeats:
    """All simulations of a variant."""

    experiment: XenExperiment
    variant: Variant
    courses: tuple[Course, ...]
    counted_bytes: int = FRAME_BYTES
    """What a rate counts of a full datagram's frame."""

    def series(self, vm: str) -> Series:
        """Return throughput in time, shape (repeats, bins), Mbit/s."""
        return np.array([course.mbps[vm] for course in self.courses])

    def between(self, vm: str, begin_s: float, end_s: float = math.inf) -> Series:
        """Return the bins that lie within these times, shape (repeats, bins)."""
        width = self.experiment.bin
        first = math.ceil(begin_s / width - 1e-9)
        last = max(0.0, min(end_s, self.experiment.duration) / width)
        return self.series(vm)[:, first : math.floor(last + 1e-9)]


@dataclass(frozen=True)
class Interval:
    """A mean and its 95 % confidence interval; low and high are None of fewer than two values."""

    mean: float
    low: float | None
    high: float | None


def interval(values: Sequence[float] | Series) -> Interval:
    """Return the mean of repeats with its confidence interval (Student's t)."""
    data = np.asarray(values, dtype=float)
    mean = float(data.mean())
    if len(data) < 2:
        return Interval(mean, None, None)
    quantile = float(special.stdtrit(len(data) - 1, (1 + CONFIDENCE) / 2))
    half = quantile * float(data.std(ddof=1)) / math.sqrt(len(data))
    return Interval(mean, mean - half, mean + half)


def load_host(profile: str | Path | None) -> XenHost:
    """Return the paper's host, or the one in a file.

    Raises
    ------
    SpecError
        If the file cannot be read or is wrong.
    """
    if profile is not None:
        return load_file(Path(profile), XenHost, "a Xen host")
    return parse_file(_own("host"), "adamczyk/host.yaml", XenHost, "a Xen host")


def load_experiment(name: str, scale: float = 1.0) -> XenExperiment:
    """Return an experiment of this package; a smaller scale shortens and repeats it less."""
    it = parse_file(_own(name), f"adamczyk/{name}.yaml", XenExperiment, "a Xen experiment")
    if scale >= 1:
        return it
    starts = [guest.start for variant in it.variants for guest in variant.guests.values()]
    shorter = min(it.duration, max(MIN_S + max(starts), it.duration * scale))
    factor = shorter / it.duration
    variants = tuple(_shorter(variant, factor) for variant in it.variants)
    repeats = min(it.repeats, max(2, round(it.repeats * scale)))
    return it.model_copy(update={"duration": shorter, "repeats": repeats, "variants": variants})


def simulate(
    names: Sequence[str], options: Options, workers: Workers
) -> dict[str, dict[str, Repeats]]:
    """Simulate experiments; return what there is, by experiment and variant.

    A variant of which an interruption left no simulation is missing.
    """
    host = load_host(options.profile)
    jobs = [
        Job(host, experiment, variant, options.seed * 1000 + repeat)
        for experiment in (load_experiment(name, options.scale) for name in names)
        for variant in experiment.variants
        for repeat in range(experiment.repeats)
    ]
    order = sorted(range(len(jobs)), key=lambda i: _order_key(jobs[i], options.seed))
    done = workers.map(run, [jobs[i] for i in order], "adamczyk2012")
    courses = dict(zip(order, done, strict=False))
    found: dict[str, dict[str, Repeats]] = {}
    for i, job in enumerate(jobs):
        course = courses.get(i)
        if course is None:
            continue
        variants = found.setdefault(job.experiment.name, {})
        before = variants.get(job.variant.name, Repeats(job.experiment, job.variant, ()))
        variants[job.variant.name] = replace(before, courses=(*before.courses, course))
    return found


def _order_key(job: Job, seed: int) -> float:
    """Return where in the work a repeat stands, 0 to 1: all variants advance alike.

    So the time left can be told from what is done, and an interruption leaves some of everything.
    """
    return (job.seed - seed * 1000) / job.experiment.repeats


def run(job: Job) -> Course:
    """Simulate one variant once."""
    what = f"{job.experiment.name}, variant {job.variant.name}"
    results = simulate_model(model(job.host, job.experiment, job.variant, job.seed), what)
    bins = round(job.experiment.duration / job.experiment.bin)
    series: dict[str, Series] = {vm: np.zeros(bins) for vm in job.variant.guests}
    for flow in results["flows"]:
        series[flow["router"]] += _mbps(flow["bins"], bins, job.experiment.bin)
    lost = sum(point["dropped"] for point in results["places"] if point["name"] == "eth0")
    return Course(series, lost)


def _mbps(found: list[dict[str, Any]], bins: int, width_s: float) -> Series:
    data = np.zeros(bins)
    for i, entry in enumerate(found[:bins]):
        payload = entry["received_bytes"] - HEADER_BYTES * entry["received"]
        data[i] = payload * 8 / width_s / 1e6
    return data


def _shorter(variant: Variant, factor: float) -> Variant:
    disk = variant.disk and variant.disk.model_copy(
        update={"start": variant.disk.start * factor, "stop": variant.disk.stop * factor}
    )
    return variant.model_copy(update={"disk": disk})


def _own(name: str) -> str:
    return (resources.files(PACKAGE) / f"{name}.yaml").read_text(encoding="utf-8")

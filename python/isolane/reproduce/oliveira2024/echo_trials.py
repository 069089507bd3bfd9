"""Simulates trials of the paper, and what comes of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final, Literal

from isolane.errors import SpecError
from isolane.reproduce.model import Options, Workers
from isolane.reproduce.oliveira2024.echo_model import PING, EchoModel, echo_model
from isolane.reproduce.oliveira2024.load_cells import (
    DRIVERS,
    FAST_KPPS,
    SERVERS,
    SLOW_KPPS,
    Cell,
    router_of,
)
from isolane.reproduce.oliveira2024.testbed import CORES, PINGS, REPEATS
from isolane.trials.sim.catalogue import SimHost, find_host
from isolane.trials.sim.engine import simulate_model

PROFILE: Final = "oliveira2024"
MIN_REPEATS: Final = 2
MIN_PINGS: Final = 20
MIN_PPS: Final = 100.0
"""What ping sends at least, answered or not."""
SEEDS: Final = 2**63
"""Seeds that the simulator takes are below it."""
Quantity = Literal["rtt", "rtt_max", "response", "cpu"]


@dataclass(frozen=True)
class EchoJob:
    """One trial; any process can do it."""

    cell: Cell
    seed: int
    profile: str | Path
    pings: int
    rate_pps: float


@dataclass(frozen=True)
class EchoTrial:
    """What one trial gave."""

    rtt_ns: float
    """Median round-trip time, from when the sender's program runs; infinite where most echoes were
    lost. The time that it takes to wake the program is taken off by its median, here and below."""
    rtt_mean_ns: float
    """Mean of those that came back; infinite if none did."""
    rtt_max_ns: float
    """The longest of those that came back; NaN if none did."""
    response_ns: float | None
    """From the responder's kernel to its VM and back: difference of the medians of the time to
    either stamp; None where the kernel does not see echoes, or most were lost."""
    lost: int
    """Echoes that did not come back."""
    cpu: Mapping[str, float]
    """Use of each server's cores, 0 to 1."""


def run_echo(job: EchoJob) -> EchoTrial:
    """Simulate one trial."""
    window_ns = round(job.pings * 1e9 / job.rate_pps)
    model = echo_model(_host(job.profile), job.cell, job.seed, window_ns, job.rate_pps)
    return _trial(model, simulate_model(model.json, f"{job.cell}"))


@lru_cache(maxsize=4)
def _host(profile: str | Path) -> SimHost:
    return find_host(profile)


def _trial(model: EchoModel, found: Mapping[str, Any]) -> EchoTrial:
    (flow,) = [flow for flow in found["routers"] if flow["name"] == "main"]
    delay, begin_end = flow["delay"], found["window_ns"]
    # The simulator stamps an echo when it is due, ping when it runs.
    sent_ns = flow["captures"].get(PING, {}).get("p50_ns") or model.send_ns
    late_ns = max(0.0, sent_ns - model.send_ns)
    response = None
    if model.captures is not None:
        stamps = [flow["captures"].get(stage, {}).get("p50_ns") for stage in model.captures]
        response = None if None in stamps else float(stamps[1] - stamps[0])
    busy = dict.fromkeys(SERVERS, 0.0)
    for core in found["cores"]:
        busy[core["name"].partition(".")[0]] += core["busy_ns"]
    window = (begin_end[1] - begin_end[0]) * CORES
    return EchoTrial(
        rtt_ns=math.inf if delay["p50_ns"] is None else delay["p50_ns"] - late_ns,
        rtt_mean_ns=delay["sum_ns"] / delay["count"] - late_ns if delay["count"] else math.inf,
        rtt_max_ns=math.nan if delay["max_ns"] is None else delay["max_ns"] - late_ns,
        response_ns=response,
        lost=int(delay["lost"]),
        cpu={server: ns / window for server, ns in busy.items()},
    )


@dataclass(frozen=True)
class Found:
    """All trials, by cell."""

    trials: Mapping[Cell, Sequence[EchoTrial]]

    def values(self, cell: Cell, quantity: Quantity) -> list[float]:
        """Return a quantity of each trial, ms or percent of the sender server's cores.

        Shape (trials,); infinite where most echoes were lost, NaN where there is nothing.

        Raises
        ------
        KeyError
            If the cell was not simulated.
        """
        return [_value(trial, quantity) for trial in self.trials[cell]]

    def median(self, cell: Cell, quantity: Quantity = "rtt") -> float:
        """Return the median over trials; see `values`."""
        return median(self.values(cell, quantity))


def _value(trial: EchoTrial, quantity: Quantity) -> float:
    match quantity:
        case "rtt":
            return trial.rtt_ns / 1e6
        case "rtt_max":
            return trial.rtt_max_ns / 1e6
        case "response":
            return math.nan if trial.response_ns is None else trial.response_ns / 1e6
        case "cpu":
            return 100 * trial.cpu["sender"]


def simulate(
    slow: Iterable[Cell], fast: Iterable[Cell], options: Options, workers: Workers
) -> Found:
    """Simulate cells with echoes at 1 kpps, then those at 1 Mpps; return what there is.

    Of echoes at 1 Mpps ping has one under way at a time, so the next one leaves when the last one
    is back. The simulator has no such sender; it sends them as far apart as the cell's mean
    round-trip time at 1 kpps. Every cell of `fast` has to be, at 1 kpps, in `slow`.

    Raises
    ------
    SpecError
        If the profile lacks a cost.
    """
    _check(options.profile or PROFILE)
    found = _carry_out(dict.fromkeys(slow, SLOW_KPPS * 1e3), options, workers)
    rates = {}
    for cell in fast:
        before = replace(cell, echo_kpps=SLOW_KPPS)
        if before in found:
            rtt_ns = fmean(trial.rtt_mean_ns for trial in found[before])
            rates[cell] = min(FAST_KPPS * 1e3, max(MIN_PPS, 1e9 / rtt_ns))
    return Found(found | _carry_out(rates, options, workers))


def _check(profile: str | Path) -> None:
    host = find_host(profile)
    for driver in DRIVERS:
        host.path_of(router_of(driver, driver))
    if PING not in host.profile.costs:
        raise SpecError(
            f"{host.origin}: costs: cost {PING!r} is missing: {PROFILE} needs it; accepted: an "
            f"entry {PING} with frame_ns"
        )


def _carry_out(
    rates_pps: Mapping[Cell, float], options: Options, workers: Workers
) -> dict[Cell, tuple[EchoTrial, ...]]:
    """Simulate cells at these echo rates: all advance alike, so that each has some of its trials.

    A cell of which an interruption left no trial is missing.
    """
    repeats = max(MIN_REPEATS, round(REPEATS * options.scale))
    pings = max(MIN_PINGS, round(PINGS * options.scale))
    seeds = [(1000 * options.seed + repeat) % SEEDS for repeat in range(repeats)]
    jobs = [
        EchoJob(cell, seeds[repeat], options.profile or PROFILE, pings, rate_pps)
        for repeat in range(repeats)
        for cell, rate_pps in rates_pps.items()
    ]
    found: dict[Cell, tuple[EchoTrial, ...]] = {}
    for job, trial in zip(jobs, workers.map(run_echo, jobs, PROFILE), strict=False):
        found[job.cell] = (*found.get(job.cell, ()), trial)
    return found

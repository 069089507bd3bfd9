"""Drift of the machine's speed over a run, by the probes before its trials."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from isolane.results.quality_models import CoreProbe, Drift
from isolane.results.results import Trial

SHOWN = 0.05
"""A larger drift is told beside the verdict."""
MIN_TRIALS = 5
"""Fewer probes tell nothing about drift."""


def drift(trials: Sequence[Trial]) -> Drift | None:
    """Return how the speed of the DUT's cores drifted; None with too few probes."""
    probed = [trial for trial in trials if trial.probe]
    if len(probed) < MIN_TRIALS:
        return None
    fast, slow = tenths([unit_ns(trial.probe) for trial in probed])
    transfers = [ns for trial in probed if (ns := transfer_ns(trial.probe)) is not None]
    probes: list[CoreProbe] = [probe for trial in probed for probe in trial.probe]
    return Drift(
        size=slow / fast - 1,
        stalled=sum(probe.stalled for probe in probes) / len(probes),
        longest_stall_ns=max(probe.longest_stall_ns for probe in probes),
        transfer_ns=tenths(transfers) if transfers else None,
    )


def tenths(values: Sequence[float]) -> tuple[float, float]:
    """Return the 10th and the 90th percentile."""
    low, high = np.quantile(values, (0.1, 0.9))
    return float(low), float(high)


def unit_ns(probes: Sequence[CoreProbe]) -> float:
    """Return the CPU time of a unit of work, ns: the mean over the cores that were probed."""
    return sum(probe.unit_ns for probe in probes) / len(probes)


def transfer_ns(probes: Sequence[CoreProbe]) -> float | None:
    """Return a cache line's time from core to core and back, ns, mean; None where unknown."""
    times = [probe.transfer_ns for probe in probes]
    return sum(filter(None, times)) / len(times) if times and all(times) else None

"""Drift of the machine's speed over a run, and throughputs at one speed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median

import numpy as np

from isolane.analysis.delivery import LOST
from isolane.results.quality_models import CoreProbe, Drift, Normalised
from isolane.results.results import Trial

SHOWN = 0.05
"""A larger drift is shown, and throughputs are normalised."""
MIN_TRIALS = 5
"""Fewer probes tell nothing about drift."""


def drift(trials: Sequence[Trial]) -> Drift | None:
    """Return how the speed of the DUT's cores drifted; None with too few probes.

    A throughput is normalised by the speed of the core just before its trial: multiplied by the
    time that a unit of work took there, divided by the median of this time over the run. That is
    right where the core was the limit, so only routers that lost frames are normalised.
    """
    probed = [trial for trial in trials if trial.probe]
    if len(probed) < MIN_TRIALS:
        return None
    units = [unit_ns(trial.probe) for trial in probed]
    fast, slow = tenths(units)
    size = slow / fast - 1
    transfers = [ns for trial in probed if (ns := transfer_ns(trial.probe)) is not None]
    probes: list[CoreProbe] = [probe for trial in probed for probe in trial.probe]
    return Drift(
        size=size,
        stalled=sum(probe.stalled for probe in probes) / len(probes),
        longest_stall_ns=max(probe.longest_stall_ns for probe in probes),
        transfer_ns=tenths(transfers) if transfers else None,
        normalised=tuple(_normalised(probed, median(units))) if size > SHOWN else (),
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


def _normalised(trials: Sequence[Trial], usual_ns: float) -> Iterator[Normalised]:
    groups: dict[tuple[str, int, str], list[tuple[Trial, float, float, float]]] = defaultdict(list)
    for trial in trials:
        if trial.status == "ok" and trial.purpose == "measure":
            factor = unit_ns(trial.probe) / usual_ns
            for router in trial.routers:
                rate = router.received_pps
                groups[trial.arm, trial.point, router.router].append(
                    (trial, rate, rate * factor, router.loss_ratio or 0.0)
                )
    for (arm, point, name), found in groups.items():
        if median(loss for *_, loss in found) > LOST:
            yield Normalised(
                arm=arm,
                point=point,
                point_label=found[0][0].point_label,
                router=name,
                raw_pps=median(raw for _, raw, _, _ in found),
                normalised_pps=median(normal for _, _, normal, _ in found),
            )

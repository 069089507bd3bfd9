"""How often a run's intervals hold what later runs find, by simulation with a fixed seed.

The noise is that of the development machine's runs: factors between invocations of 18 %, and 8 %
between the repeats of one. Each simulated run has its interval from `isolane.stats.estimate`, and
is followed by 20 later runs of the same kind; the interval holds if the median of their medians
lies in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from isolane.stats import CONFIDENCE, MIN_UNITS, estimate, simultaneous
from isolane.stats.noise_model import HierarchicalNoise

from benches.common import Check, Options, Outcome, main

BETWEEN, WITHIN = 0.18, 0.08
"""Relative standard deviations between invocations, and between the repeats of one."""
LATER = 20
"""Later runs whose median an interval is to hold."""
ASKED = 0.90
RUNS = 100
"""Simulated runs in each round."""
SHAPES = ((1, 15), (3, 3), (5, 3), (6, 3), (8, 3), (10, 3), (10, 5), (20, 3), (30, 3))
"""Invocations, and repeats in each."""
POINTS = 4
"""Points under attack whose intervals a verdict wants to hold at once."""


@dataclass(frozen=True)
class Coverage:
    """What was found for one shape of runs."""

    invocations: int
    repeats: int
    said: float | None
    held: float
    """Share of the intervals that held the median of the later runs."""
    width: float
    """Median width of the intervals, relative to the median."""
    together: float
    """Share of the verdicts whose intervals all held the true median at once."""


def coverage(invocations: int, repeats: int, runs: int, seed: int) -> Coverage:
    """Simulate runs of one shape and count."""
    noise = HierarchicalNoise(BETWEEN, WITHIN, seed)
    origins = [number for number in range(invocations) for _ in range(repeats)]
    held, together, widths = 0, 0, []
    said = None
    for _ in range(runs):
        found = estimate(noise.run(invocations, repeats).ravel().tolist(), origins)
        assert found is not None, "there are values"
        later = [noise.run(invocations, repeats) for _ in range(LATER)]
        middle = np.median([np.median(np.median(run, axis=1)) for run in later])
        held += bool(found.low <= middle <= found.high)
        widths.append(found.high - found.low)
        said = found.coverage
        samples = [
            (noise.run(invocations, repeats).ravel().tolist(), origins) for _ in range(POINTS)
        ]
        together += all(b is not None and b.low <= 1 <= b.high for b in simultaneous(samples))
    width = float(np.median(widths))
    return Coverage(invocations, repeats, said, held / runs, width, together / runs)


def bench(options: Options) -> Outcome:
    """Simulate all shapes."""
    runs = options.rounds * RUNS
    found = [coverage(*shape, runs, seed) for seed, shape in enumerate(SHAPES)]
    rows = [
        (
            f"{it.invocations} x {it.repeats}",
            "-" if it.said is None else f"{100 * it.said:.2f} %",
            f"{100 * it.held:.1f} %",
            f"{100 * it.width:.0f} %",
            f"{100 * it.together:.1f} %",
        )
        for it in found
    ]
    enough = [it for it in found if it.invocations >= MIN_UNITS]
    worst = min(enough, key=lambda it: it.held)
    lowest = min((it for it in found if it.invocations > 1), key=lambda it: it.together)
    return Outcome(
        title=f"Intervals, {runs} simulated runs of each shape",
        columns=(
            "invocations x repeats",
            "coverage said",
            f"hold the median of {LATER} later runs",
            "width",
            f"{POINTS} points at once hold",
        ),
        rows=rows,
        checks=[
            Check(
                f"from {MIN_UNITS} invocations on, intervals hold the median of {LATER} later runs "
                f"in at least {100 * ASKED:.0f} %",
                f"{100 * worst.held:.1f} % ({worst.invocations} x {worst.repeats})",
                worst.held >= ASKED,
            ),
            Check(
                f"with several invocations, the intervals of {POINTS} points hold at once in at "
                f"least {100 * ASKED:.0f} %",
                f"{100 * lowest.together:.1f} % ({lowest.invocations} x {lowest.repeats})",
                lowest.together >= ASKED,
            ),
        ],
        notes=[
            f"noise: {100 * BETWEEN:.0f} % between invocations, {100 * WITHIN:.0f} % within",
            f"intervals aim at {100 * CONFIDENCE:.0f} %, and say where so few values cannot",
        ],
        data={"shapes": [vars(it) for it in found]},
    )


if __name__ == "__main__":
    main("coverage", bench, Options(rounds=10, seconds=1.0), __doc__ or "", live=False)

"""How often a run's intervals hold what later runs find, by simulation with a fixed seed.

Invocations differ by a factor of 18 %, the repeats of one by 8 %, as an audit of the project's own
runs found. Each simulated run has its interval from `isolane.stats.estimate`. Two questions are
asked of it: does it hold the median of 20 later runs of the same kind, and that of 20 later runs
with a single invocation each, whose median is less certain itself?
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from isolane.stats.intervals import BOOTSTRAP_FROM, CONFIDENCE, MIN_UNITS, estimate, simultaneous
from isolane.stats.noise_model import HierarchicalNoise

from benches.common import Check, Options, Outcome, main

BETWEEN, WITHIN = 0.18, 0.08
"""Relative standard deviations between invocations, and between the repeats of one."""
LATER = 20
"""Later runs whose median an interval is to hold."""
ASKED = 0.90
RUNS = 100
"""Simulated runs in each round."""
SHAPES = ((1, 15), (3, 3), (5, 3), (6, 3), (8, 3), (10, 3), (10, 5), (15, 3), (20, 3), (30, 3))
"""Invocations, and repeats in each."""
BOOTSTRAPPED = ((6, 3), (10, 3), (15, 3))
"""Shapes for which the bootstrap, which they do not use, is shown beside."""
POINTS = 4
"""Points under attack whose intervals a verdict wants to hold at once."""


@dataclass(frozen=True)
class Coverage:
    """What was found for one shape of runs."""

    invocations: int
    repeats: int
    bootstrap: bool
    said: float | None
    held: float
    """Share of the intervals that held the median of later runs of the same kind."""
    held_single: float
    """The same of later runs of a single invocation each."""
    width: float
    """Median width of the intervals, relative to the median."""
    together: float
    """Share of the verdicts whose intervals all held the true median at once."""

    @property
    def shape(self) -> str:
        """The shape, as the table shows it."""
        text = f"{self.invocations} x {self.repeats}"
        return f"{text}, bootstrap" if self.bootstrap else text


def later_median(noise: HierarchicalNoise, invocations: int, repeats: int) -> float:
    """Return the median of the medians of later runs."""
    units = np.median(noise.run(LATER * invocations, repeats), axis=1)
    return float(np.median(np.median(units.reshape(LATER, invocations), axis=1)))


def coverage(
    invocations: int, repeats: int, runs: int, seed: int, *, bootstrap: bool = False
) -> Coverage:
    """Simulate runs of one shape and count."""
    noise = HierarchicalNoise(BETWEEN, WITHIN, seed)
    origins = [number for number in range(invocations) for _ in range(repeats)]
    start = 2 if bootstrap else BOOTSTRAP_FROM
    held, single, together, widths = 0, 0, 0, []
    said = None
    for _ in range(runs):
        values = noise.run(invocations, repeats).ravel().tolist()
        found = estimate(values, origins, bootstrap_from=start)
        assert found is not None, "there are values"
        held += found.low <= later_median(noise, invocations, repeats) <= found.high
        single += found.low <= later_median(noise, 1, repeats) <= found.high
        widths.append(found.high - found.low)
        said = found.coverage
        samples = [
            (noise.run(invocations, repeats).ravel().tolist(), origins) for _ in range(POINTS)
        ]
        together += all(b is not None and b.low <= 1 <= b.high for b in simultaneous(samples))
    width = float(np.median(widths))
    shares = (held / runs, single / runs, width, together / runs)
    used = bootstrap or invocations >= BOOTSTRAP_FROM
    return Coverage(invocations, repeats, used, said, *shares)


def bench(options: Options) -> Outcome:
    """Simulate all shapes."""
    runs = options.rounds * RUNS
    found = [coverage(*shape, runs, seed) for seed, shape in enumerate(SHAPES)]
    beside = [coverage(*shape, runs, 50, bootstrap=True) for shape in BOOTSTRAPPED]
    rows = [
        (
            it.shape,
            "-" if it.said is None else f"{100 * it.said:.2f} %",
            f"{100 * it.held:.1f} %",
            f"{100 * it.held_single:.1f} %",
            f"{100 * it.width:.0f} %",
            f"{100 * it.together:.1f} %",
        )
        for it in (*found, *beside)
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
            "of single invocations",
            "width",
            f"{POINTS} points at once hold",
        ),
        rows=rows,
        checks=[
            Check(
                f"from {MIN_UNITS} invocations on, intervals hold the median of {LATER} later runs "
                f"in at least {100 * ASKED:.0f} %",
                f"{100 * worst.held:.1f} % ({worst.shape})",
                worst.held >= ASKED,
            ),
            Check(
                f"with several invocations, the intervals of {POINTS} points hold at once in at "
                f"least {100 * ASKED:.0f} %",
                f"{100 * lowest.together:.1f} % ({lowest.shape})",
                lowest.together >= ASKED,
            ),
        ],
        notes=[
            f"noise: {100 * BETWEEN:.0f} % between invocations, {100 * WITHIN:.0f} % within",
            f"intervals aim at {100 * CONFIDENCE:.0f} %, and say where so few values cannot",
        ],
        data={"shapes": [vars(it) for it in (*found, *beside)]},
    )


if __name__ == "__main__":
    main("coverage", bench, Options(rounds=10, seconds=1.0), __doc__ or "", live=False)

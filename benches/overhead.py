"""What a trial takes beside its frames, and what a test bed takes to be there and gone again."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from isolane.run.backend import Demand, Setting
from isolane.run.live.bench import LiveBench
from isolane.run.live.live_backend import LiveBackEnd
from isolane.spec import load_experiment
from isolane.testbed import clean, exclusive

from benches.common import Check, Options, Outcome, main, median, spread

EXPERIMENT = Path(__file__).parent.parent / "experiments" / "managed-neighbour.yaml"
WARMUP_NS, WINDOW_NS = 50_000_000, 150_000_000
TRIALS = 8
"""On each bed; the first one loads the generator and counts as part of the bed."""
RATE_PPS = 100_000.0
TRIAL_S, BED_S = 0.15, 0.5


@dataclass
class Times:
    """Seconds."""

    trial: list[float] = field(default_factory=list)
    """Of a trial and its probe, without warm-up and window."""
    bed: list[float] = field(default_factory=list)
    """Of building a bed and taking it down, with what its first trial took more than others."""


def bench(options: Options) -> Outcome:
    """Build each arm's bed in turn, round by round, with some short trials on it."""
    experiment = load_experiment(EXPERIMENT)
    point = experiment.points()[-1]
    arms = experiment.resolved_arms()
    found = {arm.name: Times() for arm in arms}
    setting = Setting(
        tuple(Demand(router, RATE_PPS, None) for router in point.routers), WARMUP_NS, WINDOW_NS
    )
    frames_s = (WARMUP_NS + WINDOW_NS) / 1e9
    with exclusive() as journal, closing(LiveBackEnd(experiment, journal)) as back_end:
        clean()
        for _ in range(options.rounds):
            for arm in arms:
                begun, trials = time.monotonic(), []
                with back_end.bench(arm, point.routers) as built:
                    there = time.monotonic()
                    live = cast("LiveBench", built)
                    for _ in range(TRIALS):
                        before = time.monotonic()
                        live.probe()
                        live.trial(setting)
                        trials.append(time.monotonic() - before - frames_s)
                    ended = time.monotonic()
                gone = time.monotonic()
                first = max(0.0, trials[0] - median(trials[1:]))
                found[arm.name].trial += trials[1:]
                found[arm.name].bed.append(there - begun + gone - ended + first)
    slowest = max(median(times.trial) for times in found.values())
    slowest_bed = max(median(times.bed) for times in found.values())
    return Outcome(
        title=f"Time beside the frames: medians of {options.rounds} rounds of {TRIALS} trials",
        columns=("arm", "a trial, s", "range", "a bed, s", "range"),
        rows=[
            (
                name,
                f"{median(times.trial):.3f}",
                spread(times.trial),
                f"{median(times.bed):.3f}",
                spread(times.bed),
            )
            for name, times in found.items()
        ],
        checks=[
            Check(f"a trial: at most {TRIAL_S:g} s", f"{slowest:.3f} s", slowest <= TRIAL_S),
            Check(f"a bed: at most {BED_S:g} s", f"{slowest_bed:.3f} s", slowest_bed <= BED_S),
        ],
        data={"seconds": {name: vars(times) for name, times in found.items()}},
    )


if __name__ == "__main__":
    main("overhead", bench, Options(rounds=5, seconds=1.0), str(__doc__))

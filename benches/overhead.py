"""What a trial takes beside its frames, and what a test bed takes to be there and gone again."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from isolane.spec import Arm, Experiment, load_experiment, parse_experiment
from isolane.spec.demands import Demand
from isolane.testbed import Journal, clean, exclusive
from isolane.trials.backend import Setting
from isolane.trials.live.bench import LiveBench
from isolane.trials.live.live_backend import LiveBackEnd

from benches.common import Check, Options, Outcome, main, median, spread

EXPERIMENT = Path(__file__).parent.parent / "experiments" / "managed-neighbour.yaml"
WARMUP_NS, WINDOW_NS = 30_000_000, 100_000_000
TRIALS = 8
"""On each bed; the first one loads the generator and counts as part of the bed."""
RATE_PPS, GUEST_PPS = 100_000.0, 2_000.0
GUESTS = """\
isolane: 1
name: guests
routers: [{{name: vr, count: {count}}}]
load: {{vr: 1kpps}}
arms: [{{name: guests-{count}, kind: vm, hypervisor: uml, path: tap}}]
"""
TRIAL_S, BED_S = 0.15, 0.5


@dataclass
class Times:
    """Seconds."""

    trial: list[float] = field(default_factory=list)
    """Of a trial and its probe, without warm-up and window."""
    bed: list[float] = field(default_factory=list)
    """Of building a bed and taking it down, with what its first trial took more than others."""


def measure(
    experiment: Experiment, arm: Arm, rate_pps: float, journal: Journal, found: Times
) -> None:
    """Build an arm's bed, with some short trials on it."""
    routers = experiment.points()[-1].routers
    demands = tuple(Demand(router, rate_pps, None) for router in routers)
    setting = Setting(demands, WARMUP_NS, WINDOW_NS)
    frames_s = (WARMUP_NS + WINDOW_NS) / 1e9
    begun, trials = time.monotonic(), []
    with (
        closing(LiveBackEnd(experiment, journal)) as back_end,
        back_end.bench(arm, routers) as built,
    ):
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
    found.trial += trials[1:]
    found.bed.append(there - begun + gone - ended + first)


def bench(options: Options) -> Outcome:
    """Measure the arms of the demo, and some with guests, in turn, round by round."""
    demo = load_experiment(EXPERIMENT)
    guests = [parse_experiment(GUESTS.format(count=count)) for count in (1, 8)]
    jobs = [(demo, arm, RATE_PPS) for arm in demo.resolved_arms()]
    jobs += [(each, each.resolved_arms()[0], GUEST_PPS) for each in guests]
    found = {arm.name: Times() for _, arm, _ in jobs}
    with exclusive() as journal:
        clean()
        for _ in range(options.rounds):
            for experiment, arm, rate_pps in jobs:
                measure(experiment, arm, rate_pps, journal, found[arm.name])
    of_demo = [found[arm.name] for arm in demo.resolved_arms()]
    slowest = max(median(times.trial) for times in of_demo)
    slowest_bed = max(median(times.bed) for times in of_demo)
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
            Check(
                f"a trial of the demo: at most {TRIAL_S:g} s",
                f"{slowest:.3f} s",
                slowest <= TRIAL_S,
            ),
            Check(
                f"a bed of the demo: at most {BED_S:g} s",
                f"{slowest_bed:.3f} s",
                slowest_bed <= BED_S,
            ),
        ],
        data={"seconds": {name: vars(times) for name, times in found.items()}},
    )


if __name__ == "__main__":
    main("overhead", bench, Options(rounds=5, seconds=1.0), str(__doc__))

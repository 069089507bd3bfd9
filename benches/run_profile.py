"""What `isolane run --cpu-profile` costs, and how much of the cores' work its clock meets."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from isolane.errors import MeasurementError
from isolane.results.folder import RunFolder

from benches.common import Check, Options, Outcome, main, median, spread

EXPERIMENT = Path(__file__).parent / "experiments" / "run-profile.yaml"
LIMIT_S = 600.0
RATES_HZ = (0, 99, 997)
MAX_COST = 0.005
NOISE, ENOUGH = 0.02, 3
"""Rounds that differ by more, or fewer rounds, cannot tell so small a cost."""
OVERLOAD = 2
"""Number of the point that no path can take."""
Where = tuple[str, int]
"""Arm and point."""


@dataclass
class Found:
    """What the runs at one rate found, a value a round."""

    pps: dict[Where, list[float]] = field(default_factory=lambda: defaultdict(list))
    worked: dict[Where, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Part of the time, by the CPU accountant; of interrupts as such without."""
    met: dict[Where, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Part of the samples that met work."""
    program: list[float] = field(default_factory=list)
    """Part of the time that taking samples took, without interrupts."""


def measure(rate_hz: int, found: Found) -> None:
    """Run the experiment once."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "run"
        words = [sys.executable, "-m", "isolane", "run", str(EXPERIMENT), "--output", str(target)]
        words += ["--cpu-profile", str(rate_hz)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        if done.returncode:
            raise MeasurementError(f"isolane run: {done.stderr.strip()}")
        run = RunFolder.open(target)
        summary, profiles = run.summary(), {one.trial: one for one in run.profiles()}
        trials = [t for t in run.trials() if t.status == "ok" and t.purpose == "measure"]
    assert summary is not None
    for cell in summary.cells:
        found.pps[cell.arm, cell.point].append(cell.throughput_pps.median)
    each: dict[Where, list[tuple[float, float]]] = defaultdict(list)
    for trial in trials:
        profile = profiles.get(trial.trial)
        if profile is None or profile.busy_share is None:
            continue
        busy = sum(stack.samples for stack in profile.stacks)
        all_samples = busy + profile.idle_samples
        each[trial.arm, trial.point].append((profile.busy_share, busy / max(1, all_samples)))
        found.program.append(profile.sampling_ns / profile.window_ns / len(profile.cores))
    for where, values in each.items():
        found.worked[where].append(fmean(worked for worked, _ in values))
        found.met[where].append(fmean(met for _, met in values))


def bench(options: Options) -> Outcome:
    """Run without samples and with them, in turns."""
    found = {rate: Found() for rate in RATES_HZ}
    for _ in range(options.rounds):
        for rate, one in found.items():
            measure(rate, one)
    rows, costs, widest = [], {}, 0.0
    for rate in RATES_HZ[1:]:
        one = found[rate]
        for where in sorted(one.pps):
            ratios = [
                with_samples / without
                for with_samples, without in zip(one.pps[where], found[0].pps[where], strict=False)
            ]
            if where[1] == OVERLOAD:
                costs[rate, where[0]] = 1 - median(ratios)
                widest = max(widest, max(ratios) - min(ratios))
            worked, met = one.worked[where], one.met[where]
            rows.append(
                (
                    f"{rate} Hz", where[0], str(where[1] + 1),
                    f"{100 * median(ratios):.2f}" if where[1] == OVERLOAD else "",
                    spread(ratios, 0.01, 1) if where[1] == OVERLOAD else "",
                    f"{100 * median(worked):.1f}", f"{100 * median(met):.1f}",
                    f"{100 * median(one.program):.3f}",
                )
            )  # fmt: skip
    worst = max(cost for (rate, _), cost in costs.items() if rate == RATES_HZ[1])
    told = options.rounds >= ENOUGH and widest <= NOISE
    check = Check(
        f"at {RATES_HZ[1]} Hz an overloaded router keeps {100 * (1 - MAX_COST):g} %",
        f"{100 * (1 - worst):.2f} % on the worst path; rounds differ by {100 * widest:.0f} %",
        worst <= MAX_COST if told else None,
    )
    return Outcome(
        "What a CPU profile of a run costs, and what its clock meets",
        ("rate", "arm", "point", "keeps, %", "range", "worked, %", "samples met, %", "program, %"),
        rows,
        [check],
        [
            "keeps: throughput, of that without samples in the same round.",
            "worked: by the CPU accountant, without interrupts as such; profiles keep to that.",
        ],
        {f"{rate} Hz": {f"{arm}, {point + 1}": each for (arm, point), each in one.pps.items()}
         for rate, one in found.items()},
    )  # fmt: skip


if __name__ == "__main__":
    main("run_profile", bench, Options(5, 0.2), __doc__ or "")

"""Noise: is a difference between two equal arms taken for a real one, and does the floor hold?

Two equal arms run round after round, with their twins. Every five rounds are one comparison: the
medians of the two arms differ, and the twins of the same rounds say which differences are noise.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from isolane.analysis.equal_arms import EXPERIMENT, ROUNDS, Comparison, comparisons
from isolane.errors import IsolaneError
from isolane.results.folder import RunFolder
from isolane.results.results import Trial
from isolane.run.runner import Run, Step
from isolane.spec import parse_experiment
from isolane.testbed import clean, exclusive
from isolane.trials.live.live_backend import LiveBackEnd

from benches.common import host, median

COUNT = 200
CALLED_DIFFERENT = 0.05


class TimeUpError(Exception):
    """The time that the bench was given has passed."""


def live(folder: Path, count: int, chosen: argparse.Namespace) -> list[Trial]:
    """Carry the rounds out on this host, as many as fit into the time."""
    text = EXPERIMENT.format(path=chosen.path, rounds=count * ROUNDS, threshold=chosen.threshold)
    experiment, end_s = parse_experiment(text), time.monotonic() + 60 * chosen.minutes

    def watch(step: Step) -> None:
        if step.done % 100 == 0:
            print(f"noise: {step.done} of {step.total} trials", file=sys.stderr, flush=True)
        if time.monotonic() > end_s:
            raise TimeUpError

    with exclusive() as journal, closing(LiveBackEnd(experiment, journal)) as back_end:
        clean()
        back_end.check(experiment.resolved_arms())
        run = RunFolder.create(folder, text, back_end.host())
        try:
            Run(experiment, back_end, run, watch, with_twins=True).execute()
        except TimeUpError:
            print("noise: the time is up", file=sys.stderr)
    return list(run.trials())


def told(found: Sequence[Comparison], trials: Sequence[Trial], count: int) -> dict[str, object]:
    """Return what was found, for people and for ``--json``."""
    different = sum(one.is_different for one in found)
    return {
        "comparisons": len(found),
        "asked_for": count,
        "called_different": different,
        "part_called_different": different / len(found) if found else None,
        "target": CALLED_DIFFERENT,
        "floor_median": median([one.floor for one in found]),
        "difference_median": median([one.difference for one in found]),
        "trials": len(trials),
        "trials_invalid": sum(trial.status == "no-verdict" for trial in trials),
        "host": host(),
    }


def command() -> int:
    """Run the bench; return its exit code (4: target missed, 3: too few comparisons)."""
    parser = argparse.ArgumentParser(prog="python -m benches.noise", description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT, help="default: %(default)s")
    parser.add_argument("--minutes", type=float, default=45, help="at most; default: %(default)s")
    parser.add_argument("--path", default="bridge", help="of both arms; default: %(default)s")
    parser.add_argument("--threshold", default="1%", help="trial.threshold; default: %(default)s")
    parser.add_argument("--folder", type=Path, help="keep the run here; default: nowhere")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")
    # `make bench` gives all benches the same options; this one measures in windows of 100 ms.
    parser.add_argument("--rounds", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    count = min(chosen.count, 1000 // ROUNDS)
    threshold = float(chosen.threshold.rstrip("%")) / 100
    try:
        with tempfile.TemporaryDirectory(prefix="isolane-noise-") as directory:
            trials = live(chosen.folder or Path(directory) / "run", count, chosen)
    except IsolaneError as error:
        print(f"noise: error: {error}", file=sys.stderr)
        return error.exit_code
    found = list(comparisons(trials, threshold))
    facts = told(found, trials, count)
    if chosen.json:
        print(json.dumps(facts, indent=2))
    else:
        for key, value in facts.items():
            print(f"{key}: {value}")
    if len(found) < count:
        print(f"not measured: {len(found)} of {count} comparisons could be made")
        return 3
    met = sum(one.is_different for one in found) <= CALLED_DIFFERENT * len(found)
    print(f"{'met' if met else 'missed'}: at most {CALLED_DIFFERENT:.0%} called different")
    return 0 if met else 4


if __name__ == "__main__":
    sys.exit(command())

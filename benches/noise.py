"""Noise: how often does a run call two equal arms different?

Two equal arms run round after round. Every five rounds are a run of their own: the answer that
`isolane run` gives of them, and its tests of delays and CPU time, say whether the arms differ.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from isolane.analysis.summary import summarise
from isolane.errors import IsolaneError
from isolane.results.folder import RunFolder
from isolane.results.results import Trial
from isolane.run.runner import Run, Step
from isolane.spec import Experiment, parse_experiment
from isolane.testbed import clean, exclusive
from isolane.trials.live.live_backend import LiveBackEnd

from benches.common import host

COUNT = 200
CALLED_DIFFERENT = 0.05
ROUNDS = 5
"""Rounds of one comparison, the default of `trial.repeats`."""
FIGURES = ("throughput", "p50", "p99", "CPU per frame")
EXPERIMENT = """\
isolane: 1
name: equal-arms
routers: [{{name: one}}, {{name: other}}]
load: {{one: 50kpps, other: 1500kpps}}
arms: [{{name: first, path: {path}}}, {{name: second, path: {path}}}]
trial: {{duration: 100ms, warmup: 30ms, repeats: {rounds}, threshold: {threshold}}}
"""
Comparison = dict[str, bool]
"""Of one group of rounds: by figure, whether the arms are called different."""


def comparisons(experiment: Experiment, trials: Sequence[Trial]) -> Iterator[Comparison]:
    """Compare the arms once for each group of rounds that is whole."""
    groups: dict[int, list[Trial]] = defaultdict(list)
    for trial in trials:
        groups[trial.repeat // ROUNDS].append(trial)
    for group in groups.values():
        found = summarise(experiment, group, (), 0.0, 0.0, complete=True)
        if found.answer is None or found.arm_tests is None:
            continue
        tests = found.arm_tests.differences
        rounds = [row.total_pps.units for row in found.answer.rows if row.total_pps]
        if rounds != [ROUNDS, ROUNDS]:
            continue  # trials were lost, or the time was up
        outcomes: Comparison = {"throughput": found.answer.use is not None}
        outcomes.update({each.figure: each.outcome == "different" for each in tests})
        yield outcomes


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
            Run(experiment, back_end, run, watch).execute()
        except TimeUpError:
            print("noise: the time is up", file=sys.stderr)
    return list(run.trials())


def told(found: Sequence[Comparison], trials: Sequence[Trial], count: int) -> dict[str, object]:
    """Return what was found, for people and for ``--json``."""
    compared = Counter(figure for one in found for figure in one)
    different = Counter(figure for one in found for figure, is_so in one.items() if is_so)
    return {
        "comparisons": len(found),
        "asked_for": count,
        "called_different": {figure: different[figure] for figure in FIGURES},
        "compared": {figure: compared[figure] for figure in FIGURES},
        "target": CALLED_DIFFERENT,
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
    try:
        with tempfile.TemporaryDirectory(prefix="isolane-noise-") as directory:
            trials = live(chosen.folder or Path(directory) / "run", count, chosen)
    except IsolaneError as error:
        print(f"noise: error: {error}", file=sys.stderr)
        return error.exit_code
    one_run = parse_experiment(
        EXPERIMENT.format(path=chosen.path, rounds=ROUNDS, threshold=chosen.threshold)
    )
    found = list(comparisons(one_run, trials))
    facts = told(found, trials, count)
    if chosen.json:
        print(json.dumps(facts, indent=2))
    else:
        for key, value in facts.items():
            print(f"{key}: {value}")
    if len(found) < count:
        print(f"not measured: {len(found)} of {count} comparisons could be made")
        return 3
    worst = max(sum(one.get(figure, False) for one in found) for figure in FIGURES)
    met = worst <= CALLED_DIFFERENT * len(found)
    print(f"{'met' if met else 'missed'}: at most {CALLED_DIFFERENT:.0%} called different")
    return 0 if met else 4


if __name__ == "__main__":
    sys.exit(command())

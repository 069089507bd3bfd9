"""The noisy neighbour, live and simulated: a profile fitted to three trials predicts all others."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from contextlib import closing
from pathlib import Path

from isolane.analysis.delivery import is_undisturbed
from isolane.analysis.summary import ASIDE
from isolane.calibrate.check import Check as Predicted
from isolane.calibrate.check import predict
from isolane.calibrate.fit import Fitter
from isolane.calibrate.live import run_problem
from isolane.reproduce.model import Options as Chosen
from isolane.reproduce.workers import Pool
from isolane.results.folder import RunFolder
from isolane.results.results import Trial
from isolane.run.runner import Run
from isolane.spec import parse_experiment
from isolane.testbed import clean, exclusive
from isolane.trials.live.live_backend import LiveBackEnd

from benches.common import Check, Options, Outcome, main, median

EXPERIMENT = Path(__file__).parent.parent / "experiments" / "noisy-neighbour.yaml"
WITHIN = 0.10


def live_run(folder: Path, repeats: int, seconds: float) -> list[Trial]:
    """Carry the experiment out on this host."""
    text = EXPERIMENT.read_text(encoding="utf-8")
    for old, new in (
        ("duration: 400ms", f"duration: {round(1000 * seconds)}ms"),
        ("repeats: 3", f"repeats: {repeats}"),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    experiment = parse_experiment(text, EXPERIMENT.name)
    with exclusive() as journal, closing(LiveBackEnd(experiment, journal)) as back_end:
        clean()
        back_end.check(experiment.resolved_arms())
        run = RunFolder.create(folder, text, back_end.host())
        Run(experiment, back_end, run).execute()
    return [trial for trial in run.trials() if trial.purpose not in ASIDE]


def threes(trials: list[Trial]) -> list[tuple[int, ...]]:
    """Choose what profiles are fitted to: of each repeat, each arm's trial at the highest load."""
    last = max(trial.point for trial in trials)
    found: dict[int, list[int]] = defaultdict(list)
    for trial in trials:
        if trial.purpose == "measure" and trial.point == last and is_undisturbed(trial):
            found[trial.repeat].append(trial.trial)
    arms = len({trial.arm for trial in trials})
    return [tuple(own) for _, own in sorted(found.items()) if len(own) == arms]


def bench(options: Options) -> Outcome:
    """Run, fit and predict."""
    checks: list[Predicted] = []
    with tempfile.TemporaryDirectory() as temporary, Pool(None) as pool:
        folder = Path(temporary) / "noisy-neighbour"
        chosen = Chosen()
        for numbers in threes(live_run(folder, options.rounds, options.seconds)):
            fit = Fitter(run_problem(folder, chosen, numbers), pool).run()
            check = predict(folder, numbers, fit.values, chosen, pool)
            if check is not None:
                checks.append(check)
    errors = [check.mean for check in checks]
    typical = median(errors)
    shown = sorted(checks, key=lambda check: check.mean)[len(checks) // 2] if checks else None
    rows = [
        (
            f"{p.arm}, {p.point}, {p.router}",
            f"{p.live_pps / 1e3:.1f}",
            f"{p.low_pps / 1e3:.1f} - {p.high_pps / 1e3:.1f}",
            f"{p.simulated_pps / 1e3:.1f}",
            f"{100 * p.error:+.1f}",
        )
        for p in (shown.predictions if shown else ())
    ]
    each = ", ".join(f"{100 * c.mean:.1f} ({100 * c.largest:.0f})" for c in checks)
    return Outcome(
        title="Throughput predicted by a profile fitted to three other trials (median of the fits)",
        columns=("arm, load, router", "live, kpps", "range", "simulated", "error, %"),
        rows=rows,
        checks=[
            Check(
                f"mean absolute error of throughput at most {100 * WITHIN:.0f} %",
                f"{100 * typical:.1f} %, median of {len(checks)} fits",
                typical <= WITHIN if checks else None,
            )
        ],
        notes=[f"mean (largest) error of each fit, %: {each}"],
        data={"fits": [{"mean": c.mean, "largest": c.largest} for c in checks]},
    )


if __name__ == "__main__":
    main("prediction", bench, Options(rounds=5, seconds=0.4), str(__doc__))

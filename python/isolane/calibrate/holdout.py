"""How well a profile predicts figures that it was not fitted to.

Parts of a paper's figures are left out in turn; the profile is fitted to the rest, from nothing,
and has to predict them: ``python -m isolane.calibrate.holdout rathore2013``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from isolane.calibrate.fit import Fitter
from isolane.calibrate.papers import paper_problem
from isolane.calibrate.problem import Target
from isolane.reproduce.model import Options, Workers
from isolane.reproduce.trials import Figure, carry_out
from isolane.reproduce.workers import Pool
from isolane.run.sim.trial import run_trial

LOADS: Final = frozenset({1, 3})
"""Points of scenario I that are left out where every other one is."""

PARTS: Final[Mapping[str, Mapping[str, Callable[[Figure], bool]]]] = {
    "rathore2013": {
        "figures 7 and 8": lambda f: "routers-" in f.experiment,
        "tables 1 and 2": lambda f: f.experiment.endswith("scenario1-sim"),
        "every other load of tables 1 and 2": lambda f: (
            f.experiment.endswith("scenario1-sim") and f.point in LOADS
        ),
    }
}
"""What is left out in turn, by paper."""


@dataclass(frozen=True)
class HeldOut:
    """A part that was left out, and how it was predicted."""

    part: str
    predicted: tuple[tuple[Target, float], ...]
    """Each figure of the part with its relative error."""
    fitted_mean: float
    """Mean absolute error of the figures that the profile was fitted to."""

    @property
    def mean(self) -> float:
        """Mean absolute error of what was predicted."""
        return sum(abs(error) for _, error in self.predicted) / len(self.predicted)

    @property
    def worst(self) -> tuple[Target, float]:
        """The figure that was predicted worst, and its error."""
        return max(self.predicted, key=lambda pair: abs(pair[1]))


def held_out(
    paper: str, part: str, options: Options, workers: Workers, effort: tuple[int, int]
) -> HeldOut:
    """Fit to all figures but a part of them, and predict that part.

    Parameters
    ----------
    paper
        Its name.
    part
        Which of `PARTS`.
    options
        Seed and simulated time.
    workers
        Processes that simulate.
    effort
        Starts and rounds of the fit; see :class:`isolane.calibrate.fit.Fitter`.
    """
    left_out = PARTS[paper][part]
    starts, rounds = effort
    known = paper_problem(paper, options, lambda figure: not left_out(figure))
    # Where the profile's own fit starts was found with all figures in sight.
    known = replace(known, start="middle")
    fit = Fitter(known, workers, starts=starts, seed=options.seed).run(rounds)
    asked = paper_problem(paper, options, left_out)
    given = tuple(sorted(fit.values.items()))
    todo = {key: [replace(job, figures=given) for job in own] for key, own in asked.jobs.items()}
    found = carry_out(run_trial, todo, workers, part)
    errors = tuple((target, target.error(found[target.figure.key])) for target in asked.targets)
    return HeldOut(part, errors, fit.mean)


def main() -> None:
    """Print a line for each part."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paper", choices=sorted(PARTS))
    parser.add_argument("--part", choices=sorted({part for own in PARTS.values() for part in own}))
    parser.add_argument("--starts", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--jobs", type=int)
    given = parser.parse_args()
    effort = (given.starts, given.rounds)
    options = Options(seed=given.seed, scale=given.scale)
    with Pool(given.jobs) as pool:
        for part in PARTS[given.paper] if given.part is None else [given.part]:
            found = held_out(given.paper, part, options, pool, effort)
            target, error = found.worst
            about = f"{target.figure.arm}, {target.figure.metric} of {target.figure.router}"
            print(
                f"{part}: {len(found.predicted)} figures, mean {100 * found.mean:.1f} %, largest "
                f"{100 * error:+.1f} % ({about} at point {target.figure.point}); the others "
                f"{100 * found.fitted_mean:.1f} %",
                flush=True,
            )


if __name__ == "__main__":
    main()

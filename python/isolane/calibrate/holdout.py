"""How well a profile predicts a paper's figures that it was not fitted to.

A part of them is left out; the profile is fitted to the rest, from nothing, and has to predict it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from isolane.calibrate.fit import Fit, Fitter, Round
from isolane.calibrate.naive import NaiveModel, beside_naive
from isolane.calibrate.papers import paper_problem
from isolane.calibrate.problem import Problem, Target
from isolane.errors import SpecError
from isolane.reproduce.model import Options, Workers
from isolane.reproduce.trials import Figure, carry_out
from isolane.trials.sim.trial import run_trial

LOADS: Final = frozenset({1, 3})
"""Points of scenario I that are left out when every other point is."""

PARTS: Final[Mapping[str, Mapping[str, Callable[[Figure], bool]]]] = {
    "rathore2013": {
        "figures 7 and 8": lambda f: "routers-" in f.experiment,
        "tables 1 and 2": lambda f: f.experiment.endswith("scenario1-sim"),
        "every other load of tables 1 and 2": lambda f: (
            f.experiment.endswith("scenario1-sim") and f.point in LOADS
        ),
    }
}
"""Parts of each paper's figures that can be left out."""


@dataclass(frozen=True)
class HeldOut:
    """A part that was left out, with the errors of its prediction."""

    part: str
    predicted: tuple[tuple[Target, float], ...]
    """Each figure of the part with its relative error."""
    problem: Problem
    fit: Fit
    """The problem that the profile was fitted to."""
    naive: tuple[float | None, ...] = ()
    """Relative error of the naive model for each figure of the part; None: it says nothing."""

    @property
    def fitted_mean(self) -> float:
        """Mean absolute error of the figures that the profile was fitted to."""
        return self.fit.mean

    @property
    def mean(self) -> float:
        """Mean absolute error of the predicted figures."""
        return sum(abs(error) for _, error in self.predicted) / len(self.predicted)

    @property
    def worst(self) -> tuple[Target, float]:
        """The figure that was predicted worst, and its error."""
        return max(self.predicted, key=lambda pair: abs(pair[1]))

    @property
    def sentence(self) -> str:
        """The sentence for the profile's `error`."""
        if not self.predicted:
            return ""
        target, error = self.worst
        both = [
            (own, other)
            for (_, own), other in zip(self.predicted, self.naive, strict=False)
            if other is not None
        ]
        beside = beside_naive(both)
        about = f"{target.figure.arm}, {target.figure.metric} of {target.figure.router}"
        return (
            f"On {len(self.predicted)} figures that it was not fitted to ({self.part}), the mean "
            f"absolute error is {100 * self.mean:.1f} %, the largest {100 * error:+.1f} % ({about} "
            f"at point {target.figure.point}).{beside}"
        )


def held_out(
    paper: str,
    part: str,
    options: Options,
    workers: Workers,
    effort: tuple[int, int],
    tell: Round = lambda _round, _rounds, _where, _mean, _largest: None,
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
    tell
        Is told of progress, as there.

    Raises
    ------
    SpecError
        If the paper has no such part.
    """
    parts = PARTS.get(paper, {})
    if part not in parts:
        accepted = ", ".join(f"'{name}'" for name in parts) or "none: no paper's but rathore2013's"
        raise SpecError(f"--hold-out {part}: not a part of {paper}'s figures; accepted: {accepted}")
    left_out = parts[part]
    starts, rounds = effort
    known = paper_problem(paper, options, lambda figure: not left_out(figure))
    # The start values of the profile's own fit were found with all figures known.
    known = replace(
        known,
        start="middle",
        what=f"{known.what} without {part}",
        command=f"{known.command} --hold-out '{part}'",
    )
    fit = Fitter(known, workers, starts=starts, seed=options.seed, tell=tell).run(rounds)
    asked = paper_problem(paper, options, left_out)
    given = tuple(sorted(fit.values.items()))
    todo = {key: [replace(job, figures=given) for job in own] for key, own in asked.jobs.items()}
    found = carry_out(run_trial, todo, workers, part)
    errors = tuple(
        (target, target.error(found[target.figure.key]))
        for target in asked.targets
        if target.figure.key in found  # all, unless it was interrupted
    )
    model = NaiveModel.learned(known.targets)
    naive = tuple(
        model.error(target, asked.jobs[target.figure.key][0].setting.demands)
        for target, _ in errors
    )
    return HeldOut(part, errors, known, fit, naive)

"""Least squares over simulations: costs that bring simulated figures close to given ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.stats import qmc

from isolane.calibrate.problem import Problem
from isolane.reproduce.model import Workers
from isolane.reproduce.trials import Key, carry_out
from isolane.run.backend import Observation
from isolane.run.sim.trial import TrialJob, run_trial

STEP = 0.03
"""Of a cost's plausible range: how far it is moved to see what it does. Smaller steps drown in the
grain of a simulation, whose frames are whole."""

NEAR = 0.1
"""Of a cost's plausible range: how far from the start points are drawn (standard deviation)."""

Vector = NDArray[np.float64]
Name = tuple[Key, tuple[tuple[str, float], ...]]
"""A trial with the costs that take part in it."""


@dataclass(frozen=True)
class Fit:
    """Fitted costs and what they lead to."""

    values: Mapping[str, float]
    errors: tuple[float, ...]
    """Relative error of each target, in their order."""
    start_errors: tuple[float, ...]
    """The same before the fit."""
    simulations: int
    complete: bool
    """False where it was interrupted: the best so far."""

    @property
    def mean(self) -> float:
        """Mean absolute error."""
        return float(np.mean(np.abs(self.errors)))

    @property
    def largest(self) -> float:
        """Largest absolute error."""
        return float(np.max(np.abs(self.errors)))


@dataclass
class Fitter:
    """Carries out a fit.

    Parameters
    ----------
    problem
        Targets, trials and limits.
    workers
        Processes that simulate.
    tolerance
        Errors beyond it count more and more, so that none stays large for the sake of the others.
    tell
        Is told of progress: rounds, mean and largest error.
    """

    problem: Problem
    workers: Workers
    tolerance: float = 0.08
    starts: int = 0
    """Other points to look at before, drawn within the limits: a simulation has cliffs (a ring that
    just overflows), and a descent from one side does not see the other."""
    seed: int = 1
    tell: Callable[[int, float, float], None] = lambda _round, _mean, _largest: None

    def __post_init__(self) -> None:
        self._known: dict[Name, tuple[Observation, ...]] = {}
        self._simulated = 0
        limits = [self.problem.profile.fitted[key] for key in self.problem.free]
        self._low = np.array([limit.low for limit in limits])
        self._range = np.array([limit.high for limit in limits]) - self._low
        self._best: tuple[float, Vector] | None = None
        self._rounds = 0

    def run(self, rounds: int = 12) -> Fit:
        """Fit; `rounds` limits how often the costs are improved.

        Raises
        ------
        ValueError
            If there is nothing to be fitted.
        """
        if not self.problem.free:
            msg = "no cost that the profile lists under `fitted` takes part in these trials"
            raise ValueError(msg)
        start = np.array([self._start(key) for key in self.problem.free])
        first = self._errors([start])[0]
        complete = True
        try:
            self._look_around(start)
            self._descend(rounds)
            self._polish()
        except KeyboardInterrupt:
            complete = False
        assert self._best is not None, "the first residuals are always computed"
        best = self._best[1]
        return Fit(
            values=self._values(best),
            errors=tuple(self._errors([best])[0]),
            start_errors=tuple(first),
            simulations=self._simulated,
            complete=complete,
        )

    def _look_around(self, start: Vector) -> None:
        """Look at points all over the limits, and near the start, and keep the best."""
        draw = np.random.default_rng(self.seed)
        wide = qmc.LatinHypercube(len(start), rng=draw).random(self.starts // 2)
        near = start + draw.normal(0, NEAR, (self.starts - len(wide), len(start)))
        self._try([start, *wide, *np.clip(near, 0, 1)])

    def _descend(self, rounds: int) -> None:
        assert self._best is not None, "_look_around tries the start at least"
        least_squares(
            self._residuals,
            np.clip(self._best[1], 1e-6, 1 - 1e-6),
            jac=self._jacobian,
            bounds=(0.0, 1.0),
            method="trf",
            max_nfev=rounds,
            xtol=1e-4,
            ftol=1e-4,
        )

    def _polish(self) -> None:
        """Move single costs while that helps: what a slope does not tell about steps and cliffs."""
        assert self._best is not None
        step = STEP
        while step >= STEP / 8:
            cost, best = self._best
            moves = step * np.vstack([np.eye(len(best)), -np.eye(len(best))])
            self._try([np.clip(best + move, 0.0, 1.0) for move in moves])
            if self._best[0] >= cost * (1 - 1e-3):
                step /= 2

    def _try(self, points: Sequence[Vector]) -> None:
        """Look at some points at once; the best is kept."""
        found = self._errors(points)
        for x, errors in zip(points, found, strict=True):
            cost = float(np.sum(self._weighted(errors) ** 2))
            if self._best is None or cost < self._best[0]:
                self._best = (cost, np.array(x))
        self._report()

    def _report(self) -> None:
        assert self._best is not None
        self._rounds += 1
        errors = np.abs(self._errors([self._best[1]])[0])
        self.tell(self._rounds, float(np.mean(errors)), float(np.max(errors)))

    def _start(self, key: str) -> float:
        limit, now = self.problem.profile.fitted[key], self.problem.profile.figure(key)
        assert now is not None, "the profile's validator has seen to it"
        return min(1.0, max(0.0, (now - limit.low) / (limit.high - limit.low)))

    def _values(self, x: Vector) -> dict[str, float]:
        """Return the costs, ns, rounded so that a file that holds them gives the same results."""
        found = self._low + self._range * x
        return {
            key: round(float(cost), 1) for key, cost in zip(self.problem.free, found, strict=True)
        }

    def _residuals(self, x: Vector) -> Vector:
        self._try([x])
        return self._weighted(self._errors([x])[0])

    def _weighted(self, errors: Vector) -> Vector:
        weights = np.array([target.weight for target in self.problem.targets])
        return np.asarray(weights * errors * (1 + (errors / self.tolerance) ** 2))

    def _jacobian(self, x: Vector) -> Vector:
        """Move each cost a step, into its range, and see what every target does."""
        steps = np.where(x + STEP <= 1.0, STEP, -STEP)
        moved = [x + np.eye(len(x))[i] * steps[i] for i in range(len(x))]
        here, *there = self._errors([x, *moved])
        columns = [
            (self._weighted(errors) - self._weighted(here)) / step
            for errors, step in zip(there, steps, strict=True)
        ]
        return np.stack(columns, axis=1)

    def _errors(self, points: Sequence[Vector]) -> list[Vector]:
        """Return the errors of all targets at each point; trials that nothing changes are kept."""
        wanted = [self._named(self._values(x)) for x in points]
        todo = {
            name: job for named in wanted for name, job in named.items() if name not in self._known
        }
        results = carry_out(run_trial, todo, self.workers, f"round {self._rounds + 1}")
        self._known |= results
        self._simulated += sum(map(len, results.values()))
        if self.workers.interrupted:
            raise KeyboardInterrupt
        return [self._of(named) for named in wanted]

    def _named(self, values: Mapping[str, float]) -> dict[Name, tuple[TrialJob, ...]]:
        found = {}
        for key, own in self.problem.jobs.items():
            figures = tuple((name, values[name]) for name in self.problem.relevant(own[0]))
            found[key, figures] = tuple(replace(job, figures=figures) for job in own)
        return found

    def _of(self, named: Mapping[Name, Sequence[TrialJob]]) -> Vector:
        by_key = {name[0]: self._known[name] for name in named}
        return np.array(
            [target.error(by_key[target.figure.key]) for target in self.problem.targets]
        )

"""Fits costs so that simulated figures come close to given ones, by least squares or a search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from isolane.calibrate.problem import Problem
from isolane.reproduce.model import Workers
from isolane.reproduce.trials import Key, carry_out
from isolane.trials.backend import Observation
from isolane.trials.sim.trial import TrialJob, run_trial

STEP = 0.03
"""Share of a cost's plausible range by which it is moved to see its effect. Smaller steps have no
effect that stands out, because a simulation has whole frames only."""

WIDEST, NARROWEST = 0.12, 0.004
"""Shares of a cost's plausible range: the steps of the search's second part."""

QUICK = 2
"""Repeats of each trial during a search."""

ELITE, DRAWS, SHRINK = 6, 10, 0.75
"""A search draws new points near so many of the best, so often, each time so much nearer."""

Vector = NDArray[np.float64]
Name = tuple[Key, int, tuple[tuple[str, float], ...]]
"""One repeat of a trial, with the costs that affect it."""


@dataclass(frozen=True)
class Fit:
    """Fitted costs and the errors that remain."""

    values: Mapping[str, float]
    errors: tuple[float, ...]
    """Relative error of each target, in their order."""
    start_errors: tuple[float, ...]
    """The same before the fit."""
    simulations: int
    complete: bool
    """False if the fit was interrupted; it then holds the best costs so far."""
    how: str = ""
    """The options of the command that repeats this fit."""

    @property
    def mean(self) -> float:
        """Mean absolute error."""
        return float(np.mean(np.abs(self.errors)))

    @property
    def largest(self) -> float:
        """Largest absolute error."""
        return float(np.max(np.abs(self.errors)))


Round = Callable[[int, int, str, float, float], None]
"""Called at each round of a fit: its number, the maximum, its name, the errors."""


@dataclass
class Fitter:
    """Carries out a fit.

    Without `starts`, least squares from where the problem starts, then single costs are moved while
    that helps. With them, a search: points all over the limits, one block of costs after the other
    (:meth:`isolane.calibrate.problem.Problem.blocks`), others nearer and nearer the best of them,
    then single costs. A simulation has cliffs (a ring that just overflows), and a descent from one
    side does not see the other. All points meet the same random numbers: they differ in costs only.

    Parameters
    ----------
    problem
        Targets, trials and limits.
    workers
        Processes that simulate; their number does not change the result.
    tolerance
        Errors above it count more and more, so that no error stays large for the sake of others.
    starts
        Points of a search within the limits of each block of costs; 0: no search.
    seed
        Where they are.
    repeats
        Repeats of each trial to simulate at most; None: all.
    known
        Results of simulations so far, which are not repeated.
    tell
        Is told of progress: rounds done, how many there are at most, where the fit is, in words,
        and the mean and largest error.
    """

    problem: Problem
    workers: Workers
    tolerance: float = 0.08
    starts: int = 0
    seed: int = 1
    repeats: int | None = None
    known: dict[Name, Observation] = field(default_factory=dict)
    tell: Round = lambda _round, _rounds, _where, _mean, _largest: None

    def __post_init__(self) -> None:
        limits = [self.problem.profile.fitted[key] for key in self.problem.free]
        self._low = np.array([limit.low for limit in limits])
        self._range = np.array([limit.high for limit in limits]) - self._low
        self._best: tuple[float, Vector] | None = None
        self._looked: Vector | None = None
        self._rounds = self._max_rounds = 0
        self._where = "start"

    def run(self, rounds: int = 12) -> Fit:
        """Fit; `rounds` limits how often all costs together, then single ones, are improved.

        Raises
        ------
        ValueError
            If there is nothing to be fitted.
        """
        if not self.problem.free:
            msg = "no cost that the profile lists under `fitted` takes part in these trials"
            raise ValueError(msg)
        start = np.array([self._start(key) for key in self.problem.free])
        first = self.errors([start])[0]
        self._max_rounds = 2 * rounds + (len(self.problem.blocks()) if self.starts else 0)
        complete = True
        try:
            if self.starts:
                start = self._look_around(start)
            self._try([start])
            if not self.starts:
                self._descend(rounds)
            self._polish(rounds)
        except KeyboardInterrupt:
            complete = False
        best = start if self._looked is None else self._looked
        best = best if self._best is None else self._best[1]
        return Fit(
            values=self._values(best),
            errors=tuple(self.errors([best])[0]),
            start_errors=tuple(first),
            simulations=self.simulations,
            complete=complete,
            how=f"--starts {self.starts} --rounds {rounds} --seed {self.seed}",
        )

    @property
    def simulations(self) -> int:
        """How many trials were simulated so far."""
        return len(self.known)

    def position(self, values: Mapping[str, float]) -> Vector:
        """Return where costs (ns) lie within their limits, from 0 to 1 each."""
        found = np.array([values[key] for key in self.problem.free])
        return np.asarray((found - self._low) / self._range)

    def _look_around(self, start: Vector) -> Vector:
        """Search the whole range within the limits, block by block, and return the best point."""
        draw = np.random.default_rng(self.seed)
        self.repeats = QUICK
        for number, block in enumerate(self.problem.blocks(), start=1):
            self._where = f"search, part {number} of {len(self.problem.blocks())}"
            axes = [self.problem.free.index(key) for key in block]
            found = self._at([start], axes, np.array([start[axes]]))
            found += self._at([start], axes, _spread(draw, self.starts, len(axes)))
            width = WIDEST
            for _ in range(DRAWS):
                elite = [x for _, x in sorted(found, key=_cost)[:ELITE]]
                count = max(2, self.starts // 4)
                bases = [elite[i % len(elite)] for i in range(count)]
                moves = draw.normal(0, width, (count, len(axes)))
                near = np.array([base[axes] for base in bases]) + moves
                found += self._at(bases, axes, np.clip(near, 0.0, 1.0))
                width *= SHRINK
            start = self._looked = min(found, key=_cost)[1]
            self._report(start)
        self.repeats = None
        return start

    def _at(
        self, bases: Sequence[Vector], axes: Sequence[int], values: Vector
    ) -> list[tuple[float, Vector]]:
        """Return points with other values on some axes, and the sum of squares at each."""
        points = []
        for i, value in enumerate(values):
            points.append(bases[i % len(bases)].copy())
            points[-1][axes] = value
        return list(zip(map(self._square, self.errors(points)), points, strict=True))

    def _descend(self, rounds: int) -> None:
        assert self._best is not None, "the start has been tried"
        evaluated = 0

        def residuals(x: Vector) -> Vector:
            nonlocal evaluated
            evaluated += 1
            self._where = f"all costs, round {evaluated} of at most {rounds}"
            self._try([x])
            self._report(x)
            return self.weighted(self.errors([x])[0])

        least_squares(
            residuals,
            np.clip(self._best[1], 1e-6, 1 - 1e-6),
            jac=self._jacobian,
            bounds=(0.0, 1.0),
            method="trf",
            max_nfev=rounds,
            xtol=1e-4,
            ftol=1e-4,
        )

    def _polish(self, rounds: int) -> None:
        """Move single costs as long as that helps, because slopes do not show steps and cliffs.

        A search also moves the costs of a block together, in drawn directions.
        """
        assert self._best is not None, "the start has been tried"
        draw = np.random.default_rng((self.seed, 1))
        steps = np.full(len(self._best[1]), STEP)
        for number in range(1, rounds + 1):
            self._where = f"single costs, round {number} of at most {rounds}"
            for axis in np.flatnonzero(steps >= NARROWEST):
                before = self._best[0]
                move = np.zeros(len(steps))
                move[axis] = steps[axis]
                here = self._best[1]
                self._try([np.clip(here + move, 0.0, 1.0), np.clip(here - move, 0.0, 1.0)])
                helped = self._best[0] < before * (1 - 1e-4)
                steps[axis] = min(2 * steps[axis], WIDEST) if helped else steps[axis] / 2
            for block in self.problem.blocks() if self.starts else ():
                axes = [self.problem.free.index(key) for key in block]
                points = np.repeat(self._best[1][None], 3 * len(axes), axis=0)
                wide = np.maximum(steps[axes], NARROWEST)
                points[:, axes] += draw.normal(0, 1, (len(points), len(axes))) * wide
                before = self._best[0]
                self._try(list(np.clip(points, 0.0, 1.0)))
                if self._best[0] < before:
                    steps[axes] = np.maximum(wide, STEP / 2)
            self._report(self._best[1])
            if np.all(steps < NARROWEST):
                break

    def _try(self, points: Sequence[Vector]) -> None:
        """Evaluate several points at once and keep the best."""
        for x, errors in zip(points, self.errors(points), strict=True):
            square = self._square(errors)
            if self._best is None or square < self._best[0]:
                self._best = (square, np.array(x))

    def _report(self, x: Vector) -> None:
        errors = np.abs(self.errors([x])[0])
        self._rounds += 1
        mean, largest = float(np.mean(errors)), float(np.max(errors))
        self.tell(self._rounds, self._max_rounds, self._where, mean, largest)

    def _start(self, key: str) -> float:
        limit, now = self.problem.profile.fitted[key], self.problem.profile.figure(key)
        assert now is not None, "the profile's validator has seen to it"
        if self.problem.start != "profile":
            given = limit.start if self.problem.start == "limits" else None
            now = (limit.low + limit.high) / 2 if given is None else given
        return min(1.0, max(0.0, (now - limit.low) / (limit.high - limit.low)))

    def _values(self, x: Vector) -> dict[str, float]:
        """Return the costs, ns, rounded so that a file that holds them gives the same results."""
        found = self._low + self._range * x
        return {
            key: round(float(cost), 1) for key, cost in zip(self.problem.free, found, strict=True)
        }

    def weighted(self, errors: Vector) -> Vector:
        """Return the residuals that a fit makes small: errors above the tolerance count more."""
        weights = np.array([target.weight for target in self.problem.targets])
        return np.asarray(weights * errors * (1 + (errors / self.tolerance) ** 2))

    def _square(self, errors: Vector) -> float:
        return float(np.sum(self.weighted(errors) ** 2))

    def _jacobian(self, x: Vector) -> Vector:
        """Move each cost by a step within its range, and return the change of every target."""
        steps = np.where(x + STEP <= 1.0, STEP, -STEP)
        moved = [x + np.eye(len(x))[i] * steps[i] for i in range(len(x))]
        here, *there = self.errors([x, *moved])
        columns = [
            (self.weighted(errors) - self.weighted(here)) / step
            for errors, step in zip(there, steps, strict=True)
        ]
        return np.stack(columns, axis=1)

    def errors(self, points: Sequence[Vector]) -> list[Vector]:
        """Return the errors of all targets at each point; unchanged trials are not repeated."""
        wanted = [self._named(self._values(x)) for x in points]
        todo = {
            name: (job,)
            for named in wanted
            for name, job in named.items()
            if name not in self.known
        }
        results = carry_out(run_trial, todo, self.workers, self._where)
        self.known |= {name: found[0] for name, found in results.items()}
        if self.workers.interrupted and len(results) < len(todo):
            raise KeyboardInterrupt
        return [self._of(named) for named in wanted]

    def _named(self, values: Mapping[str, float]) -> dict[Name, TrialJob]:
        found = {}
        for key, own in self.problem.jobs.items():
            figures = tuple((name, values[name]) for name in self.problem.relevant(own[0]))
            for repeat, job in enumerate(own[: self.repeats]):
                found[key, repeat, figures] = replace(job, figures=figures)
        return found

    def _of(self, named: Mapping[Name, TrialJob]) -> Vector:
        by_key: dict[Key, list[Observation]] = {}
        for name in named:
            by_key.setdefault(name[0], []).append(self.known[name])
        return np.array(
            [target.error(by_key[target.figure.key]) for target in self.problem.targets]
        )


def _cost(found: tuple[float, Vector]) -> float:
    return found[0]


def _spread(draw: np.random.Generator, count: int, axes: int) -> Vector:
    """Return points in the unit cube, each axis divided evenly (a Latin hypercube)."""
    cells = np.stack([draw.permutation(count) for _ in range(axes)], axis=1)
    return np.asarray((cells + draw.random((count, axes))) / count)

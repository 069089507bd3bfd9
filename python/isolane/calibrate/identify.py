"""What the figures say of each cost: which figures respond to it, and its interval.

The interval is that of the profile likelihood (Bates and Watts, Nonlinear Regression Analysis and
Its Applications, section 6.1): a cost is moved away from its fitted value, the other costs follow
so that the fit is as good as it can be, and the interval ends where the fit is worse than chance
explains. A side on which this does not happen within the cost's limits stays open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from scipy import special

from isolane.calibrate.fit import QUICK, STEP, WIDEST, Fit, Fitter, Vector

LEVEL: Final = 0.95
"""Confidence level of the intervals."""
RESPONSE: Final = 0.001
"""Relative change of a figure that counts as its response to a cost."""
NOISE_FLOOR: Final = 0.005
"""Relative error that a figure has in any case: simulations have whole frames, papers round."""
NOISE_ASSUMED: Final = 0.02
"""Relative error that is assumed where there are no more figures than costs to tell it from."""
STRIDES: Final = (STEP, 2 * STEP, WIDEST, 0.25, 0.5, 1.0)
"""How far a cost is moved, as shares of its plausible range. They bound the simulations, too."""
RIDGE: Final = 1e-6
"""Keeps costs that no figure tells apart from moving without end."""

State = Literal["determined", "at least", "at most", "not determined", "no effect"]


@dataclass(frozen=True)
class CostInterval:
    """What the figures say of one cost."""

    key: str
    """Dotted key in the profile."""
    value: float
    """The fitted cost, ns."""
    low: float | None
    """Lower end of its interval, ns; None: open, the figures exclude no smaller plausible cost."""
    high: float | None
    """Upper end, ns; None: open."""
    limits: tuple[float, float]
    """Plausible costs, ns."""
    figures: int
    """Figures that respond to it."""

    @property
    def state(self) -> State:
        """Whether the figures determine the cost, within its limits."""
        if not self.figures:
            return "no effect"
        if self.low is not None:
            return "at least" if self.high is None else "determined"
        return "not determined" if self.high is None else "at most"

    @property
    def at_limit(self) -> bool:
        """Whether the fit would go beyond the plausible costs if it might."""
        return self.value in self.limits


@dataclass(frozen=True)
class Identification:
    """What the figures of a fit say of its costs."""

    intervals: tuple[CostInterval, ...]
    informative: tuple[bool, ...]
    """For each target, in their order: whether it responds to any cost."""
    noise: float
    """Standard deviation of one residual of the fit, as the intervals take it: of relative errors,
    of which those above the fit's tolerance count more and more."""
    simulations: int

    def mean(self, errors: Sequence[float]) -> float:
        """Return the mean absolute error of the informative figures; NaN if there is none."""
        own = self._own(errors)
        return sum(own) / len(own) if own else float("nan")

    def largest(self, errors: Sequence[float]) -> float:
        """Return the largest absolute error of the informative figures; NaN if there is none."""
        return max(self._own(errors), default=float("nan"))

    def _own(self, errors: Sequence[float]) -> list[float]:
        return [abs(e) for e, told in zip(errors, self.informative, strict=True) if told]


def identify(fitter: Fitter, fit: Fit) -> Identification:
    """Move each cost of a fit, and see which figures respond and how far it may go.

    Parameters
    ----------
    fitter
        That carried out the fit. At most two repeats of each trial are simulated.
    fit
        Its result.

    Raises
    ------
    KeyboardInterrupt
        If the simulations are interrupted.
    """
    return _Search(fitter, fit).run()


@dataclass
class _Side:
    """One side of one cost's interval, while it is looked for."""

    axis: int
    sign: int
    inside: tuple[float, float] = (0.0, 0.0)
    """The last stride that was not too far, and how much worse the fit was there."""
    end: float | None = None
    """The stride where the interval ends."""
    closed: bool = False


class _Search:
    def __init__(self, fitter: Fitter, fit: Fit) -> None:
        self._fitter, self._fit = replace(fitter, repeats=QUICK), fit
        self._before = fitter.simulations
        self._x = self._fitter.position(fit.values)
        self._here = np.array([])
        self._jacobian = np.array([[]])
        self._told = np.array([])
        self._threshold = 0.0

    def run(self) -> Identification:
        count = len(self._x)
        changes = self._look()
        responds = np.abs(changes).max(axis=1) > RESPONSE  # cost x figure
        self._told = responds.any(axis=0)
        noise = self._noise(int(responds.any(axis=1).sum()))
        sides = [
            _Side(axis, sign) for axis in range(count) for sign in (-1, 1) if responds[axis].any()
        ]
        for number, stride in enumerate(STRIDES, start=1):
            self._tell(number)
            self._advance([side for side in sides if not side.closed], stride)
        ends = {(side.axis, side.sign): side.end for side in sides}
        intervals = tuple(
            self._interval(axis, ends, int(responds[axis].sum())) for axis in range(count)
        )
        told = tuple(bool(one) for one in self._told)
        return Identification(intervals, told, noise, self._fitter.simulations - self._before)

    def _tell(self, number: int) -> None:
        errors = [abs(error) for error in self._fit.errors]
        where = f"intervals, step {number} of at most {len(STRIDES)}"
        self._fitter.tell(number, len(STRIDES), where, float(np.mean(errors)), max(errors))

    def _look(self) -> Vector:
        """Return the change of each figure when single costs move (cost x move x figure)."""
        moves = (STEP, -STEP, WIDEST, -WIDEST)
        points, axes = [self._x], range(len(self._x))
        for axis in axes:
            for move in moves:
                points.append(self._x.copy())
                points[-1][axis] = min(1.0, max(0.0, self._x[axis] + move))
        here, *there = self._fitter.errors(points)
        self._here = self._fitter.weighted(here)
        shape = (len(self._x), len(moves), len(here))
        after = np.array([self._fitter.weighted(errors) for errors in there]).reshape(shape)
        where = np.array(points[1:]).reshape(len(self._x), len(moves), len(self._x))
        width = np.array([where[axis, 0, axis] - where[axis, 1, axis] for axis in axes])
        self._jacobian = ((after[:, 0] - after[:, 1]) / width[:, None]).T  # figure x cost
        return np.asarray(np.array(there).reshape(shape) - here)

    def _noise(self, costs: int) -> float:
        """Tell one figure's error from those of all, and set how much worse a fit may be."""
        free = int(self._told.sum()) - costs
        if free < 1:
            noise, quantile = NOISE_ASSUMED, special.chdtri(1, 1 - LEVEL)
        else:
            noise = max(NOISE_FLOOR, float(np.sqrt(self._square(self._here) / free)))
            quantile = special.fdtri(1, free, LEVEL)
        self._threshold = noise**2 * float(quantile)
        return noise

    def _square(self, residuals: Vector) -> float:
        return float(np.sum(residuals[self._told] ** 2))

    def _advance(self, sides: Sequence[_Side], stride: float) -> None:
        """Move each cost so far, the others with it and without, and close what went too far."""
        points = []
        for side in sides:
            alone = self._x.copy()
            alone[side.axis] = min(1.0, max(0.0, alone[side.axis] + side.sign * stride))
            points += [alone, self._followed(alone, side.axis)]
        if not points:
            return
        squares = [self._square(self._fitter.weighted(e)) for e in self._fitter.errors(points)]
        best = np.array(squares).reshape(-1, 2).min(axis=1) - self._square(self._here)
        for side, alone, worse in zip(sides, points[::2], np.maximum(best, 0.0), strict=True):
            self._judge(side, abs(alone[side.axis] - self._x[side.axis]), float(worse))

    def _followed(self, alone: Vector, axis: int) -> Vector:
        """Let the other costs follow by one Gauss-Newton step within their limits."""
        others = np.delete(np.arange(len(alone)), axis)
        told, slopes = self._told, self._jacobian
        moved = self._here[told] + slopes[told, axis] * (alone[axis] - self._x[axis])
        own = slopes[np.ix_(told, others)]
        ridge = RIDGE * np.eye(len(others))
        step = np.linalg.solve(own.T @ own + ridge, -own.T @ moved)
        followed = alone.copy()
        followed[others] = np.clip(self._x[others] + step, 0.0, 1.0)
        return followed

    def _judge(self, side: _Side, stride: float, worse: float) -> None:
        reached, so_far = side.inside
        if worse > self._threshold:  # the fit gets worse with the square of the way
            root = [np.sqrt(value) for value in (so_far, worse, self._threshold)]
            share = float((root[2] - root[0]) / (root[1] - root[0]))
            side.end, side.closed = reached + (stride - reached) * share, True
        elif stride <= reached:  # at the limit
            side.closed = True
        else:
            side.inside = (stride, worse)

    def _interval(
        self, axis: int, ends: dict[tuple[int, int], float | None], figures: int
    ) -> CostInterval:
        key = self._fitter.problem.free[axis]
        limits = self._fitter.problem.profile.fitted[key]
        wide, value = limits.high - limits.low, self._fit.values[key]
        low, high = ends.get((axis, -1)), ends.get((axis, 1))
        return CostInterval(
            key,
            value,
            None if low is None else round(float(value - low * wide), 1),
            None if high is None else round(float(value + high * wide), 1),
            (limits.low, limits.high),
            figures,
        )

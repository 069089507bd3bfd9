"""A model that knows nothing of hosts: everybody gets what he asks until the core is full.

A fit that is no better than this explains nothing. From a full core routers get their max-min fair
shares (Bertsekas and Gallager, Data Networks, section 6.5.2). Its only parameter, the capacity, is
the largest total throughput of the arm's other trials, so that no trial predicts itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from isolane.calibrate.problem import Target
from isolane.reproduce.trials import TOTAL, Figure, Key
from isolane.spec.demands import Demand


def max_min(demands: Sequence[float], capacity: float) -> list[float]:
    """Share out a capacity: nobody gets more than he asks, and nobody less than an equal share.

    Parameters
    ----------
    demands
        frames/s, of each router.
    capacity
        frames/s, of all of them together.

    Returns
    -------
    list of float
        frames/s, in the order of ``demands``.
    """
    shares = [0.0] * len(demands)
    left, waiting = capacity, sorted(range(len(demands)), key=lambda i: demands[i])
    while waiting:
        equal = left / len(waiting)
        number = waiting.pop(0)
        shares[number] = min(demands[number], equal)
        left -= shares[number]
    return shares


@dataclass(frozen=True)
class NaiveModel:
    """Total throughput of each trial that it may learn from, frames/s."""

    totals: Mapping[Key, float]

    @classmethod
    def learned(cls, targets: Sequence[Target]) -> NaiveModel:
        """Learn the capacities from the throughputs among some targets."""
        totals: dict[Key, float] = {}
        for target in targets:
            figure = target.figure
            if figure.metric == "throughput":
                whole = figure.router == TOTAL
                so_far = 0.0 if whole else totals.get(figure.key, 0.0)
                totals[figure.key] = so_far + target.value
        return cls(totals)

    def capacity(self, key: Key) -> float | None:
        """Return the largest total of the arm's other trials, frames/s; None if there is none.

        Trials of the same experiment come first: others may use more cores.
        """
        others = {other: total for other, total in self.totals.items() if other != key}
        same = [total for other, total in others.items() if other[:2] == key[:2]]
        of_arm = [total for other, total in others.items() if other[1] == key[1]]
        found = same or of_arm
        return max(found) if found and max(found) > 0 else None

    def predict(self, figure: Figure, demands: Sequence[Demand]) -> float | None:
        """Predict a throughput, frames/s, or a CPU use, a share of 1; None: it cannot.

        Parameters
        ----------
        demands
            What the trial's routers are offered.
        """
        capacity = self.capacity(figure.key)
        if capacity is None or figure.metric not in ("throughput", "cpu"):
            return None
        got = max_min([demand.offered_pps for demand in demands], capacity)
        own = [
            rate
            for demand, rate in zip(demands, got, strict=True)
            if figure.router in {demand.router.name, demand.router.group, TOTAL}
        ]
        return sum(own) if figure.metric == "throughput" else sum(own) / capacity

    def error(self, target: Target, demands: Sequence[Demand]) -> float | None:
        """Return the relative error of its prediction, as that of a simulated figure."""
        found = self.predict(target.figure, demands)
        return None if found is None else (found - target.value) / target.scale


def beside_naive(both: Sequence[tuple[float, float]]) -> str:
    """Return a sentence on errors of a profile and of the naive model; empty for none.

    Parameters
    ----------
    both
        Relative errors of the profile and of the naive model, for each figure that both predict.
    """
    if not both:
        return ""
    own, naive = (sum(map(abs, errors)) / len(both) for errors in zip(*both, strict=True))
    return (
        f" A model that knows only each arm's capacity has {100 * naive:.1f} % on {len(both)} of "
        f"them, where this profile has {100 * own:.1f} %."
    )

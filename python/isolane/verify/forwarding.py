"""Searches the maximum forwarding rate of one router alone (RFC 2285, 3.6.2). Pure.

A router that is flooded forwards less than it can: it spends CPU time on frames that it drops. So
the search begins with small loads, doubles them until the router no longer keeps up, and then looks
around the load at which it forwarded most.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

LOWEST = 1 / 32
"""First load, as a part of a flood."""
STEP = 2.0
KEEPS_UP = 0.9
"""A router that forwards less than this part of what it is offered no longer keeps up."""
AROUND: tuple[tuple[float, ...], ...] = ((0.8, 1.25), (0.9, 1.1))
"""Multiples of the best load so far that are tried next, twice."""
NEAR = (0.67, 0.8, 1.0, 1.25)
"""Multiples of the best load of a router of the same kind that are tried in place of a search."""
GIVE_UP = 2
"""Loads without a valid trial after which a search that has found nothing ends."""
CONFIRM = 2
"""Further trials at the best load; the median of all counts, or the luckiest would."""


class Forwarded(NamedTuple):
    """One trial of a router alone."""

    pps: float
    """Frames/s that it forwarded."""
    cpu: float | None
    """CPU time that it used, as a share of one core; None where it is not known."""


@dataclass(frozen=True)
class Alone:
    """What a router forwards alone, at best."""

    load_pps: float
    """Load at which it forwarded most, frames/s."""
    pps: float
    """Maximum forwarding rate: median of the trials at this load, frames/s."""
    per_core: float | None
    """Frames that it forwarded in a second of CPU time; None where this is not known."""


def max_forwarding_rate(
    trial: Callable[[float], Forwarded | None], flood_pps: float, near_pps: float | None = None
) -> Alone | None:
    """Search the load at which a router forwards most.

    Parameters
    ----------
    trial
        Offers the router a load in frames/s; None if no valid trial came about.
    flood_pps
        Highest load, frames/s.
    near_pps
        Load at which a router of the same kind forwarded most, frames/s; None: search from below.

    Returns
    -------
    Alone or None
        None without any valid trial.
    """
    search = _Search(trial)
    if near_pps is None:
        _double(search, flood_pps)
        rounds = AROUND
    else:
        rounds = (NEAR,)
    for factors in rounds:
        centre = search.best() if search.seen else near_pps
        for load in (factor * centre for factor in factors if centre is not None):
            if load <= flood_pps:
                search.offer(load)
    if not search.seen:
        return None
    load = search.best()
    for _ in range(CONFIRM):
        search.offer(load)
    cpu = [each.pps / each.cpu for each in search.seen[load] if each.cpu]
    return Alone(load, search.rate(load), median(cpu) if any(cpu) else None)


class _Search:
    """The trials of a search so far."""

    def __init__(self, trial: Callable[[float], Forwarded | None]) -> None:
        self._trial = trial
        self._in_vain = 0
        self.seen: dict[float, list[Forwarded]] = {}
        """Valid trials by load."""

    def offer(self, load: float) -> Forwarded | None:
        if not self.seen and self._in_vain >= GIVE_UP:
            return None
        found = self._trial(load)
        if found is None:
            self._in_vain += 1
        else:
            self.seen.setdefault(load, []).append(found)
        return found

    def rate(self, load: float) -> float:
        return median(each.pps for each in self.seen[load])

    def best(self) -> float:
        """Return the load at which the router forwarded most."""
        return max(self.seen, key=self.rate)


def _double(search: _Search, flood_pps: float) -> None:
    """Double the load from below until the router no longer keeps up."""
    load = LOWEST * flood_pps
    while True:
        found = search.offer(load)
        if load >= flood_pps or (found is not None and found.pps < KEEPS_UP * load):
            return
        load = min(flood_pps, STEP * load)

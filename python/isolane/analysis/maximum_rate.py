"""The maximum forwarding rate of a router: which offered load to try next, and what was found.

RFC 2285 defines two rates that are easily taken for each other. The *forwarding rate at maximum
offered load* (FRMOL, 3.6.1) is what comes through when as much as possible is offered. The *maximum
forwarding rate* (MFR, 3.6.2) is the highest of all forwarding rates, whatever load it takes. A
router that spends its time on frames that it drops later (receive livelock) has a FRMOL far below
its MFR; so the search comes from below, and looks closely around the best load.

Everything here is a function of the readings so far: it needs no clock and no host, and a run that
was interrupted goes on where it was.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

STEP: Final = 4.0
"""Ratio of the loads that are tried first."""
STEPS: Final = 3
"""How often the highest load is divided by `STEP`, unless even the lowest one loses frames."""
FLOOR_PPS: Final = 100.0
"""A router that loses frames at less is measured there."""
LOSSY: Final = 0.02
"""With less loss than this a router is not overloaded."""
ATTEMPTS: Final = 3
"""Invalid trials at one load after which it is left out."""
MAX_READINGS: Final = 40
"""Valid readings after which the best load counts as it is; some 15 are usual."""
MAX_INVALID: Final = 4 * ATTEMPTS
"""Invalid trials without a single valid one after which nothing more is tried."""
GENERATOR_MARGIN: Final = 0.95
"""Where the generator fell short, the next highest load is this share of what it sent."""


@dataclass(frozen=True)
class Reading:
    """What one trial told.

    Parameters
    ----------
    load_pps
        The offered load that was asked for, frames/s.
    rate_pps
        The forwarding rate, frames/s.
    valid
        False if the trial gave no verdict; its rate is not used.
    limit_pps
        What the generator sent, frames/s, if it fell short of the load; else None.
    """

    load_pps: float
    rate_pps: float
    valid: bool = True
    limit_pps: float | None = None


@dataclass(frozen=True)
class Span:
    """Where to look, and how closely.

    Parameters
    ----------
    max_pps
        The highest load to offer, frames/s.
    width
        Relative distance of neighbouring loads around the best one, at the end.
    confirm
        Fresh trials at the best load; only they count, because the best of many noisy readings is
        too good.
    min_pps
        No load below this, frames/s.
    """

    max_pps: float
    width: float = 0.03
    confirm: int = 3
    min_pps: float = FLOOR_PPS


@dataclass(frozen=True)
class Maximum:
    """The maximum forwarding rate, and the rate at maximum offered load."""

    load_pps: float
    """The offered load with the highest forwarding rate."""
    rates_pps: tuple[float, ...]
    """Forwarding rates of the trials at that load that count."""
    max_load_pps: float
    """The maximum offered load: the highest one with a valid trial."""
    max_load_rates_pps: tuple[float, ...]
    """Forwarding rates there (FRMOL)."""
    at_least: bool
    """Whether even the maximum offered load did not overload the router: a lower bound then."""
    valid: int
    """Number of trials with a verdict."""


def next_load(readings: Iterable[Reading], span: Span) -> float | None:
    """Return the load to try next, frames/s; None when the maximum is known.

    Parameters
    ----------
    readings
        All readings of one router in one arm so far, in the order of the trials.
    span
        Where to look.
    """
    known = _Known(readings, span)
    if known.invalid >= (MAX_READINGS if known.rates else MAX_INVALID):
        return None
    for load in known.ladder():
        if not known.closed(load):
            return load
    if not known.rates:
        return None
    best = known.best()
    refined = known.refined(best) if known.valid < MAX_READINGS else None
    if refined is not None:
        return refined
    missing = 1 + span.confirm - len(known.rates[best])
    wanted = missing > 0 and known.repeatable(best)
    return best if wanted and known.valid < MAX_READINGS + span.confirm else None


def maximum(readings: Sequence[Reading], span: Span) -> Maximum | None:
    """Return what the readings say, also before the search has ended; None without any valid one.

    Where all valid trials offered the same load, all of them count.
    """
    known = _Known(readings, span)
    if not known.rates:
        return None
    best = known.best()
    found = known.rates[best]
    chosen = len(known.rates) > 1 and len(found) > 1
    highest = max(known.rates)
    return Maximum(
        load_pps=best,
        rates_pps=tuple(found[1:] if chosen else found),
        max_load_pps=highest,
        max_load_rates_pps=tuple(known.rates[highest]),
        at_least=not known.loses(highest),
        valid=known.valid,
    )


class _Known:
    """The readings by load."""

    def __init__(self, readings: Iterable[Reading], span: Span) -> None:
        self.span = span
        self.rates: dict[float, list[float]] = {}
        self._invalid: dict[float, int] = {}
        self._limits: dict[float, list[float]] = {}
        for reading in readings:
            load = reading.load_pps
            if reading.valid:
                self.rates.setdefault(load, []).append(reading.rate_pps)
            else:
                self._invalid[load] = self._invalid.get(load, 0) + 1
                if reading.limit_pps is not None:
                    self._limits.setdefault(load, []).append(reading.limit_pps)
        self.valid = sum(len(rates) for rates in self.rates.values())
        self.invalid = sum(self._invalid.values())
        self._medians: Mapping[float, float] = {
            load: median(rates) for load, rates in self.rates.items()
        }

    def closed(self, load: float) -> bool:
        """Tell whether a load needs no trial: one was valid, or too many were not."""
        return load in self.rates or self._invalid.get(load, 0) >= ATTEMPTS

    def loses(self, load: float, share: float = LOSSY) -> bool:
        return self._medians[load] < (1 - share) * load

    def _highest(self) -> float:
        """Return the highest load that the generator can offer."""
        highest = self.span.max_pps
        for load, sent in self._limits.items():
            if load not in self.rates and self._invalid[load] >= ATTEMPTS:
                highest = min(highest, max(self.span.min_pps, GENERATOR_MARGIN * max(sent)))
        return highest

    def ladder(self) -> list[float]:
        """Return the loads to try first, from below; they begin where the router loses nothing."""
        top = self._highest()
        loads = [self.span.max_pps / STEP**step for step in range(STEPS, -1, -1)]
        found = [load for load in loads if self.span.min_pps <= load < top] + [top]
        while found[0] in self.rates and self.loses(found[0]):
            lower = found[0] / STEP
            if lower < self.span.min_pps:
                break
            found.insert(0, lower)
        return found

    def repeatable(self, load: float) -> bool:
        """Tell whether trials at a load are valid often enough to confirm what one has told."""
        return self._invalid.get(load, 0) < ATTEMPTS * len(self.rates[load])

    def best(self) -> float:
        """Return the load with the highest rate; of equally good ones the most often tried.

        A load at which hardly any trial is valid counts only if it is so everywhere: at the
        generator's limit one lucky trial would else be followed by many that tell nothing.
        """
        found = [load for load in self.rates if self.repeatable(load)] or list(self.rates)
        top = max(self._medians[load] for load in found)
        near = [load for load in found if self._medians[load] >= (1 - self.span.width) * top]
        return max(near, key=lambda load: (len(self.rates[load]), self._medians[load]))

    def refined(self, best: float) -> float | None:
        """Return a load between the best one and a neighbour; None if no better one can be there.

        A load below the best rate cannot have a better one, and where two loads both lose frames
        and have the same rate, the rate is taken to be the same between them.
        """
        width, rate = self.span.width, self._medians[best]
        low, high = self._plateau(best)
        gaps: list[tuple[float, float]] = []
        above = min((load for load in self.rates if load > high), default=None)
        if above is not None:
            gaps.append((high, above))
        if self.loses(low, width):
            below = max((load for load in self.rates if load < low), default=0.0)
            gaps.append((max(below, rate, self.span.min_pps), low))
        # Whatever the noise: the load at which losses begin is looked at closely.
        losing = min(
            (load for load in self.rates if load > rate and self.loses(load, width)), default=0.0
        )
        below = max((load for load in self.rates if load < losing), default=0.0)
        gaps.append((max(below, rate, self.span.min_pps), losing))
        wide = [gap for gap in gaps if gap[1] > (1 + width) * gap[0]]
        tried = [math.sqrt(low * high) for low, high in sorted(wide, key=_ratio, reverse=True)]
        return next((load for load in tried if not self.closed(load)), None)

    def _plateau(self, best: float) -> tuple[float, float]:
        """Return the lowest and highest of the loads around the best one with the same rate."""
        loads = sorted(self.rates)
        low = high = loads.index(best)
        while low > 0 and self._flat(loads[low - 1], best):
            low -= 1
        while high + 1 < len(loads) and self._flat(best, loads[high + 1]):
            high += 1
        return loads[low], loads[high]

    def _flat(self, low: float, high: float) -> bool:
        rates = self._medians[low], self._medians[high]
        same = min(rates) >= (1 - self.span.width) * max(rates)
        return same and self.loses(low, self.span.width)


def _ratio(gap: tuple[float, float]) -> float:
    return gap[1] / gap[0]

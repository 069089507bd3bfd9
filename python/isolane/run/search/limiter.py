"""What lets through no more though the routers' cores have time left: a shaper or a policer.

It has a bucket of tokens, and often a long queue. A trial that begins with a full bucket and an
empty queue forwards more than the limit until the one is empty and the other full: 10 ms of the
rate are 4 % of a trial of 250 ms, so a search would find rates that nobody can send for long.
Where a limiter is found, the warm-up of each trial begins with a load above the limit (it is
*primed*), for as long as it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, islice
from statistics import median
from typing import Final

from isolane.analysis.maximum_rate import LOSSY, Maximum
from isolane.errors import MeasurementError
from isolane.results.priming import Priming
from isolane.results.search_results import MAX_IDLE, FoundRate
from isolane.results.search_results import RateLimit as Limit
from isolane.run.search.options import SearchOptions
from isolane.run.search.trial_measurer import Tried
from isolane.spec import format_pps

FREE: Final = 0.2
"""A core that loses frames though it had more time left does not lose them for want of time. The
queues of one that has to wait for others overflow with less."""
BEHIND: Final = 0.9
"""Where so large a part of the lost frames was lost on the way out, routers had time for them."""
TRIALS: Final = 3
"""Trials at one load that show whether the rate is a limit's: that of a core differs by more."""
TRIES: Final = 6
"""Of so many trials, since one in which the machine paused loses frames elsewhere."""
SAME: Final = 0.01
DISTANCE: Final = 1.5
"""Where nobody knows the cores, or others use them: ratio of two loads of which equally much comes
through."""
FLOODS: Final = (4.0, 2.0)
"""Loads to prime with, over the limit: the highest that the cores can cope with."""
ROUNDS, LOWER = 9, 6
"""Pairs of trials with priming and without; so many of them have to differ."""
CHECK_NS: Final = 200_000_000
"""Priming of such a trial."""
LITTLE: Final = 1.1
"""A load of which no more may come through, over the limit."""
LIMIT_TRIALS, MAX_TRIALS = 5, 3
"""Trials above the limit, and at the maximum, that tell the rates there."""
MIN_NS: Final = 50_000_000
MAX_NS: Final = 800_000_000
"""A trial of 50 + 200 ms in which frames were lost has emptied the bucket in that time."""
FRAMES: Final = 2
"""What comes in a window may differ by so many frames for no reason but where the window lies."""
Primed = Callable[[float, int, Priming | None], Tried | None]
"""Carries out a trial at a load (frames/s) with a window (ns); None if it gives no verdict."""


def suspected(tried: Sequence[Tried]) -> Tried | None:
    """Return the trial that tells best of a limiter: with most time left, or most lost behind it.

    None if none does. Where no core is the routers' (an external router), two loads of which
    equally much came through speak for a limit.
    """
    lossy = sorted(filter(_may_be_limited, tried), key=_load)
    known = [one for one in lossy if one.free is not None]
    if known:
        return max(known, key=lambda one: (one.lost_behind >= BEHIND, one.free or 0.0))
    flat = [
        low
        for low, high in combinations(lossy, 2)
        if _are_distant(low, high) and _same((low, high))
    ]
    return flat[-1] if flat else None


def limit_of(seen: Tried, trial: Primed, options: SearchOptions, max_pps: float) -> Limit | None:
    """Look closely at what made a limiter suspected; None if there is none.

    Parameters
    ----------
    seen
        The trial.
    trial
        Carries out a trial.
    options
        Say how long trials are, and how close bounds have to be.
    max_pps
        Highest load to offer, frames/s.
    """
    found = list(islice(_telling(seen, trial), TRIALS))
    if len(found) < TRIALS or not _same(found):
        return None
    rate_pps = median(one.rate_pps for one in found)
    floods = list(_floods(rate_pps, trial, seen.window_ns, max_pps))
    # Where others use the core, only a rate that is the same at two loads is a limit's.
    is_sure = all(one.idle is not None and one.idle > FREE for one in found)
    if not is_sure and not any(
        _are_distant(*pair) and _same(pair) for pair in combinations((found[0], *floods), 2)
    ):
        return None
    limit = _primed(max((seen, *floods), key=_load).load_pps, trial, options)
    behind = all(one.lost_behind >= BEHIND for one in found)
    return limit and limit.model_copy(update={"behind": behind})


def hidden(load_pps: float, trial: Primed, options: SearchOptions, max_pps: float) -> Limit | None:
    """Look whether less comes through of a load that was found, once more was offered before.

    Nothing is asked about cores and drop points, which a disturbed machine blurs. None if as much
    comes through, or if a flood harms the router in another way.

    Parameters
    ----------
    load_pps
        The load, frames/s.
    trial, options, max_pps
        See :func:`limit_of`.
    """
    flood_pps = min(FLOODS[-1] * load_pps, max_pps)
    priming = Priming(offered_pps=flood_pps, duration_ns=CHECK_NS)
    lower = 0
    for done in range(1, ROUNDS + 1):
        plain, primed = (trial(load_pps, options.final_ns, begin) for begin in (None, priming))
        lower += bool(plain and primed and not _none_left(plain, primed, options))
        if done - lower > ROUNDS - LOWER:
            return None
    return _primed(flood_pps, trial, options)


def lasting_rates(
    priming: Priming, trial: Primed, options: SearchOptions, max_pps: float
) -> Maximum:
    """Find what a limiter lets through for long, of its priming's load and of the maximum.

    More than that comes through when it has saved up in a pause. In a trial that is above the limit
    all the time, as much is missing as often.

    Raises
    ------
    MeasurementError
        If no trial gives a verdict.
    """

    def rates(load_pps: float, trials: int) -> tuple[float, ...]:
        found = [trial(load_pps, options.final_ns, priming) for _ in range(trials)]
        return tuple(one.rate_pps for one in found if one is not None)

    load_pps = priming.offered_pps
    found = rates(load_pps, LIMIT_TRIALS)
    if not found:
        raise MeasurementError(f"no trial at {format_pps(load_pps)} gave a verdict")
    highest = (max_pps, rates(max_pps, MAX_TRIALS))
    if not highest[1]:
        highest = (load_pps, found)
    return Maximum(load_pps, found, *highest, at_least=False, valid=len(found))


def lasting(rate: FoundRate, limit_pps: float | None) -> FoundRate:
    """Return a rate that is no higher than what a limiter lets through for long.

    Parameters
    ----------
    limit_pps
        That, frames/s; None without a limiter.
    """
    found_pps = rate.throughput_pps
    if limit_pps is None or rate.loss_ratio is None or not found_pps or found_pps <= limit_pps:
        return rate
    load_pps = min(rate.load_pps or limit_pps, limit_pps / (1 - rate.loss_ratio))
    bits = (rate.throughput_bps or 0.0) / found_pps
    told = {"throughput_pps": limit_pps, "throughput_bps": limit_pps * bits}
    return rate.model_copy(update={**told, "load_pps": load_pps})


def _telling(seen: Tried, trial: Primed) -> Iterator[Tried]:
    """Repeat a trial, and yield those that may tell of a limiter."""
    for _ in range(TRIES):
        one = trial(seen.load_pps, seen.window_ns, None)
        if one is not None and _may_be_limited(one):
            yield one


def _floods(rate_pps: float, trial: Primed, window_ns: int, max_pps: float) -> Iterator[Tried]:
    """Try loads above the limit; the cores must have time to drop what is too much."""
    for factor in FLOODS:
        one = trial(min(factor * rate_pps, max_pps), window_ns, None)
        if one is not None and one.loss_ratio > LOSSY and _has_time(one, MAX_IDLE):
            yield one


def _primed(flood_pps: float, trial: Primed, options: SearchOptions) -> Limit | None:
    """Prime for longer and longer, until a short window has no higher rate than a long one.

    None if nothing is lost then: whatever lost frames before, it was no limit.
    """
    duration_ns = MIN_NS
    while True:
        priming = Priming(offered_pps=flood_pps, duration_ns=duration_ns)
        short = trial(flood_pps, options.initial_ns, priming)
        long = trial(flood_pps, options.final_ns, priming)
        if short and long:
            if long.loss_ratio <= LOSSY:
                return None
            is_empty = _none_left(short, long, options)
            if is_empty or 2 * duration_ns > MAX_NS:
                if not _limits(long, priming, trial):
                    return None
                return Limit(priming=priming, idle=long.idle, emptied=is_empty)
        elif 2 * duration_ns > MAX_NS:
            return None
        duration_ns *= 2


def _limits(flooded: Tried, priming: Priming, trial: Primed) -> bool:
    """Tell whether no more comes through of a load that is little above the limit.

    It does where a router forwards the less the more it is offered (receive livelock).
    """
    bound_pps = (1 + 2 * SAME) * flooded.rate_pps
    tries = (trial(LITTLE * flooded.rate_pps, flooded.window_ns, priming) for _ in range(TRIALS))
    return any(one is not None and one.rate_pps <= bound_pps for one in tries)


def _none_left(short: Tried, long: Tried, options: SearchOptions) -> bool:
    """Tell whether the bucket was empty when the windows began: what was left came in each."""
    some_pps = FRAMES * 1e9 / short.window_ns
    return short.rate_pps <= (1 + options.relative_width) * long.rate_pps + some_pps


def _may_be_limited(one: Tried) -> bool:
    return one.loss_ratio > LOSSY and _has_time(one, FREE)


def _has_time(one: Tried, min_part: float) -> bool:
    """Tell whether the cores had more than some time left, or forwarded what was lost then."""
    return one.free is None or one.free > min_part or one.lost_behind >= BEHIND


def _load(one: Tried) -> float:
    return one.load_pps


def _are_distant(one: Tried, other: Tried) -> bool:
    low, high = sorted((one.load_pps, other.load_pps))
    return high >= DISTANCE * low


def _same(tried: Sequence[Tried]) -> bool:
    rates = [one.rate_pps for one in tried]
    some_pps = FRAMES * 1e9 / min(one.window_ns for one in tried)
    return max(rates) <= (1 + SAME) * min(rates) + some_pps

"""One run of MLRsearch: the bounds of all loss ratios at once, also when it ends early.

The library has no types: what it returns is Any here, and has types when it leaves this file.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from MLRsearch import MultipleLossRatioSearch, SearchGoal

from isolane.results.search_results import FoundRate, Status
from isolane.run.search.options import SearchOptions
from isolane.run.search.trial_measurer import TrialMeasurer, Tried
from isolane.spec import format_ns, format_pps

log = logging.getLogger("isolane.run.search")


@dataclass
class LossRatioSearch:
    """Searches for the bounds of all loss ratios under one delay objective.

    Parameters
    ----------
    options
        What is searched for.
    measurer
        Carries out the trials.
    max_pps
        Highest load to offer, frames/s.
    why_max
        Why nothing above can be offered, for the results; None: more is known to be too much.
    bits
        Bits of a frame on average, with its checksum.
    """

    options: SearchOptions
    measurer: TrialMeasurer
    max_pps: float
    why_max: str | None
    bits: float

    def execute(self, keep: Callable[[tuple[FoundRate, ...]], None]) -> None:
        """Search; `keep` gets what was found, however the search ends.

        Raises
        ------
        TimeUpError
            If the measurer's time is up.
        MeasurementError
            If a load has no valid trial.
        """
        goals = self.options.goals()
        self.measurer.worst_ratio = max(goals.values())
        before = len(self.measurer.tried)
        config = self.options.config(goals, self.max_pps)
        controller = MultipleLossRatioSearch(config=config)
        finished = False
        try:
            controller.search(measurer=self.measurer, debug=log.debug)
            finished = True
        finally:
            keep(tuple(self._rates(controller, goals, before, finished=finished)))

    def _rates(
        self,
        controller: Any,
        goals: dict[SearchGoal, float],
        before: int,
        *,
        finished: bool,
    ) -> Iterator[FoundRate]:
        for goal, ratio in goals.items():
            lower = upper = None
            if getattr(controller, "database", None) is not None:
                target = controller.scaling.goal_to_final_target[goal]
                bounds = controller.database.get_relevant_bounds(target=target)
                lower, upper = bounds.clo, bounds.chi
            yield self._rate(ratio, (lower, upper), before, finished=finished)

    def _rate(
        self, ratio: float, bounds: tuple[Any, Any], before: int, *, finished: bool
    ) -> FoundRate:
        lower, upper = bounds
        status, reason = self._status(lower, upper, finished=finished)
        load = None if lower is None else float(lower)
        throughput = None if lower is None else float(_conditional_throughput(lower))
        there = [one for one in self.measurer.tried[before:] if one.load_pps == load]
        delays = [one.delay_p99_ns for one in there if one.delay_p99_ns is not None]
        return FoundRate(
            name="PDR" if ratio else "NDR",
            loss_ratio=ratio,
            max_delay_ns=self.measurer.max_delay_ns,
            status=status,
            throughput_pps=throughput,
            throughput_bps=None if throughput is None else throughput * self.bits,
            load_pps=load,
            failing_load_pps=None if upper is None else float(upper),
            trials=len(there),
            delay_p99_ns=median(delays) if delays else None,
            reason=reason,
        )

    def _status(self, lower: Any, upper: Any, *, finished: bool) -> tuple[Status, str | None]:
        if not finished:
            return "unfinished", "the search ended before the bounds were close enough"
        if lower is None:
            limit = self.measurer.max_delay_ns
            late = "" if limit is None else f" or has a p99 delay above {format_ns(limit)}"
            return "none", (
                f"even {format_pps(self.options.min_pps)}, the lowest load, loses more than "
                f"that{late}"
            )
        if upper is None:
            return ("found", None) if self.why_max is None else ("at-least", self.why_max)
        sent = self.measurer.limited.get(float(upper))
        if sent is not None:
            return "at-least", (
                f"the generator was the limit: it sent {format_pps(sent)} of "
                f"{format_pps(float(upper))}"
            )
        return "found", None


def _conditional_throughput(lower: Any) -> float:
    """Return the conditional throughput (RFC 9971) of a lower bound, frames/s."""
    stat = next(iter(lower.target_to_stat.values()))
    ratio: float = stat.pessimistic_loss_ratio
    return float(lower) * (1 - ratio)


def remaining(options: SearchOptions, tried: Sequence[Tried], max_pps: float) -> float:
    """Estimate how many trials MLRsearch still needs, from how far one bound is from the other."""
    width = -math.log1p(-options.relative_width)
    count = 0.0
    for ratio in options.loss_ratios:
        bad = [t.load_pps for t in tried if t.loss_ratio > ratio or not t.met]
        high = min(bad, default=max_pps)
        good = [t.load_pps for t in tried if t.loss_ratio <= ratio and t.load_pps < high]
        low = max(good, default=options.min_pps)
        widths = math.log(high / low) / width if high > low else 1.0
        count += math.log2(max(1.0, widths))
    return count

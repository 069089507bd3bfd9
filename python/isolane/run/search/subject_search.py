"""One arm and router: first the maximum forwarding rate, then all loss ratios with MLRsearch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Final

from isolane.analysis import generator_maximum
from isolane.analysis.delivery import interval
from isolane.analysis.drift import transfer_ns, unit_ns
from isolane.analysis.maximum_rate import ATTEMPTS, Maximum, Reading, Span, maximum, next_load
from isolane.errors import MeasurementError
from isolane.results.error_budget import ErrorBudget
from isolane.results.priming import Priming
from isolane.results.quality_models import CoreProbe
from isolane.results.results import GeneratorAudit
from isolane.results.search_results import FoundRate, RateLimit, RateName, Searched, Status
from isolane.run import generator_search
from isolane.run.search.limiter import hidden, lasting, lasting_rates, limit_of, suspected
from isolane.run.search.loss_ratio_search import LossRatioSearch, remaining
from isolane.run.search.options import SearchOptions
from isolane.run.search.subjects import Subject
from isolane.run.search.trial_maker import TrialMaker
from isolane.run.search.trial_measurer import (
    AT_LIMIT,
    NoVerdictError,
    TimeUpError,
    TrialMeasurer,
    Tried,
)
from isolane.spec import format_ns, format_pps
from isolane.trials.backend import Bench, Observation

log = logging.getLogger("isolane.run.search")

MFR_TRIALS: Final = 15
"""Trials that the maximum forwarding rate usually takes, for the progress."""
ABOVE: Final = 0.01
"""Behind a limiter no load is tried that is so much above what loses as much as is searched for."""
LOOKS: Final = 3
"""So often a limiter is looked for: each time takes a second, and others' pauses look like one."""
MFR_WIDTH: Final = 4
"""The loads around the MFR are so many relative widths apart: it is no bound."""
NO_FIGURES: Final = {
    "status": "none",
    "throughput_pps": None,
    "throughput_bps": None,
    "load_pps": None,
    "interval": None,
    "whole_pps": None,
    "delay_p99_ns": None,
}
ORDER: Final[dict[RateName, int]] = {"NDR": 0, "PDR": 1, "MFR": 2, "FRMOL": 3}


@dataclass
class SubjectSearch:
    """The search of one arm and router (or all routers together).

    Parameters
    ----------
    subject
        What is searched.
    options
        What is searched for.
    maker
        Carries out the trials.
    overload_pps
        The most that the back end can offer, frames/s.
    clock
        Time in s, for the time limit.
    tell
        Called with the share that is done, and what is being done.
    has_maximum
        Whether the generator has a maximum that must be tried out.
    """

    subject: Subject
    options: SearchOptions
    maker: TrialMaker
    overload_pps: float
    clock: Callable[[], float]
    tell: Callable[[float, str], None]
    has_maximum: bool = False
    _rates: list[FoundRate] = field(default_factory=list)
    _readings: list[Reading] = field(default_factory=list)
    _bench: Bench | None = None
    _rate_limit: RateLimit | None = None
    _priming: Priming | None = None
    """What the next trials' warm-up begins with."""
    _looked: set[float] = field(default_factory=set)
    """Loads at which a limiter was looked for."""
    _unprimed: int = 0
    """Trials before one was found: they may tell of rates above it, and are not used."""

    def __post_init__(self) -> None:
        asked, options = self.options.max_pps, self.options
        self._began_s, self._first_probe = self.clock(), len(self.maker.probes)
        self._max_pps = min(self.overload_pps, asked or self.overload_pps)
        self._why_max = "it is the highest rate that was asked for (--max-rate)"
        if self._max_pps != asked:
            self._why_max = "nothing higher can be offered: line rate, or all that one core sends"
        self._measurer = TrialMeasurer(
            one=self._trial,
            short=ErrorBudget(self.maker.experiment.trial.threshold).limit,
            deadline_s=None if options.limit_s is None else self._began_s + options.limit_s,
            clock=self.clock,
        )
        each = [self.maker.experiment.traffic_of(router.name) for router in self.subject.routers]
        self._bits = 8 * fmean(traffic.mean_frame_bytes for traffic in each)

    def execute(self, bench: Bench) -> Searched:
        """Search on a bench, and return what was found, also when it ended early."""
        self._bench = bench
        try:
            self._refuse_empty_range()
            if self.has_maximum:
                self._generator_maximum(bench)
            while True:
                if self._rate_limit is None:
                    self._maximum()
                if self._rate_limit is not None:
                    self._limited(self._rate_limit.priming)
                for number, limit_ns in enumerate(self._limits()):
                    self._loss_ratios(number, limit_ns)
                # A bucket may hold more than the short trials of a MFR.
                if not self._limiter() and not self._hidden():
                    break
        except TimeUpError:
            return self.searched(f"the time limit of {self.options.limit_s:g} s was reached")
        except MeasurementError as error:
            return self.searched(str(error))
        return self.searched(None)

    def searched(self, reason: str | None) -> Searched:
        """Return what was found so far."""
        limit_pps = self._limit_pps()
        rates = [lasting(self._not_below(rate), limit_pps) for rate in self._rates]
        return Searched(
            arm=self.subject.arm.name,
            routers=tuple(router.name for router in self.subject.routers),
            together=self.subject.together,
            max_load_pps=self._max_pps,
            rates=tuple(sorted(rates, key=lambda rate: ORDER[rate.name])),
            trials=self._unprimed + len(self._measurer.tried),
            trials_without_verdict=self._measurer.invalid,
            seconds=self.clock() - self._began_s,
            unit_ns=median(map(unit_ns, self._probes())) if self._probes() else None,
            transfer_ns=tuple(filter(None, map(transfer_ns, self._probes()))),
            rate_limit=self._rate_limit,
            reason=reason,
        )

    def _probes(self) -> Sequence[tuple[CoreProbe, ...]]:
        """Return what was probed, trial by trial; nothing where no core is the DUT's."""
        return [probes for probes in self.maker.probes[self._first_probe :] if probes]

    def _trial(self, load_pps: float, window_ns: int) -> tuple[Observation, str | None]:
        assert self._bench is not None
        priming = self._priming
        if priming is not None and priming.offered_pps < load_pps:
            priming = priming.model_copy(update={"offered_pps": load_pps})
        return self.maker.trial(self._bench, self.subject, load_pps, window_ns, priming=priming)

    def _limits(self) -> tuple[int | None, ...]:
        return (None, *self.options.max_delays_ns)

    def _refuse_empty_range(self) -> None:
        lowest = self.options.min_pps
        if self._max_pps <= lowest:
            raise MeasurementError(
                f"at most {format_pps(self._max_pps)} can be offered, which is not above the "
                f"lowest rate, {format_pps(lowest)} (--min-rate)"
            )

    def _generator_maximum(self, bench: Bench) -> None:
        """Learn what can be sent here, and offer no more."""
        audits: list[GeneratorAudit] = []
        load, window_ns = self._max_pps, generator_search.WINDOW_NS
        while not generator_maximum.is_known(audits):
            self.tell(0.0, f"{self._label()}: what can be sent")
            found, _ = self.maker.trial(
                bench, self.subject, load, window_ns, generator_maximum.PURPOSE
            )
            audits.append(found.generator)
            load = generator_maximum.sendable_pps(audits)
        self._measurer.sendable_pps = load
        if load < self._max_pps:
            self._max_pps = load
            self._why_max = f"the generator was the limit: it sends {format_pps(load)} here"

    def _maximum(self) -> None:
        """Find MFR and FRMOL, from below."""
        options, finished = self.options, False
        try:
            while (load := next_load(self._readings, self._span())) is not None:
                done = min(1.0, len(self._readings) / MFR_TRIALS)
                self.tell(self._first_share() * done, f"{self._label()}: MFR")
                known = any(r.load_pps == load and r.valid for r in self._readings)
                self._reading(load, options.final_ns if known else options.initial_ns)
                if self._limiter():
                    return
            finished = True
        finally:
            found = maximum(self._readings, self._span())
            if found is not None:
                self._keep_maximum(found, finished=finished)

    def _span(self) -> Span:
        width = MFR_WIDTH * self.options.relative_width
        return Span(self._max_pps, width=width, min_pps=self.options.min_pps)

    def _limited(self, priming: Priming) -> None:
        """Find MFR and FRMOL behind a limiter."""
        found = lasting_rates(priming, self._primed, self.options, self._max_pps)
        self._priming = priming
        self._keep_maximum(found, finished=True)

    def _limiter(self) -> bool:
        """Look whether there is a limiter; if so, begin anew, with trials that are primed."""
        seen = suspected(self._measurer.tried)
        if self._rate_limit or seen is None or seen.load_pps in self._looked:
            return False
        if len(self._looked) >= LOOKS or self._ramps():
            return False
        self._looked.add(seen.load_pps)
        return self._begin_anew(limit_of(seen, self._primed, self.options, self._max_pps))

    def _hidden(self) -> bool:
        """Look whether what was found lasts; if not, begin anew."""
        rates = [one for one in self._rates if one.loss_ratio is not None and not one.max_delay_ns]
        load_pps = max((one.load_pps or 0.0 for one in rates), default=0.0)
        if self._rate_limit or not load_pps or self._ramps():
            return False
        try:
            return self._begin_anew(hidden(load_pps, self._primed, self.options, self._max_pps))
        except TimeUpError:
            raise MeasurementError("the time ended before its rates were known to last") from None

    def _begin_anew(self, limit: RateLimit | None) -> bool:
        """Forget what was tried, if there is a limiter; whether there is one."""
        self._rate_limit = limit
        self._priming = None
        if limit is None:
            return False
        self._priming = limit.priming
        self._unprimed += len(self._measurer.tried)
        self._measurer.tried.clear()
        self._readings.clear()
        self._rates.clear()
        return True

    def _ramps(self) -> bool:
        """Tell whether a load begins with nothing at all: then no trial can be primed."""
        return any(router.pattern.timing.kind == "ramp" for router in self.subject.routers)

    def _primed(self, load_pps: float, window_ns: int, priming: Priming | None) -> Tried | None:
        """Carry out a trial for the search of a limiter; None if it gives no verdict."""
        self.tell(0.0, f"{self._label()}: its limit")
        self._priming = priming
        try:
            if self._measurer.valid(load_pps, window_ns) is not None:
                return self._measurer.tried[-1]
        except NoVerdictError as error:
            log.warning("%s: %s left out: %s", self._label(), format_pps(load_pps), error)
        self._measurer.limited.pop(load_pps, None)
        return None

    def _reading(self, load_pps: float, window_ns: int) -> None:
        measurer = self._measurer
        try:
            if measurer.valid(load_pps, window_ns) is not None:
                self._readings.append(Reading(load_pps, measurer.tried[-1].rate_pps))
                return
            sent: float | None = measurer.limited.pop(load_pps)
        except NoVerdictError as error:
            log.warning("%s: %s left out: %s", self._label(), format_pps(load_pps), error)
            sent = None
        # The measurer has tried often enough.
        self._readings += [Reading(load_pps, 0.0, valid=False, limit_pps=sent)] * ATTEMPTS

    def _keep_maximum(self, found: Maximum, *, finished: bool) -> None:
        limits = [reading.limit_pps for reading in self._readings if reading.limit_pps]
        offered_pps = min([self._max_pps, *limits])
        at_maximum = found.max_load_pps >= AT_LIMIT * offered_pps
        if finished and limits and found.max_load_pps < self._max_pps:
            self._max_pps = found.max_load_pps
            self._why_max = f"the generator was the limit: it sent {format_pps(max(limits))}"
        status: Status = "at-least" if found.at_least else "found"
        reason = self._why_max if found.at_least else None
        if not finished:
            status, reason = "unfinished", "the search ended before the best load was confirmed"
        self._rates.append(self._of_load("MFR", found.load_pps, found.rates_pps, (status, reason)))
        told: tuple[Status, str | None] = ("found", None) if finished else (status, reason)
        frmol = self._of_load("FRMOL", found.max_load_pps, found.max_load_rates_pps, told)
        if finished and not at_maximum:
            why = f"no trial near {format_pps(offered_pps)}, the maximum, gave a verdict"
            frmol = frmol.model_copy(update=NO_FIGURES | {"reason": why})
        self._rates.append(frmol)

    def _of_load(
        self,
        name: RateName,
        load_pps: float,
        rates_pps: tuple[float, ...],
        status: tuple[Status, str | None],
    ) -> FoundRate:
        there = [t for t in self._measurer.tried if t.load_pps == load_pps]
        delays = [t.delay_p99_ns for t in there if t.delay_p99_ns is not None]
        whole = [t.whole_pps for t in there if t.whole_pps is not None]
        return FoundRate(
            name=name,
            loss_ratio=None,
            max_delay_ns=None,
            status=status[0],
            throughput_pps=median(rates_pps),
            throughput_bps=median(rates_pps) * self._bits,
            load_pps=load_pps,
            failing_load_pps=None,
            interval=interval(rates_pps),
            whole_pps=median(whole) if whole and not self._rate_limit else None,
            trials=len(rates_pps),
            delay_p99_ns=median(delays) if delays else None,
            reason=status[1],
        )

    def _not_below(self, rate: FoundRate) -> FoundRate:
        """Return a MFR that is the highest of all rates, those of the loss ratios included."""
        if rate.name != "MFR" or rate.throughput_pps is None or self._rate_limit:
            return rate
        others = [one for one in self._rates if one.loss_ratio is not None and one.throughput_pps]
        best = max(others, key=lambda one: one.throughput_pps or 0.0, default=None)
        if best is None or (best.throughput_pps or 0.0) <= rate.throughput_pps:
            return rate
        assert best.load_pps is not None  # a rate that was found has a load
        final_ns = self.options.final_ns
        there = tuple(
            one.rate_pps
            for one in self._measurer.tried
            if one.load_pps == best.load_pps and one.window_ns >= final_ns
        )
        if not there or median(there) <= rate.throughput_pps:
            return rate
        return self._of_load("MFR", best.load_pps, there, (rate.status, rate.reason))

    def _limit_pps(self) -> float | None:
        """Return what a limiter lets through for long, frames/s; None without one."""
        if self._rate_limit is None:
            return None
        return next((one.throughput_pps for one in self._rates if one.name == "MFR"), None)

    def _loss_ratios(self, number: int, limit_ns: int | None) -> None:
        """Run MLRsearch once, for all loss ratios under one delay objective."""
        measurer = self._measurer
        measurer.max_delay_ns = limit_ns
        before, first = len(measurer.tried), self._first_share()
        each = (1 - first) / len(self._limits())
        late = "" if limit_ns is None else f", p99 below {format_ns(limit_ns)}"

        def told() -> None:
            here = measurer.tried[before:]
            left = remaining(self.options, here, self._max_pps)
            share = first + each * (number + len(here) / (len(here) + left + 1))
            self.tell(share, f"{self._label()}: NDR, PDR{late}")

        measurer.told = told
        max_pps: float = self._max_pps
        why_max: str | None = self._why_max
        if limit_ns is not None and self._rate_limit is not None:
            # A queue that is full from the start would wait for longer than one that fills.
            self._priming = None
            max_pps, why_max = self._below_limit(), None
        elif (limit_pps := self._limit_pps()) is not None:
            above = (1 + ABOVE) * limit_pps / (1 - max(self.options.loss_ratios))
            if above < max_pps:
                max_pps, why_max = above, None
        search = LossRatioSearch(self.options, measurer, max_pps, why_max, self._bits)
        try:
            search.execute(self._rates.extend)
        finally:
            measurer.told = lambda: None

    def _below_limit(self) -> float:
        """Return the highest rate that primed trials have found: an unprimed one may pass more."""
        rates = (lasting(one, self._limit_pps()) for one in self._rates)
        found = [one.throughput_pps for one in rates if one.loss_ratio is not None]
        known = [pps for pps in found if pps is not None and pps > self.options.min_pps]
        return max(known, default=self._max_pps)

    def _first_share(self) -> float:
        """Return the share of the work that the MFR is."""
        others = remaining(self.options, (), self._max_pps) * len(self._limits())
        return MFR_TRIALS / (MFR_TRIALS + others)

    def _label(self) -> str:
        return f"{self.subject.arm.name}, {self.subject.label}"

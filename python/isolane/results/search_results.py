"""The result format of a search: ``search.json`` in its folder."""

from __future__ import annotations

from typing import Final, Literal

from isolane.results.priming import Priming
from isolane.results.results import Interval
from isolane.stored_model import StoredModel

RateName = Literal["NDR", "PDR", "MFR", "FRMOL"]
"""NDR, PDR: the highest rate without loss, and with at most a stated share of loss (RFC 9971).
MFR: maximum forwarding rate (RFC 2285, 3.6.2). FRMOL: forwarding rate at maximum offered load
(RFC 2285, 3.6.1)."""
Status = Literal["found", "at-least", "none", "unfinished"]


class FoundRate(StoredModel):
    """One rate that was searched for."""

    name: RateName
    loss_ratio: float | None
    """NDR and PDR: the share of frames that may be lost, 0 to 1."""
    max_delay_ns: int | None
    """A load counts only if its p99 delay is at most this; None without a delay objective."""
    status: Status
    """``found``; ``at-least``: a lower bound, because nothing higher could be offered; ``none``:
    not even the lowest load meets the objective; ``unfinished``: the search ended before."""
    throughput_pps: float | None
    """Forwarded frames per second at `load_pps`: the conditional throughput of RFC 9971 for NDR and
    PDR, the median over the trials for MFR and FRMOL. None where nothing was found."""
    throughput_bps: float | None
    """The same in bit/s of frames with their checksum, without preamble and gap."""
    load_pps: float | None
    """The offered load: for NDR and PDR the relevant lower bound."""
    failing_load_pps: float | None
    """NDR and PDR: the lowest load that misses the objective (relevant upper bound)."""
    interval: Interval | None = None
    """MFR and FRMOL: over the trials at that load."""
    whole_pps: float | None = None
    """MFR and FRMOL: what the throughput would be if nobody else had used the DUT's cores: that of
    a trial over the part of them that others left, the median of the trials. None where the
    cores were not the limit."""
    trials: int
    """Trials at `load_pps`."""
    delay_p99_ns: float | None
    """Median over these trials of their p99 delay, the worst router's; None where nothing came."""
    reason: str | None
    """Why it is not ``found``."""


MAX_IDLE: Final = 0.05
"""A core that was idle for longer was not the limit."""


class RateLimit(StoredModel):
    """What limits a router though its cores have time left: a shaper or a policer."""

    priming: Priming
    """What the warm-up of each trial begins with, so that its bucket is empty in the window."""
    idle: float | None
    """Part of the time that the routers' busiest core had left under overload; None where no core
    is known to be theirs."""
    emptied: bool
    """Whether that was enough: with False, trials still began with tokens in the bucket, and rates
    may be too high."""
    behind: bool = False
    """Whether what was lost had been forwarded: then a limit of the way out has it, and no core."""

    @property
    def left(self) -> float | None:
        """Return `idle` where that alone tells that no core was the limit, else None."""
        return self.idle if self.idle is not None and self.idle > MAX_IDLE else None


class Searched(StoredModel):
    """What was found for one router alone, or for all routers together, in one arm."""

    arm: str
    routers: tuple[str, ...]
    together: bool
    """Whether several routers were offered equal shares of each load at once."""
    max_load_pps: float
    """Nothing above this was offered."""
    rates: tuple[FoundRate, ...]
    trials: int
    """Trials with a verdict."""
    trials_without_verdict: int
    seconds: float
    unit_ns: float | None = None
    """Median CPU time of a unit of work on the DUT's cores just before the trials, ns. None where
    it is not probed."""
    transfer_ns: tuple[float, ...] = ()
    """Just before each trial: time of a cache line's round trip between the generator's core and
    the DUT's, ns. Rates follow it: compare those that were found where it was the same."""
    rate_limit: RateLimit | None = None
    """None where nothing but the cores, or nothing at all, was found to limit it."""
    reason: str | None = None
    """Why the search of this arm ended early; None if it did not."""


class SearchSummary(StoredModel):
    """Everything that a search found."""

    isolane: str
    """Version of Isolane."""
    library: str
    """Version of MLRsearch."""
    name: str
    title: str
    started_unix_s: float
    finished_unix_s: float
    complete: bool
    """False for a search that was interrupted, ran out of time, or failed in an arm."""
    options: dict[str, float | str | tuple[float, ...] | None]
    """What was searched for: see :class:`isolane.run.search.options.SearchOptions`."""
    searched: tuple[Searched, ...]
    simulated: str | None = None
    """Profile of the simulated host; None for measurements."""

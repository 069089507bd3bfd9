"""Time series of a trial: what was sent and received, and how late it came, in bins of 10 ms.

A run folder holds them in ``series.jsonl`` (one :class:`TrialSeries` a line, written before the
trial itself) and in ``series.parquet`` (one row per trial, router and bin).
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median

from isolane.results.steady_models import Gaps, WindowShift
from isolane.stored_model import StoredModel

BIN_NS = 10_000_000
"""Width of a bin; live trials of some minutes have wider ones."""
AFTER_NS = 50_000_000
"""The series goes on for so long after the last departure."""
PARTS = 3
"""The end of a window is its last third, which the whole is compared with."""
MIN_BINS = 15
"""Bins that lie wholly in the window, for a comparison: five in each third."""
GAP_SHARE = 0.1
"""Share of the scheduled time between two frames by which a gap may differ from it."""

GapCounts = tuple[tuple[int, int, int], ...]
"""Times between arrivals: from ns, to ns, number."""


class RouterSeries(StoredModel):
    """One router's frames in a trial, by bin; warm-up included."""

    router: str
    sent: tuple[int, ...]
    """Frames that departed in the bin; 0 in those after the last departure."""
    received: tuple[int, ...]
    """Frames that arrived in the bin."""
    delay_p99_ns: tuple[float | None, ...]
    """99th percentile of the delays since departure of the frames that arrived in it, ns, within
    6.3 %; frames that were lost are in no bin."""
    gaps: GapCounts = ()
    """Times between arrivals in the window; empty in a simulation."""


class TrialSeries(StoredModel):
    """The time series of one trial; bins count from the first departure."""

    trial: int
    bin_ns: int
    warmup_ns: int
    window_ns: int
    routers: tuple[RouterSeries, ...]

    def window(self) -> range:
        """Return the bins that lie wholly in the window."""
        end_ns = self.warmup_ns + self.window_ns
        return range(-(-self.warmup_ns // self.bin_ns), end_ns // self.bin_ns)


def bins_of(warmup_ns: int, window_ns: int, bin_ns: int) -> int:
    """Return how many bins the series of a trial has."""
    return -(-(warmup_ns + window_ns + AFTER_NS) // bin_ns)


def padded(counts: Sequence[int], bins: int) -> tuple[int, ...]:
    """Return as many bins as asked for: zeros where nothing was counted any more."""
    return (*counts[:bins], *[0] * (bins - len(counts)))


def window_shift(series: TrialSeries, router: RouterSeries) -> WindowShift | None:
    """Compare a router's whole window with its last third.

    Returns
    -------
    WindowShift or None
        None where the window has fewer than `MIN_BINS` bins, or nothing arrived in its last third.
    """
    bins = series.window()
    if len(bins) < MIN_BINS:
        return None
    last = bins[-(len(bins) // PARTS) :]
    received = [router.received[i] for i in bins]
    at_last = fmean(router.received[i] for i in last)
    if at_last == 0:
        return None
    delays = [d for i in bins if (d := router.delay_p99_ns[i]) is not None]
    late = [d for i in last if (d := router.delay_p99_ns[i]) is not None]
    return WindowShift(
        throughput=fmean(received) / at_last - 1,
        delay_p99=median(delays) / median(late) - 1 if late and median(late) > 0 else None,
        resolution=2 / (at_last * len(last)),
    )


def gaps_of(counts: GapCounts, scheduled_ns: float, resolution_ns: float) -> Gaps | None:
    """Sum up the times between a stream's arrivals in the window.

    Parameters
    ----------
    counts
        The histogram.
    scheduled_ns
        Time between two departures by the schedule, ns.
    resolution_ns
        How late the receiver may look, ns: between two polls frames wait, and then arrive together.

    Returns
    -------
    Gaps or None
        None without any gap.
    """
    total = sum(count for _, _, count in counts)
    if not total:
        return None
    tolerance_ns = resolution_ns + GAP_SHARE * scheduled_ns
    middles = [((low + high) / 2, count) for low, high, count in counts]
    good = sum(c for middle, c in middles if abs(middle - scheduled_ns) <= tolerance_ns)
    return Gaps(
        count=total,
        scheduled_ns=scheduled_ns,
        tolerance_ns=tolerance_ns,
        as_scheduled=good / total,
        p50_ns=_quantile(middles, total, 0.5),
        p99_ns=_quantile(middles, total, 0.99),
        max_ns=middles[-1][0],
    )


def _quantile(middles: Sequence[tuple[float, int]], total: int, share: float) -> float:
    below = 0
    for middle, count in middles:
        below += count
        if below >= share * total:
            return middle
    return middles[-1][0]


def merged(counts: GapCounts, each: int = 8) -> GapCounts:
    """Merge neighbouring buckets, to keep a histogram small on disk: within 6.3 %."""
    found: list[tuple[int, int, int]] = []
    for low, high, count in counts:
        # A bucket of 1/64 of an octave belongs to the 1/8 of the octave that holds it.
        width = max(each, 1 << max(0, low.bit_length() - 4)) if low >= each else each
        begin = low // width * width
        if found and found[-1][0] == begin:
            found[-1] = (begin, found[-1][1], found[-1][2] + count)
        else:
            found.append((begin, begin + width - 1, count))
        assert high <= found[-1][1]
    return tuple(found)

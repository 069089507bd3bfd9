"""Says in words how good the trials of a run were: the same in table, report and Markdown."""

from __future__ import annotations

from isolane.analysis.drift import SHOWN
from isolane.analysis.wording import percent, plural
from isolane.results.quality_models import Drift, LostTrials
from isolane.results.results import Summary
from isolane.spec.units import format_ns


def quality_words(summary: Summary) -> list[str]:
    """Return what stands beside the verdict: that the machine's speed drifted, if it did."""
    drift = summary.quality.drift if summary.quality else None
    if drift is None or drift.size <= SHOWN:
        return []
    told = f"The machine's speed drifted by {percent(drift.size)} % over the run."
    return [f"{told} Arms take turns, so all have their part of it."]


def lost_words(summary: Summary) -> list[str]:
    """Return a sentence for each arm that had invalid or failed trials; see `LostTrials`."""
    if summary.quality is None:
        return []
    return [_lost(arm) for arm in summary.quality.lost if arm.invalid or arm.failed]


def _lost(arm: LostTrials) -> str:
    kinds = [f"{count} {kind.replace('_', ' ')}" for kind, count in arm.reasons.items()]
    told = f" ({', '.join(kinds)})" if kinds else ""
    return (
        f"{arm.arm}: {plural(arm.invalid, 'invalid attempt')}{told}, {arm.failed} failed; "
        f"{arm.lost} of {plural(arm.planned, 'trial')} lost."
    )


def drift_words(drift: Drift) -> str:
    """Say how fast and how undisturbed the DUT's cores were."""
    told = (
        f"Before the trials the DUT's cores were {percent(drift.size)} % slower in the slowest "
        f"tenth of the run than in the fastest, and {percent(drift.stalled)} % of the time was "
        f"lost in stalls, the longest of {format_ns(drift.longest_stall_ns)}."
    )
    if drift.transfer_ns is None:
        return told
    low, high = map(format_ns, drift.transfer_ns)
    return (
        f"{told} A cache line went from the generator's core to the DUT's and back in {low} (the "
        f"fastest tenth) to {high} (the slowest); rates follow it."
    )

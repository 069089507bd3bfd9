"""Says in words how good the trials of a run were: the same in table, report and Markdown."""

from __future__ import annotations

from isolane.analysis.noise_floors import noise_words
from isolane.analysis.wording import digits, percent, plural
from isolane.results.quality_models import Drift, LostTrials, NoiseFloor
from isolane.results.results import Summary
from isolane.spec.units import format_ns, format_pps

FEW = "What is noise is not known: too few arms were measured twice (a short run, or --no-aa)."


def quality_words(summary: Summary) -> list[str]:
    """Return what stands beside the verdict: which differences are noise, and drift."""
    quality = summary.quality
    if quality is None:
        return []
    drift = quality.drift
    found = [noise_words(quality.noise) or FEW]
    if drift is not None and drift.normalised:
        found.append(
            f"The machine's speed drifted by {percent(drift.size)} % over the run; the report has "
            "the figures at one speed, too."
        )
    return found


def lost_words(summary: Summary) -> list[str]:
    """Return a sentence for each arm that had invalid or failed trials; see `LostTrials`."""
    if summary.quality is None:
        return []
    return [_lost(arm) for arm in summary.quality.lost if arm.invalid or arm.failed]


def _lost(arm: LostTrials) -> str:
    kinds = [f"{count} {kind.replace('_', ' ')}" for kind, count in arm.reasons.items()]
    told = f" ({', '.join(kinds)})" if kinds else ""
    text = (
        f"{arm.arm}: {plural(arm.invalid, 'invalid attempt')}{told}, {arm.failed} failed; "
        f"{arm.lost} of {plural(arm.planned, 'trial')} lost"
    )
    if not arm.lost or arm.at_worst is None:
        return f"{text}."
    if not arm.could_change:
        return f"{text}, which cannot change the finding."
    ends = f"{arm.at_worst} at worst, {arm.at_best} at best"
    return f"{text}, which could change the finding: {ends}."


def noise_row(floor: NoiseFloor) -> tuple[str, ...]:
    """Return arm, what is compared, the floor, and what it rests on."""
    figure = {
        "delivered": "delivered of offered, victim",
        "throughput": "throughput",
        "delay_p99": "delay p99",
    }[floor.figure]
    unit = "percentage points" if floor.figure == "delivered" else "%"
    of = "all arms" if floor.pooled else "this arm"
    return (
        floor.arm,
        figure,
        floor.point_label,
        f"{digits(100 * floor.floor, 2)} {unit}",
        f"{plural(floor.pairs, 'pair')} of {of}, medians of {floor.repeats}",
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


def normalised_rows(drift: Drift) -> list[tuple[str, ...]]:
    """Return arm, point, router, the throughput as measured and the same at one speed."""
    return [
        (
            found.arm,
            found.point_label,
            found.router,
            format_pps(found.raw_pps),
            format_pps(found.normalised_pps),
        )
        for found in drift.normalised
    ]

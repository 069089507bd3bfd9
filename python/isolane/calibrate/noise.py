"""Measures how much the repeats of a run differ; no fit can be better than that."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from isolane.analysis.delivery import is_undisturbed
from isolane.results.folder import RunFolder
from isolane.results.results import Trial
from isolane.spec import format_pps

NOISY = 0.08
"""Half the range of the repeats over their median; a fit weighs errors above it more."""
MAX_NAMED = 3
"""Points that the hint names, the worst first."""


def hint(folder: Path) -> str | None:
    """Return a hint naming repeats that differ too much for a fit; None if none do."""
    found = sorted(_spreads(RunFolder.open(folder).trials()), reverse=True)
    noisy = [(spread, what) for spread, what in found if spread > NOISY]
    if not noisy:
        return None
    named = [f"{what} (+/-{100 * spread:.0f} %)" for spread, what in noisy[:MAX_NAMED]]
    more = f" and {len(noisy) - MAX_NAMED} more" if len(noisy) > MAX_NAMED else ""
    return (
        f"hint: {len(noisy)} of {len(found)} throughputs differ by more than "
        f"+/-{100 * NOISY:.0f} % between repeats: {'; '.join(named)}{more}. No fit can be better "
        "than that: keep the host quiet, make trials longer (trial.duration), or fit to trials "
        "that agree (--trials)"
    )


def _spreads(trials: Sequence[Trial]) -> list[tuple[float, str]]:
    """Return half the range over the median of each throughput that has repeats."""
    rates: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for trial in trials:
        if trial.purpose == "measure" and is_undisturbed(trial):
            for router in trial.routers:
                if router.generated_frames:
                    key = trial.arm, trial.point_label, router.router
                    rates[key].append(router.received_pps)
    return [
        (
            (max(own) - min(own)) / 2 / median(own),
            f"{router} on {arm} at {point}, {format_pps(min(own))} to {format_pps(max(own))}",
        )
        for (arm, point, router), own in rates.items()
        if len(own) > 1 and median(own) > 0
    ]

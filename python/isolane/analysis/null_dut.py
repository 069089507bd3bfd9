"""The null DUT: what the wire alone, generator and receiver included, adds to each delay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from isolane.results.results import NullDut, Trial

PURPOSE: Final = "null-dut"
ARM = "null DUT"
"""Stands for the arm in its trials; no arm of an experiment can have this name."""


def floors(trials: Sequence[Trial]) -> tuple[NullDut, ...]:
    """Return what the trials without a device under test found, by point and router."""
    found = sorted((t for t in trials if t.purpose == PURPOSE), key=lambda trial: trial.point)
    return tuple(
        NullDut(
            point=trial.point,
            point_label=trial.point_label,
            router=router.router,
            offered_pps=router.offered_pps,
            loss_ratio=router.loss_ratio,
            delay=router.delay,
            due_delay=router.due_delay,
            lateness=router.lateness,
            reason=trial.reason,
        )
        for trial in found
        for router in trial.routers
    )

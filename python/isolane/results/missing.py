"""Missing points: points of an experiment that have no valid trial, and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from isolane.spec.fields import Mode
from isolane.spec.work_models import NO_WORK, Work
from isolane.stored_model import StoredModel

NOT_MADE = "no trial was made, because the run ended before it"


class MissingRouter(StoredModel):
    """The load that one router was to be offered at a missing point."""

    router: str
    group: str
    role: Literal["victim", "aggressor", "router"]
    load_x: float | None
    """None without a capacity."""
    offered_pps: float | None
    """None for a load in x without a capacity, and of a closed loop."""
    mode: Mode = "forward"
    closed: bool = False
    work: Work = NO_WORK


class MissingPoint(StoredModel):
    """A point of an arm without a single valid trial."""

    arm: str
    point: int
    point_label: str
    routers: tuple[MissingRouter, ...]
    trials: int
    """Trials that were made of it."""
    invalid: int
    """Of these, trials that gave no verdict."""
    failed: int
    """Of these, trials that failed."""
    reason: str | None
    """Reason of the first of them; None if no trial was made."""

    @property
    def closed(self) -> bool:
        """Whether one of its routers was to be asked in a closed loop."""
        return any(router.closed for router in self.routers)

    @property
    def why(self) -> str:
        """Say in words why there is nothing, such as ``3 of 3 trials invalid, because ...``."""
        if not self.trials:
            return NOT_MADE
        reason = (self.reason or "no reason was recorded").rstrip(".")
        noun = "trial" if self.trials == 1 else "trials"
        if self.invalid and self.failed:
            what = f"{self.invalid} of {self.trials} {noun} invalid, {self.failed} failed"
        else:
            word = "invalid" if self.invalid else "failed"
            what = f"{self.trials} of {self.trials} {noun} {word}"
        return f"{what}, because {reason}"

    @property
    def aggressor_x(self) -> float | None:
        """Offered load of all aggressors together, in capacities; None without any."""
        return _total(router.load_x for router in self.routers if router.role == "aggressor")

    @property
    def aggressor_pps(self) -> float | None:
        """Offered load of all aggressors together, frames/s; None without any."""
        return _total(router.offered_pps for router in self.routers if router.role == "aggressor")

    @property
    def attack(self) -> tuple[int, float]:
        """How heavy the attack was to be: see :attr:`isolane.results.results.Cell.attack`."""
        working = sum(r.role == "aggressor" and r.work != NO_WORK for r in self.routers)
        return working, self.aggressor_pps or 0.0

    def named(self, router: str) -> MissingRouter | None:
        """Return one of the routers; None where the point does not have it."""
        return next((found for found in self.routers if found.router == router), None)


def _total(values: Iterable[float | None]) -> float | None:
    found = list(values)
    known = [value for value in found if value is not None]
    return sum(known) if known and len(known) == len(found) else None


def in_arm(missing: Sequence[MissingPoint], arm: str) -> list[MissingPoint]:
    """Return the missing points of one arm."""
    return [point for point in missing if point.arm == arm]

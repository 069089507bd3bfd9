"""Makes the record of a trial from what was observed."""

from __future__ import annotations

from dataclasses import dataclass

from isolane.results.invalid import ABOUT_DELAY, MADE_AGAIN, VALID, InvalidReason
from isolane.results.priming import Priming
from isolane.results.quality_models import CoreProbe
from isolane.results.results import Status, Trial
from isolane.run.schedule import Task
from isolane.trials.backend import Observation


@dataclass(frozen=True)
class Attempt:
    """One trial that was carried out, or tried to be."""

    number: int
    """In order of execution, from 0."""
    task: Task
    started_unix_s: float
    window_ns: int
    observation: Observation | None
    """None if the trial failed."""
    failure: str | None = None
    """Why it failed."""
    probe: tuple[CoreProbe, ...] = ()
    """The DUT's cores just before it."""
    priming: Priming | None = None
    """What its warm-up began with."""
    repeatable: bool = False
    """Whether it may be made again, so that what only speaks for that is heeded."""

    @property
    def status(self) -> Status:
        """What became of it."""
        if self.observation is None:
            return "failed"
        if self.task.purpose in ("null-dut", "generator"):
            return "ok"  # it gives no verdict: what limited it is what it shows
        valid = VALID - MADE_AGAIN if self.repeatable else VALID
        return "ok" if all(why.kind in valid for why in self.invalid) else "no-verdict"

    @property
    def invalid(self) -> tuple[InvalidReason, ...]:
        """Why it, or a part of its figures, is invalid; delays where they are asked for."""
        found = self.observation.invalid if self.observation else ()
        if self.task.purpose not in ("capacity", "search"):
            return found
        return tuple(reason for reason in found if reason.kind not in ABOUT_DELAY)

    @property
    def reason(self) -> str | None:
        """Why it failed, gives no verdict, tells less, or was disturbed; None if it is good."""
        worst_first = sorted(self.invalid, key=lambda found: found.kind in VALID)
        return self.failure or "; ".join(map(str, worst_first)) or None

    def trial(self, invalid_before: int = 0) -> Trial:
        """Return the record.

        Parameters
        ----------
        invalid_before
            How many attempts at the same trial were invalid before.
        """
        observation, task = self.observation, self.task
        return Trial(
            trial=self.number,
            arm=task.arm.name,
            point=task.point.index,
            point_label=task.point.label,
            repeat=task.repeat,
            invocation=task.invocation,
            purpose=task.purpose,
            started_unix_s=self.started_unix_s,
            window_s=self.window_ns / 1e9,
            probe=self.probe,
            status=self.status,
            reason=self.reason,
            conserved=observation.conserved if observation else False,
            routers=observation.routers if observation else (),
            cores=observation.cores if observation else (),
            generator=observation.generator if observation else None,
            placement=observation.placement if observation else None,
            cpu_audit=observation.cpu_audit if observation else (),
            receiver_dropped=observation.receiver_dropped if observation else 0,
            priming=self.priming,
            attempt=invalid_before,
            invalid=tuple(dict.fromkeys(found.kind for found in self.invalid)),
        )

"""Sending a constant rate with Isolane's generator, inside the bench's own process."""

from __future__ import annotations

from typing import Any

from isolane.errors import MeasurementError
from isolane.spec import Load
from isolane.trials.live.cores import staying_on
from isolane.trials.live.counting import Counting
from isolane.trials.live.draining import drained
from isolane.trials.live.plans import Segment, StreamPlan
from isolane.trials.live.traffic import GRACE_S, Sending, Target

from benches.common import GENERATOR_CORE, RECEIVER_CORE


def send(target: Target, rate_pps: float, seconds: float, flows: int = 1) -> dict[str, Any]:
    """Send 64-byte frames and return the generator's audit (:meth:`Sending.report`).

    Raises
    ------
    MeasurementError
        If the generator does not come to an end.
    """
    load = Load(value=rate_pps, unit="pps")
    plan = StreamPlan((Segment(round(seconds * 1e9), load, load),), flows=flows)
    with staying_on((GENERATOR_CORE, RECEIVER_CORE)):  # it refuses a core that it may not use
        sending = Sending((plan,), (target,), GENERATOR_CORE)
    with sending:
        finished = sending.wait(seconds + GRACE_S)
        sending.stop()
    if not finished:
        raise MeasurementError(f"the generator had not finished {GRACE_S:g} s after its time")
    return sending.report()


def drain(counting: Counting) -> int:
    """Wait until nothing has arrived for some time; return what has arrived in all."""
    return drained(counting.total, quiet_s=0.05, limit_s=2.0)

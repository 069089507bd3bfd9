"""What a trial's warm-up begins with, where a limit of rate has a bucket that must be empty."""

from __future__ import annotations

from isolane.stored_model import StoredModel


class Priming(StoredModel):
    """A load above the limit, until the limiter's bucket is empty.

    A trial that begins with a full bucket forwards more than the limit until it is empty: 10 ms of
    the rate are 4 % of 250 ms.
    """

    offered_pps: float
    """Of all routers together, frames/s."""
    duration_ns: int
    """The first part of the warm-up, ns; after it the trial's own load is offered."""

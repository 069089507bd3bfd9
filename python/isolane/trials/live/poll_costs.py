"""What the demultiplexer spends on a frame that it passes on, and on one that it drops.

Both kinds pass through the same polls of the NIC's thread. The CPU accountant sums up, over these
polls, their time, the frames of each kind, and the products of these. That is all that a
least-squares fit of ``time = poll + pass * passed + drop * dropped`` needs (Draper and Smith,
Applied Regression Analysis, 5.1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isolane import _native

MIN_POLLS = 1_000
"""Fewer polls than these are not fitted."""
MIN_SHARE = 0.02
"""Share of the frames that must be of each kind."""
MAX_ERROR = 0.2
"""Standard error of a cost, as a share of it, beyond which the two are not told apart."""


@dataclass(frozen=True)
class FrameCosts:
    """What a frame costs in the demultiplexer, ns; each poll's own cost is divided among both."""

    passed_ns: float
    dropped_ns: float


def frame_costs(sums: _native.PollSums) -> FrameCosts | None:
    """Fit both costs; None where they cannot be told apart.

    That is so with too few polls, hardly any frame of one kind, costs that are not positive, or
    that are too uncertain: their standard error is that of ordinary least squares.
    """
    frames = sums.passed + sums.dropped
    if sums.polls < MIN_POLLS or min(sums.passed, sums.dropped) < MIN_SHARE * frames:
        return None
    products = np.array(
        [
            [sums.polls, sums.passed, sums.dropped],
            [sums.passed, sums.passed_passed, sums.passed_dropped],
            [sums.dropped, sums.passed_dropped, sums.dropped_dropped],
        ],
        dtype=float,
    )
    try:
        inverse = np.linalg.inv(products)
    except np.linalg.LinAlgError:
        return None
    times = np.array([sums.ns, sums.passed_ns, sums.dropped_ns], dtype=float)
    fitted = inverse @ times
    _, passed_ns, dropped_ns = fitted
    variance = max(0.0, sums.ns_ns - float(fitted @ times)) / (sums.polls - len(fitted))
    errors = np.sqrt(variance * np.clip(np.diag(inverse)[1:], 0, None))
    if passed_ns <= 0 or dropped_ns <= 0:
        return None
    if errors[0] > MAX_ERROR * passed_ns or errors[1] > MAX_ERROR * dropped_ns:
        return None
    return FrameCosts(float(passed_ns), float(dropped_ns))

"""The result format of web requests: what is told of them besides what is told of frames."""

from __future__ import annotations

from isolane.stored_model import StoredModel


class WebTrial(StoredModel):
    """What became of one load balancer's requests in the window of one trial."""

    closed: bool
    """Whether so many requests were always under way; then ``offered_pps`` is an outcome."""
    object_bytes: int
    """What each of them asked for."""
    failed: dict[str, int]
    """By reason, those that there were: ``refused``, ``reset``, ``timed_out``, ``status``, ..."""
    statuses: dict[int, int]
    """By status code: answers of 400 and more."""
    content_bps: float
    """Content of the answers that were complete within the window, bit/s, without headers."""
    connections: int | None
    """Begun for these requests; None: not told, as of simulated ones."""
    connect_p50_ns: float | None
    """From the call to the established connection; None: there was none."""
    connect_p99_ns: float | None
    max_in_flight: int | None
    """Requests under way at most; None: not told, as of simulated ones."""

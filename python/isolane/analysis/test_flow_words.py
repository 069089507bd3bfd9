"""Frames and web requests in words."""

from __future__ import annotations

from isolane.analysis.flow_words import FRAMES, REQUESTS, flow_of
from isolane.analysis.wording import delay_words


def test_requests_are_told_in_requests_a_second() -> None:
    assert flow_of(["http", "http"]) is REQUESTS
    assert flow_of(["forward", "echo"]) is flow_of([]) is FRAMES
    assert (REQUESTS.rate(2500), FRAMES.rate(2500)) == ("2.5 krps", "2.5 kpps")
    assert delay_words({"http"}) == "response time"

from __future__ import annotations

import json
from typing import Any

from isolane.web.request_words import FAILURES, describe, finite, warnings

TIMES = {
    "count": 90, "lost": 0, "p50_ns": 1e5, "p90_ns": 2e5, "p99_ns": 3e5, "p999_ns": 4e5,
    "p9999_ns": 4e5, "max_ns": 500_000,
}  # fmt: skip
NEVER = {**dict.fromkeys(TIMES, float("inf")), "count": 0, "lost": 100, "max_ns": 0}


def report(**changes: Any) -> dict[str, Any]:
    return {
        "url": "http://192.0.2.1/", "server": "192.0.2.1:80", "seconds": 2.0, "keep_alive": False,
        "asked_rps": 50.0, "offered": 100, "answered": 100, "failed": dict.fromkeys(FAILURES, 0),
        "statuses": {}, "completed": 99, "rate_rps": 49.5, "rate_bps": 1e6, "connections": 100,
        "retried": 0, "max_in_flight": 3, "max_connections": 10,
        "latency_ns": TIMES, "connect_ns": TIMES, "late_ns": TIMES, **changes,
    }  # fmt: skip


def failed(**counts: int) -> dict[str, Any]:
    lost = sum(counts.values())
    return {
        "answered": 100 - lost,
        "failed": {**dict.fromkeys(FAILURES, 0), **counts},
    }


def test_a_report_is_five_lines() -> None:
    told = "p50 100 µs, p90 200 µs, p99 300 µs, p99.9 400 µs, p99.99 400 µs, max 500 µs"
    assert describe(report()).splitlines() == [
        "http://192.0.2.1/: 100 requests in 2 s, at 50 rps, each on its own connection",
        "answered  100 (100 %); 49.5 rps, 1 Mbps of content",
        f"latency   {told}",
        f"connect   {told}",
        f"late      {told} (the client itself)",
    ]
    told = describe(report(asked_rps=None, keep_alive=True, offered=1, answered=1))
    assert ": 1 request in 2 s, as fast as they are answered, on kept connections" in told


def test_failures_are_told_by_reason() -> None:
    told = describe(report(**failed(timed_out=3, status=7), statuses={404: 2, 503: 5}))
    assert "failed    10 (10 %): 3 timed out, 7 answered with an error (404, 503)\n" in told
    told = describe(report(**failed(refused=100), latency_ns=NEVER, connect_ns=NEVER))
    assert "failed    100 (100 %): 100 refused\nlatency   none\nconnect   none\n" in told


def test_this_hosts_own_part_is_told() -> None:
    assert not warnings(report())
    (ports,) = warnings(report(**failed(out_of_ports=1)))
    assert ports.startswith("1 request found no local port, which is this host's limit and not ")
    (files,) = warnings(report(**failed(out_of_files=2)))
    assert "2 requests found no descriptor" in files
    late = {**TIMES, "p99_ns": 2e6}
    (own,) = warnings(report(late_ns=late))
    assert "2 ms late at its 99th percentile" in own
    assert not warnings(report(late_ns=late, asked_rps=None)), "a closed loop has no times"
    (full,) = warnings(report(late_ns=late, max_in_flight=10))
    assert full.startswith("all 10 connections were in use")


def test_what_never_came_is_null_in_json() -> None:
    found = finite(report(latency_ns=NEVER))
    assert found["latency_ns"]["p50_ns"] is None
    assert found["latency_ns"]["lost"] == 100
    assert json.loads(json.dumps(found, allow_nan=False))["connect_ns"]["p50_ns"] == 1e5

"""What became of web requests, in words."""

from __future__ import annotations

import math
from typing import Any, Final

from isolane.spec import format_bps, format_ns
from isolane.spec.units import format_rps

FAILURES: Final = {
    "refused": "refused",
    "reset": "reset",
    "timed_out": "timed out",
    "cut_short": "cut short",
    "malformed": "not HTTP",
    "status": "answered with an error",
    "unreachable": "without a route",
    "out_of_ports": "without a local port",
    "out_of_files": "without a descriptor",
}
"""Reason -> what became of the requests."""
_QUANTILES: Final = (
    ("p50", "p50_ns"),
    ("p90", "p90_ns"),
    ("p99", "p99_ns"),
    ("p99.9", "p999_ns"),
    ("p99.99", "p9999_ns"),
)
LATE_NS: Final = 1e6
"""A client that is later than this at its 99th percentile is a part of what it measures."""


def describe(report: dict[str, Any]) -> str:
    """Return the report in a few lines: answered, failed, latency, connecting, the client."""
    kind = "on kept connections" if report["keep_alive"] else "each on its own connection"
    asked = report["asked_rps"]
    loop = "as fast as they are answered" if asked is None else f"at {format_rps(asked)}"
    failed = sum(report["failed"].values())
    seconds = f"{report['seconds']:.3g} s"
    rates = f"{format_rps(report['rate_rps'])}, {format_bps(report['rate_bps'])} of content"
    lines = [
        f"{report['url']}: {_requests(report['offered'])} in {seconds}, {loop}, {kind}",
        f"answered  {_part(report['answered'], report['offered'])}; {rates}",
    ]
    if failed:
        reasons = (f"{n} {_reason(name, report)}" for name, n in report["failed"].items() if n)
        lines.append(f"failed    {_part(failed, report['offered'])}: {', '.join(reasons)}")
    lines += [
        f"latency   {_times(report['latency_ns'])}",
        f"connect   {_times(report['connect_ns'])}",
        f"late      {_times(report['late_ns'])} (the client itself)",
    ]
    return "\n".join(lines)


def finite(report: dict[str, Any]) -> dict[str, Any]:
    """Return the report for JSON, which has no infinity: null stands for what never came."""
    return {
        key: finite(value)
        if isinstance(value, dict)
        else (None if isinstance(value, float) and math.isinf(value) else value)
        for key, value in report.items()
    }


def _requests(count: int) -> str:
    return "1 request" if count == 1 else f"{count} requests"


def _reason(name: str, report: dict[str, Any]) -> str:
    codes = f" ({', '.join(map(str, sorted(report['statuses'])))})" if name == "status" else ""
    return FAILURES[name] + codes


def _part(count: int, of: int) -> str:
    return f"{count} ({100 * count / of:.4g} %)" if of else str(count)


def _times(times: dict[str, Any]) -> str:
    if not times["count"]:
        return "none"
    told = ", ".join(f"{name} {format_ns(times[key])}" for name, key in _QUANTILES)
    return f"{told}, max {format_ns(times['max_ns'])}"


def warnings(report: dict[str, Any]) -> list[str]:
    """Return what the reader has to know of this host's own part in the result."""
    told = []
    failed, late = report["failed"], report["late_ns"]["p99_ns"]
    if failed["out_of_ports"]:
        told.append(
            f"{_requests(failed['out_of_ports'])} found no local port, which is this host's limit "
            "and not the server's; widen net.ipv4.ip_local_port_range, or use --keep-alive"
        )
    if failed["out_of_files"]:
        told.append(
            f"{_requests(failed['out_of_files'])} found no descriptor, which is this host's limit "
            "and not the server's; raise it with ulimit -n"
        )
    if report["asked_rps"] is None:
        return told
    if report["max_in_flight"] == report["max_connections"]:
        told.append(
            f"all {report['max_connections']} connections were in use, and requests that were due "
            "waited for one; allow more with --max-connections and ulimit -n"
        )
    elif late is not None and late > LATE_NS:
        told.append(
            f"the client was {format_ns(late)} late at its 99th percentile: it is a part of the "
            "latency; send fewer requests, or give it a core (--core)"
        )
    return told

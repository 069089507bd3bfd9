"""``isolane request``: web requests at exact times, as a command."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from isolane.web.requesting import Requesting, RequestPlan

EPILOG = """Examples:

\b
  isolane request http://192.0.2.1/ --rate 500rps
  isolane request http://[2001:db8::1]:8080/16k --rate 2krps --keep-alive
  isolane request http://192.0.2.1/ --concurrency 64       as fast as they are answered
  isolane request http://192.0.2.1/ --rate 500rps --pattern poisson --json

\b
Each request has its time, whatever became of those before it, and its latency counts from then:
a server that stands still for a second shows, although nobody could ask it meanwhile.
"""

_LOOK_S = 0.2
_MAX_CONNECTIONS = 10_000

_Url = Annotated[
    str, typer.Argument(metavar="URL", help="Web server and object: http://HOST/PATH.")
]
_Rate = Annotated[
    str | None, typer.Option("--rate", "-r", help="Requests a second: 500rps, 2krps, ...")
]
_Concurrency = Annotated[
    int | None,
    typer.Option(
        "--concurrency", "-c", min=1, max=60_000,
        help="Instead of --rate: so many requests at a time, each followed by the next.",
    ),
]  # fmt: skip
_Duration = Annotated[str, typer.Option("--duration", "-d", help="How long to send.")]
_WarmUp = Annotated[
    str, typer.Option("--warm-up", help="How long to send beforehand; counts for nothing.")
]
_Timeout = Annotated[
    str, typer.Option("--timeout", help="A request fails so long after its intended time.")
]
_KeepAlive = Annotated[
    bool,
    typer.Option("--keep-alive", "-k", help="Many requests on a connection; default: one on each."),
]
_Pattern = Annotated[
    str, typer.Option("--pattern", help="Times between requests: constant, or poisson.")
]
_MaxConnections = Annotated[
    int,
    typer.Option(
        "--max-connections", min=1, max=1_000_000,
        help="Connections at a time; a request that is due waits for one.",
    ),
]  # fmt: skip
_Netns = Annotated[
    str | None, typer.Option("--netns", help="Network namespace to send from: name or path.")
]
_Core = Annotated[
    int | None, typer.Option("--core", help="Core to send from, kept busy meanwhile.")
]
_Json = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]


def command(
    url: _Url,
    rate: _Rate = None,
    concurrency: _Concurrency = None,
    duration: _Duration = "10s",
    warm_up: _WarmUp = "0s",
    timeout: _Timeout = "10s",
    keep_alive: _KeepAlive = False,
    pattern: _Pattern = "constant",
    max_connections: _MaxConnections = _MAX_CONNECTIONS,
    netns: _Netns = None,
    core: _Core = None,
    json: _Json = False,
) -> None:
    """Send web requests at exact times to a server.

    Use it to measure what users of a web server or a load balancer wait for. The command prints
    answers, failures by reason, and latency from each request's intended time to its last byte.
    A failed request counts as infinitely late. Ctrl-C ends it early and prints the report, too.
    """
    from isolane.cli.core_option import usable_core
    from isolane.spec import parse_duration_within
    from isolane.spec.units import parse_request_rate
    from isolane.web.requesting import Requesting, RequestPlan, allow_connections
    from isolane.web.url import read_url, server_of

    if (rate is None) == (concurrency is None):
        raise typer.BadParameter("give either --rate or --concurrency; such as --rate 500rps")
    if pattern not in ("constant", "poisson") or (pattern == "poisson" and rate is None):
        raise typer.BadParameter(
            f"--pattern {pattern}: accepted: constant, and with --rate also poisson"
        )
    millirps = None if rate is None else parse_request_rate("--rate", rate)
    window_ns = parse_duration_within("--duration", duration, "1ms", "24h")
    warm_up_ns = parse_duration_within("--warm-up", warm_up, "0s", "24h")
    timeout_ns = parse_duration_within("--timeout", timeout, "1ms", "1h")
    if netns is not None:
        from isolane.cli.rights import need_root
        from isolane.testbed.host_links import in_netns, netns_path

        need_root("entering a network namespace needs root")
        netns = netns_path(netns)
        in_netns(netns, lambda: None)
    found = read_url(url)
    plan = RequestPlan(
        url=found,
        server=server_of(found),
        rate_millirps=millirps,
        concurrency=concurrency or 0,
        poisson=pattern == "poisson",
        keep_alive=keep_alive,
        max_connections=allow_connections(concurrency or 0, max_connections),
        warm_up_ns=warm_up_ns,
        window_ns=window_ns,
        timeout_ns=timeout_ns,
        netns=netns,
        core=None if core is None else usable_core(core),
    )
    _send(Requesting(plan), plan, json=json)


def _send(requesting: Requesting, plan: RequestPlan, *, json: bool) -> None:
    from isolane.cli import signals
    from isolane.errors import MeasurementError

    interrupted = False
    with requesting:
        try:
            _watch(requesting, plan)
        except KeyboardInterrupt:
            interrupted = True
            requesting.stop()
    report = requesting.report()
    _print(report, json=json)
    if interrupted:
        typer.echo(f"isolane: {signals.word()}; the report covers the time until then", err=True)
        raise typer.Exit(signals.status())
    if not report["answered"]:
        raise MeasurementError(f"{plan.url}: no request was answered")


def _watch(requesting: Requesting, plan: RequestPlan) -> None:
    """Wait for the end, and show the progress: seconds, and answers a second."""
    from isolane.cli.progress import progress
    from isolane.spec.units import format_rps

    seconds = max(1, round((plan.warm_up_ns + plan.window_ns) / 1e9))
    started = shown = time.monotonic()
    before = 0
    with progress("seconds: {label}") as tell:
        while not requesting.wait(_LOOK_S):
            now, answers = time.monotonic(), requesting.answers()
            if now - shown >= 1:
                label = f"{format_rps((answers - before) / (now - shown))} answered"
                tell(min(seconds, int(now - started)), seconds, label)
                before, shown = answers, now


def _print(report: dict[str, object], *, json: bool) -> None:
    from isolane.web.request_words import describe, finite, warnings

    if json:
        import json as encoder

        typer.echo(encoder.dumps(finite(report), indent=2, allow_nan=False))
    else:
        typer.echo(describe(report))
    for told in warnings(report):
        typer.echo(f"isolane: warning: {told}", err=True)

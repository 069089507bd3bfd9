"""``isolane generate``: the traffic generator as a tool of its own."""

from __future__ import annotations

import os
import time
from typing import Annotated

import typer

EPILOG = """Examples:

\b
  isolane generate eth1 --to 198.19.0.2 --mac 02:00:00:00:00:01 --rate 1Mpps
  isolane generate eth1 --to 198.19.0.2 --frame-size imix --flows 100000 --rate 2Gbps
  isolane generate eth1 --to 2001:2:0:1::2 --frame-size 84 --flow-rate 10pps --flows 5000
  isolane generate eth1 --to 198.19.0.2 --schedule 5s:100kpps,10s:100kpps-1Mpps,5s:0pps
  isolane generate eth1 --to 198.19.0.2 --stream 'rate=10kpps size=64' \\
      --stream 'rate=500Mbps size=1518 flows=100'

\b
Departures follow a schedule: a frame that leaves late does not delay the next.
The audit at the end says how well the schedule was kept.
"""


def command(
    interface: Annotated[str, typer.Argument(metavar="INTERFACE", help="Where frames leave.")],
    to: Annotated[str, typer.Option("--to", metavar="ADDRESS", help="Destination, IPv4 or IPv6.")],
    rate: Annotated[
        str | None, typer.Option("--rate", "-r", help="Offered load: 100kpps, 1Gbps, ...")
    ] = None,
    flow_rate: Annotated[
        str | None, typer.Option("--flow-rate", help="Offered load of each flow, instead.")
    ] = None,
    schedule: Annotated[
        str | None,
        typer.Option("--schedule", help="Steps and ramps, instead: 5s:1kpps,10s:1kpps-1Mpps."),
    ] = None,
    duration: Annotated[str, typer.Option("--duration", "-d", help="How long.")] = "10s",
    frame_size: Annotated[
        str, typer.Option("--frame-size", "-s", help="64 to 1518 bytes with checksum, or imix.")
    ] = "64",
    flows: Annotated[int, typer.Option("--flows", "-f", help="UDP flows, 1 to 100000.")] = 1,
    stream: Annotated[
        list[str] | None,
        typer.Option("--stream", help="A stream that differs: rate=, flow-rate=, size=, flows=."),
    ] = None,
    source: Annotated[
        str | None, typer.Option("--from", metavar="ADDRESS", help="Default: the interface's.")
    ] = None,
    mac: Annotated[
        str | None, typer.Option("--mac", help="Destination MAC; default: the next hop's.")
    ] = None,
    netns: Annotated[
        str | None, typer.Option("--netns", help="Network namespace of the interface.")
    ] = None,
    core: Annotated[int | None, typer.Option("--core", help="Core; default: the first.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the audit as JSON.")] = False,
) -> None:
    """Send frames at exact times from any interface. `isolane receive` counts them.

    UDP over IPv4 or IPv6, each frame with a sequence number and the time of its departure. Needs
    root. Bounded in time; Ctrl-C ends it early and prints the audit all the same.
    """
    from isolane.run.live.target import resolve
    from isolane.run.live.traffic import Segment, Sending, StreamPlan, parse_schedule, parse_stream
    from isolane.spec import parse_duration_ns, parse_rate

    _require_root()
    if sum(value is not None for value in (rate, flow_rate, schedule)) != 1 and not stream:
        message = "name one of --rate, --flow-rate and --schedule (or --stream)"
        raise typer.BadParameter(message)
    given = rate if rate is not None else flow_rate
    load = parse_rate("0pps" if given is None else given)
    parts = (
        parse_schedule(schedule)
        if schedule is not None
        else (Segment(parse_duration_ns(duration), load, load),)
    )
    default = StreamPlan(parts, frame_size, flows, per_flow=flow_rate is not None)
    plans = tuple(parse_stream(text, default) for text in stream or []) or (default,)
    target = resolve(interface, to, source=source, mac=mac, netns=netns)
    first = min(os.sched_getaffinity(0)) if core is None else core
    _send(Sending(plans, target, first), json=json)


def _send(sending: object, *, json: bool) -> None:
    from isolane.run.live.traffic import GRACE_S, Sending

    assert isinstance(sending, Sending)
    started, interrupted = time.monotonic(), False
    with sending:
        try:
            finished = _watch(sending, sending.end_ns / 1e9 + GRACE_S)
        except KeyboardInterrupt:
            finished, interrupted = True, True
        elapsed = time.monotonic() - started if interrupted else None
        sending.stop()
    _print(sending.report(elapsed), json=json)
    if interrupted:
        raise typer.Exit(130)
    if not finished:
        typer.echo("isolane: error: the generator had not finished in time", err=True)
        raise typer.Exit(1)


def _watch(sending: object, limit_s: float) -> bool:
    """Wait with a bar on a terminal."""
    import sys

    from isolane.run.live.traffic import Sending

    assert isinstance(sending, Sending)
    if not sys.stderr.isatty():
        return sending.wait(limit_s)
    from rich.console import Console
    from rich.progress import Progress

    total, started = sending.end_ns / 1e9, time.monotonic()
    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("sending", total=total)
        while time.monotonic() - started < limit_s:
            if sending.wait(0.2):
                return True
            progress.update(bar, completed=min(total, time.monotonic() - started))
    return False


def _print(report: dict[str, object], *, json: bool) -> None:
    if json:
        import json as encoder

        typer.echo(encoder.dumps(report, indent=2))
        return
    from isolane.run.live.traffic import describe

    typer.echo(describe(report))


def _require_root() -> None:
    from isolane.errors import NotSupported

    if os.geteuid() != 0:
        raise NotSupported("not supported on this host: this needs root (BPF); run it with sudo")

"""``isolane generate``: the traffic generator as a command."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from isolane.trials.live.plans import StreamPlan
    from isolane.trials.live.presence import Presence
    from isolane.trials.live.traffic import Sending

EPILOG = """Examples:

\b
  isolane generate eth1 --to 198.19.0.2 --mac 02:00:00:00:00:01 --rate 1Mpps
  isolane generate eth1 --to 198.19.0.2 --frame-size imix --flows 100000 --rate 2Gbps
  isolane generate eth1 --to 2001:2:0:1::2 --frame-size 84 --flow-rate 10pps --flows 5000
  isolane generate eth1 --to 198.19.0.2 --schedule 5s:100kpps,10s:100kpps-1Mpps,5s:0pps
  isolane generate eth1 --to 198.19.0.2 --rate 100kpps --pattern 'bursts 1ms/10ms'
  isolane generate eth1 --to 198.19.0.2 --stream 'rate=10kpps size=64' \\
      --stream 'rate=500Mbps size=1518 flows=100'
  isolane generate eth1 --stream 'to=198.19.0.2 rate=100kpps' \\
      --stream 'to=198.19.1.2 rate=2Mpps mac=02:00:00:00:00:02' \\
      --stream 'to=2001:2:0:1::2 rate=10kpps size=84'

\b
A late frame does not delay the next one: each frame has its time in a schedule.
The audit at the end says how well the generator kept the schedule.
"""


_LOOK_S = 0.2
"""Interval at which the command checks that the interface still exists."""


_Interface = Annotated[
    str, typer.Argument(metavar="INTERFACE", help="Interface that sends the frames.")
]
_To = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="ADDRESS",
        help="Destination address, IPv4 or IPv6; or give one in each --stream.",
    ),
]
_Rate = Annotated[
    str | None,
    typer.Option("--rate", "-r", help="Offered load of all flows together: 100kpps, 1Gbps, ..."),
]
_FlowRate = Annotated[
    str | None,
    typer.Option("--flow-rate", help="Instead of --rate: offered load of each flow."),
]
_Schedule = Annotated[
    str | None,
    typer.Option(
        "--schedule",
        help="Instead of --rate: steps and ramps, such as 5s:1kpps,10s:1kpps-1Mpps.",
    ),
]
_Duration = Annotated[str, typer.Option("--duration", "-d", help="How long to send.")]
_FrameSize = Annotated[
    str, typer.Option("--frame-size", "-s", help="64 to 1518 bytes with the checksum, or imix.")
]
_Flows = Annotated[int, typer.Option("--flows", "-f", help="Number of UDP flows, 1 to 100000.")]
_Pattern = Annotated[
    str,
    typer.Option(
        "--pattern",
        help="When frames are sent, and what they are: constant, poisson, bursts, bursts 1ms/4ms, "
        "new-flows, fragments, ttl-expired, or several with + between them.",
    ),
]
_Stream = Annotated[
    list[str] | None,
    typer.Option(
        "--stream",
        help="A stream with values of its own, separated by spaces: to=, from=, mac=, rate=, "
        "flow-rate=, schedule=, size=, flows=, pattern=; repeat for several streams.",
    ),
]
_Source = Annotated[
    str | None,
    typer.Option("--from", metavar="ADDRESS", help="Source address; default: the interface's."),
]
_Mac = Annotated[
    str | None, typer.Option("--mac", help="Destination MAC address; default: the next hop's.")
]
_Netns = Annotated[
    str | None,
    typer.Option("--netns", help="Network namespace of the interface: name or path."),
]
_Core = Annotated[
    int | None,
    typer.Option(
        "--core",
        help="Core to send from; default: the first one that no other thread is pinned to.",
    ),
]
_Json = Annotated[bool, typer.Option("--json", help="Print the audit as JSON.")]


def command(
    interface: _Interface,
    to: _To = None,
    rate: _Rate = None,
    flow_rate: _FlowRate = None,
    schedule: _Schedule = None,
    duration: _Duration = "10s",
    frame_size: _FrameSize = "64",
    flows: _Flows = 1,
    stream: _Stream = None,
    pattern: _Pattern = "constant",
    source: _Source = None,
    mac: _Mac = None,
    netns: _Netns = None,
    core: _Core = None,
    json: _Json = False,
) -> None:
    """Send UDP frames at exact times from any interface.

    Use it to load a router that Isolane did not build; `isolane receive` counts what comes back.
    Each frame carries a sequence number and the time at which it was sent. The command ends after
    --duration and prints an audit; Ctrl-C ends it early and prints the audit, too. Needs root.
    """
    from isolane.cli.rights import need_root
    from isolane.spec import parse_duration_ns, parse_rate
    from isolane.trials.live.plans import (
        Segment,
        StreamPlan,
        parse_pattern,
        parse_schedule,
        parse_stream,
    )

    need_root("sending frames needs root (BPF)", bpf_alone=netns is None)
    if sum(value is not None for value in (rate, flow_rate, schedule)) != 1 and not stream:
        message = (
            "give one of --rate, --flow-rate and --schedule, or --stream; such as --rate 100kpps"
        )
        raise typer.BadParameter(message)
    given = rate if rate is not None else flow_rate
    load = parse_rate("0pps" if given is None else given)
    parts = (
        parse_schedule(schedule)
        if schedule is not None
        else (Segment(parse_duration_ns(duration), load, load),)
    )
    per_flow = flow_rate is not None
    kind = parse_pattern(pattern)
    default = StreamPlan(parts, frame_size, flows, per_flow, to, source, mac, kind)
    plans = tuple(parse_stream(text, default) for text in stream or []) or (default,)
    _send(_prepared(interface, plans, netns, core), json=json)


def _prepared(
    interface: str, plans: tuple[StreamPlan, ...], netns: str | None, core: int | None
) -> Sending:
    """Load the generator; warn about threads that it will starve."""
    from isolane.cli.core_option import usable_core
    from isolane.trials.live import starving
    from isolane.trials.live.target import Header, resolve_all
    from isolane.trials.live.traffic import Sending

    headers = []
    for plan in plans:
        if plan.to is None:
            raise typer.BadParameter(
                "give a destination: --to ADDRESS, or to=ADDRESS in each --stream"
            )
        headers.append(Header(plan.to, plan.source, plan.mac))
    targets = resolve_all(interface, headers, netns=netns)
    usable, others = sorted(os.sched_getaffinity(0)), starving.threads()
    chosen = starving.choose(usable, others) if core is None else usable_core(core)
    sending = Sending(plans, targets, chosen)
    warning = starving.warning(chosen, usable, starving.online(), others)
    if warning:
        typer.echo(f"isolane: warning: {warning}", err=True)
    return sending


def _send(sending: Sending, *, json: bool) -> None:
    from isolane.cli import signals
    from isolane.errors import MeasurementError
    from isolane.trials.live.presence import Presence
    from isolane.trials.live.traffic import GRACE_S

    started, finished, interrupted = time.monotonic(), False, False
    with Presence(sending.targets[0].netns, sending.targets[0].ifindex) as wire, sending:
        try:
            finished = _watch(sending, wire, sending.end_ns / 1e9 + GRACE_S)
        except KeyboardInterrupt:
            interrupted = True
        gone = wire.gone()
        elapsed = time.monotonic() - started if interrupted or gone else None
        sending.stop()
    _print(sending.report(elapsed), json=json)
    if gone:
        raise MeasurementError(
            f"{wire.name} vanished; the audit covers the frames until then, and up to "
            f"{_LOOK_S:g} s of frames that were sent to no interface"
        )
    if interrupted:
        typer.echo(f"isolane: {signals.word()}; the audit covers the frames until then", err=True)
        raise typer.Exit(signals.status())
    if not finished:
        typer.echo(
            "isolane: error: the generator did not finish in time; the audit covers what it sent",
            err=True,
        )
        raise typer.Exit(1)


def _watch(sending: Sending, wire: Presence, limit_s: float) -> bool:
    """Wait and show progress; return False when the interface vanishes or time runs out."""
    from isolane.cli.progress import progress

    seconds, started = round(sending.end_ns / 1e9), time.monotonic()
    with progress("seconds") as tell:
        while time.monotonic() - started < limit_s:
            if sending.wait(_LOOK_S):
                return True
            if wire.gone():
                return False
            tell(min(seconds, int(time.monotonic() - started)), seconds, "sending")
    return False


def _print(report: dict[str, object], *, json: bool) -> None:
    if json:
        import json as encoder

        typer.echo(encoder.dumps(report, indent=2))
        return
    from isolane.trials.live.traffic import describe

    typer.echo(describe(report))

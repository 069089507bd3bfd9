"""``isolane receive``: the traffic receiver as a tool of its own."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from isolane.run.live.counting import Counting

EPILOG = """Examples:

\b
  isolane receive eth2                      until Ctrl-C
  isolane receive eth2 eth3 --duration 30s --json
  isolane receive eth2 --frames 1000000     until so many have arrived

\b
One-way delays are shown when generator and receiver run on the same machine;
the clocks of two machines are not comparable to a microsecond.
"""


def command(
    interfaces: Annotated[
        list[str], typer.Argument(metavar="INTERFACE...", help="Where frames arrive.")
    ],
    duration: Annotated[
        str | None, typer.Option("--duration", "-d", help="How long; default: until Ctrl-C.")
    ] = None,
    frames: Annotated[
        int | None, typer.Option("--frames", "-n", min=1, help="End after so many frames.")
    ] = None,
    flows: Annotated[
        int, typer.Option("--flows", min=1, max=1_000_000, help="Flows checked for order.")
    ] = 100_000,
    netns: Annotated[
        str | None, typer.Option("--netns", help="Network namespace of the interfaces.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Count what `isolane generate` sent.

    Frames, loss, order, duplicates and delay, by stream. Counts in XDP and drops what it counted;
    all other traffic passes untouched. Needs root.
    Detaches when it ends, however it ends.
    """
    from isolane.errors import NotSupported, SpecError
    from isolane.run.live.counting import Counting
    from isolane.spec import parse_duration_ns

    if os.geteuid() != 0:
        raise NotSupported("not supported on this host: this needs root (BPF); run it with sudo")
    limit_s = None if duration is None else parse_duration_ns(duration) / 1e9
    if limit_s == 0:
        raise SpecError(f"--duration {duration}: nothing arrives in no time; accepted: 1ns or more")
    twice = next((name for name in interfaces if interfaces.count(name) > 1), None)
    if twice is not None:
        raise SpecError(f"{twice}: named twice; accepted: each interface once")
    with Counting(tuple(interfaces), netns, flows) as counting:
        typer.echo(f"isolane: receiving on {_hooks(counting)}", err=True)
        try:
            _wait(counting, limit_s, frames)
        except KeyboardInterrupt:
            typer.echo("", err=True)
        _print(counting.report(), json=json)


def _hooks(counting: Counting) -> str:
    return ", ".join(f"{name} ({hook} XDP)" for name, hook in counting.hooks().items())


def _wait(counting: Counting, limit_s: float | None, frames: int | None) -> None:
    """Tell the rate each second on a terminal, until time, frames or the user end it."""
    import sys

    from isolane.spec import format_pps

    end = time.monotonic() + limit_s if limit_s is not None else float("inf")
    before, told = counting.total(), time.monotonic()
    while (now := time.monotonic()) < end:
        time.sleep(min(0.05, max(0.0, end - now)))
        total = counting.total()
        if frames is not None and total >= frames:
            return
        if sys.stderr.isatty() and (now := time.monotonic()) - told >= 1:
            rate = format_pps((total - before) / (now - told))
            typer.echo(f"\r{total} frames, {rate}          ", nl=False, err=True)
            before, told = total, now


def _print(report: dict[str, Any], *, json: bool) -> None:
    if json:
        import json as encoder

        typer.echo(encoder.dumps(report, indent=2))
        return
    from isolane.spec import format_ns

    if not report["streams"]:
        typer.echo("no frames of a generator arrived")
    for stream in report["streams"]:
        missing = "unknown" if stream["missing"] is None else stream["missing"]
        typer.echo(
            f"stream {stream['stream']}: {stream['received']} received, {missing} missing, "
            f"{stream['reordered']} reordered, {stream['duplicated']} duplicated"
        )
        delay = stream["delay_ns"]
        if delay:
            words = ", ".join(
                f"{name} {format_ns(delay[key])}"
                for name, key in (
                    ("p50", "p50_ns"),
                    ("p90", "p90_ns"),
                    ("p99", "p99_ns"),
                    ("p99.9", "p999_ns"),
                    ("p99.99", "p9999_ns"),
                    ("max", "max_ns"),
                )
            )
            typer.echo(f"  one-way delay: {words}")
    if report["delay_note"]:
        typer.echo(report["delay_note"])

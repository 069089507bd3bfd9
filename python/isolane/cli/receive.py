"""``isolane receive``: the traffic receiver as a command."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from isolane.trials.live.counting import Counting

EPILOG = """Examples:

\b
  isolane receive eth2                      counts until Ctrl-C
  isolane receive eth2 eth3 --duration 30s --json
  isolane receive eth2 --frames 1000000     counts until 1000000 frames have arrived

\b
One-way delays appear only when generator and receiver run on the same machine:
the clocks of two machines do not agree to a microsecond.
"""


_TERMINAL_S = 1.0
_LINE_S = 10.0


def command(
    interfaces: Annotated[
        list[str],
        typer.Argument(metavar="INTERFACE...", help="Interfaces that receive the frames."),
    ],
    duration: Annotated[
        str | None,
        typer.Option("--duration", "-d", help="How long to count; default: until Ctrl-C."),
    ] = None,
    frames: Annotated[
        int | None, typer.Option("--frames", "-n", min=1, help="End after this many frames.")
    ] = None,
    flows: Annotated[
        int,
        typer.Option(
            "--flows",
            min=1,
            max=1_000_000,
            help="Number of flows per stream that are checked for order.",
        ),
    ] = 100_000,
    netns: Annotated[
        str | None,
        typer.Option("--netns", help="Network namespace of the interfaces: name or path."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Count the frames that `isolane generate` sent.

    Use it where the frames come back from the router under test. For each stream the command
    prints received, missing, reordered and duplicated frames, and the one-way delay. Its XDP
    program drops the frames that it counts; all other traffic passes. The program is detached
    however the command ends. Needs root.
    """
    from isolane.cli import signals
    from isolane.cli.rights import need_root
    from isolane.errors import MeasurementError, SpecError
    from isolane.spec import parse_duration_within
    from isolane.trials.live.counting import Counting

    need_root("receiving frames needs root (BPF)", bpf_alone=netns is None)
    limit_s = None
    if duration is not None:
        limit_s = parse_duration_within("--duration", duration, "1ms", "8760h") / 1e9
    twice = next((name for name in interfaces if interfaces.count(name) > 1), None)
    if twice is not None:
        raise SpecError(f"{twice}: the interface is named twice; accepted: each interface once")
    with Counting(tuple(interfaces), netns, flows) as counting:
        typer.echo(f"isolane: receiving on {_hooks(counting)}", err=True)
        interrupted = False
        try:
            _wait(counting, limit_s, frames)
        except KeyboardInterrupt:
            interrupted = True
        _print(counting.report(), json=json)
        gone = counting.gone()
    if gone:
        raise MeasurementError(f"{', '.join(gone)} vanished; the counts cover the time until then")
    # Without a limit Ctrl-C is the normal end.
    if interrupted and not (signals.by_ctrl_c() and limit_s is None and frames is None):
        typer.echo(f"isolane: {signals.word()}; the counts cover the time until then", err=True)
        raise typer.Exit(signals.status())


def _hooks(counting: Counting) -> str:
    return ", ".join(f"{name} ({hook} XDP)" for name, hook in counting.hooks().items())


def _wait(counting: Counting, limit_s: float | None, frames: int | None) -> None:
    """Wait for the limit, the user or the end of an interface; show frames and rate."""
    end = time.monotonic() + limit_s if limit_s is not None else float("inf")
    with _telling() if limit_s is None and frames is None else _limited(limit_s, frames) as tell:
        while (now := time.monotonic()) < end:
            time.sleep(min(0.05, max(0.0, end - now)))
            total = counting.total()
            if (frames is not None and total >= frames) or counting.gone():
                return
            tell(total)


@contextmanager
def _limited(limit_s: float | None, frames: int | None) -> Iterator[Callable[[int], None]]:
    """Show frames and rate beside the progress towards a limit: of frames if there is one."""
    from isolane.cli.progress import progress
    from isolane.spec import format_pps

    started = shown = time.monotonic()
    before = 0
    seconds = max(1, round(limit_s or 0))
    with progress(f"{'seconds' if frames is None else 'frames'}: {{label}}") as show:

        def tell(total: int) -> None:
            nonlocal before, shown
            now = time.monotonic()
            if now - shown < _TERMINAL_S:
                return
            label = f"{total} frames, {format_pps((total - before) / (now - shown))}"
            before, shown = total, now
            if frames is None:
                show(min(seconds, int(now - started)), seconds, label)
            else:
                show(min(total, frames), frames, label)

        yield tell


@contextmanager
def _telling(clock: Callable[[], float] = time.monotonic) -> Iterator[Callable[[int], None]]:
    """Show frames and rate without a limit: each second on a terminal, else a line each 10 s."""
    from isolane.spec import format_pps

    terminal = sys.stderr.isatty()
    before, told = 0, clock()

    def tell(total: int) -> None:
        nonlocal before, told
        now = clock()
        if now - told < (_TERMINAL_S if terminal else _LINE_S):
            return
        text = f"{total} frames, {format_pps((total - before) / (now - told))}"
        typer.echo(f"\r\x1b[K{text}" if terminal else f"isolane: {text}", nl=not terminal, err=True)
        before, told = total, now

    try:
        yield tell
    finally:
        if terminal:
            typer.echo("\r\x1b[K", nl=False, err=True)


def _print(report: dict[str, Any], *, json: bool) -> None:
    if json:
        import json as encoder

        typer.echo(encoder.dumps(report, indent=2))
        return
    from isolane.spec import format_ns, format_pps

    if not report["streams"]:
        typer.echo("no frames from isolane generate arrived")
    if report["rate_pps"] is not None:
        rate, seconds = format_pps(report["rate_pps"]), report["seconds"]
        typer.echo(f"{rate} over {seconds:.1f} s")
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

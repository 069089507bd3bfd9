"""``isolane top``: what the routers of the policy in force are doing, live."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from isolane.enforce import Enforcer
    from isolane.enforce.router_rates import Rates, RouterRates

EPILOG = """Examples:

\b
  sudo isolane top                   refreshes each second; ends with Ctrl-C
  sudo isolane top --once            one interval, then ends
  sudo isolane top --json --interval 10 >> top.jsonl
  sudo isolane top --json --once | jq '.routers[] | {name, cpu_share, cpu_entitled}'

\b
Columns: frames/s that came for a router, that it sent, that were dropped and where (queue: its
queue was full; rate_in, rate_out: above rate_max; cpu: above cpu_max; link: its class of the link
was full; size: too long for the next interface; redirect: lost by the kernel on the way); frames
that wait in its queues; CPU share of its cores and share of each link, beside its fair share
when all routers that run want more (none is given where routers share a part of their cores only).
"""


def command(
    once: Annotated[bool, typer.Option("--once", help="One interval, then end.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object a line for each interval.")
    ] = False,
    interval: Annotated[
        float, typer.Option("--interval", "-i", min=0.1, max=3600, help="Seconds.")
    ] = 1.0,
) -> None:
    """Show what routers do and use against their shares.

    Reads counters of the kernel; frames are not held up by it. Needs root.
    """
    from isolane.cli import signals
    from isolane.cli.enforcing import enforcer, need_rights

    need_rights()
    try:
        steps = _steps(enforcer(), interval, once=once)
        if as_json:
            _print_lines(steps)
        elif sys.stdout.isatty() and not once:
            _print_live(steps)
        else:
            _print_tables(steps)
    except KeyboardInterrupt:
        if once or not signals.by_ctrl_c():  # otherwise it is how it is meant to end
            raise
        raise typer.Exit(0) from None


def _steps(enforcer: Enforcer, interval_s: float, *, once: bool) -> Iterator[Rates]:
    """Yield what happened in each interval; ends when the policy does."""
    from isolane.enforce.router_rates import rates
    from isolane.errors import TestbedError

    cores = os.cpu_count() or 1
    with closing(enforcer.samples()) as samples:
        before = next(samples)
        if before is None:
            raise TestbedError("no policy is in force: run isolane apply POLICY.yaml first")
        due = time.monotonic()
        while True:
            due = max(due + interval_s, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))
            after = next(samples)
            if after is None:
                typer.echo("isolane: the policy was ended", err=True)
                return
            yield rates(before, after, cores)
            if once:
                return
            before = after


def _print_lines(steps: Iterator[Rates]) -> None:
    from isolane.cli.enforcing import print_json

    for step in steps:
        print_json({"at": time.time(), **step.as_data()}, indent=None)


def _print_tables(steps: Iterator[Rates]) -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = 160  # a file has no width: nothing is to be cut
    for step in steps:
        console.print(_table(step))
        sys.stdout.flush()


def _print_live(steps: Iterator[Rates]) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False, markup=False)
    first = Text("measuring the first interval ...")
    with Live(first, console=console, auto_refresh=False, vertical_overflow="crop") as live:
        for step in steps:
            live.update(_table(step), refresh=True)


def _table(step: Rates) -> Table:
    from rich.table import Table

    nics = sorted({nic for router in step.routers for nic in router.link_share})
    busy = ", ".join(f"core {core} {100 * part:.0f} %" for core, part in sorted(step.cores.items()))
    table = Table(header_style="bold", pad_edge=False, box=None, caption=busy or None)
    table.add_column("router", no_wrap=True)
    for name in ("offered", "forwarded"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("dropped")
    table.add_column("waiting", justify="right", no_wrap=True)
    for name in ("CPU", *nics):
        table.add_column(f"{name} of", justify="right", no_wrap=True)
    for router in step.routers:
        table.add_row(*_row(router, nics))
    return table


def _row(router: RouterRates, nics: list[str]) -> list[str]:
    from isolane.spec import format_pps

    if not router.present:
        return [router.name, "waits"]
    drops = [f"{place} {format_pps(pps)}" for place, pps in router.dropped_pps.items() if pps]
    shares: list[tuple[Any, Any]] = [(router.cpu_share, router.cpu_fair_share)]
    shares += [(router.link_share.get(nic), router.link_fair_share.get(nic)) for nic in nics]
    return [
        router.name,
        format_pps(router.offered_pps),
        format_pps(router.forwarded_pps),
        ", ".join(drops) or "-",
        f"{router.waiting}/{router.queue_limit}",
        *(_percent(share, fair) for share, fair in shares),
    ]


def _percent(share: float | None, fair: float | None) -> str:
    if share is None:
        return ""
    return f"{100 * share:.1f} %" if fair is None else f"{100 * share:.1f} of {100 * fair:.0f} %"

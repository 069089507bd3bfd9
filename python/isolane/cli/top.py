"""``isolane top``: shows live what the routers of the policy in force do."""

from __future__ import annotations

import os
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
  sudo isolane top                   refreshes each second until Ctrl-C
  sudo isolane top --once            prints one interval and ends
  sudo isolane top --json --interval 10 >> top.jsonl
  sudo isolane top --json --once | jq '.routers[] | {name, cpu_share, cpu_entitled}'

\b
offered: frames/s that arrived for the router; forwarded: frames/s that it sent.
dropped: frames/s, by drop point: queue (its queue was full), share (it had had its share of
the core, and another waited), rate_in and rate_out (above rate_max), cpu (above cpu_max),
link (its HTB class was full), size (too long for the next interface), redirect (lost by the
kernel after XDP had sent the frame on).
queued: frames in its queues, and how many fit.
CPU, and each NIC: the share that it uses of its cores or of the link, "of" its fair share. The
fair share is what it gets when every running router wants more; it is missing where routers
share only a part of their cores.
+ NIC: what its frames, dropped ones included, cost the NICs' threads on its core. It counts
against its fair share; missing where routers do not pay for it.
"""


def command(
    once: Annotated[bool, typer.Option("--once", help="Print one interval, then end.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a line with one JSON object for each interval.")
    ] = False,
    interval: Annotated[
        float, typer.Option("--interval", "-i", min=0.1, max=3600, help="Interval in seconds.")
    ] = 1.0,
) -> None:
    """Show live what each router forwards, drops and uses.

    Use it to see which router is overloaded, where it loses frames, and whether it gets its share
    of CPU and link. The command only reads counters of the kernel, so it does not slow traffic
    down. Needs root.
    """
    from isolane.cli.enforcing import enforcer, need_rights
    from isolane.cli.refreshing import Form, show

    need_rights()
    form: Form[Rates] = Form(_table, lambda step: step.as_data())
    show(_steps(enforcer(), interval, once=once), form, once=once, as_json=as_json)


def _steps(enforcer: Enforcer, interval_s: float, *, once: bool) -> Iterator[Rates]:
    """Yield the rates of each interval; ends when the policy is cleared."""
    from isolane.cli.refreshing import ticks
    from isolane.enforce.router_rates import rates
    from isolane.errors import TestbedError

    cores = os.cpu_count() or 1
    with closing(enforcer.samples()) as samples:
        before = next(samples)
        if before is None:
            raise TestbedError("no policy is in force; first run: isolane apply POLICY.yaml")
        for _ in ticks(interval_s):
            after = next(samples)
            if after is None:
                typer.echo("isolane: somebody cleared the policy", err=True)
                return
            yield rates(before, after, cores)
            if once:
                return
            before = after


def _table(step: Rates) -> Table:
    from rich.table import Table

    nics = sorted({nic for router in step.routers for nic in router.link_share})
    busy = ", ".join(f"core {core} {100 * part:.0f} %" for core, part in sorted(step.cores.items()))
    table = Table(header_style="bold", pad_edge=False, box=None, caption=busy or None)
    table.add_column("router", no_wrap=True)
    for name in ("offered", "forwarded"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("dropped")
    table.add_column("queued", justify="right", no_wrap=True)
    table.add_column("CPU of", justify="right", no_wrap=True)
    pays = any(router.nic_cpu_share is not None for router in step.routers)
    for name in (*(["+ NIC"] if pays else []), *(f"{nic} of" for nic in nics)):
        table.add_column(name, justify="right", no_wrap=True)
    for router in step.routers:
        table.add_row(*_row(router, nics, pays=pays))
    return table


def _row(router: RouterRates, nics: list[str], *, pays: bool) -> list[str]:
    from isolane.spec import format_pps

    if not router.present:
        return [router.name, "waits"]
    drops = [f"{point} {format_pps(pps)}" for point, pps in router.dropped_pps.items() if pps]
    shares: list[tuple[Any, Any]] = [(router.cpu_share, router.cpu_fair_share)]
    shares += [(router.nic_cpu_share, None)] if pays else []
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

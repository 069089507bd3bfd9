"""``isolane netback top``: shows live what the ports of network back-ends do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

    from isolane.netback import Status
    from isolane.netback.port_rates import BackEndRates, PortRates

    Step = tuple[BackEndRates, ...]

_WORDS = ("port", "not sent", "lost")
_COLUMNS = ("port", "sent", "not sent", "waiting", "delivered", "lost", "link", "share of")


def top(name: str | None, interval_s: float, *, once: bool, as_json: bool) -> None:
    """Show the rates of one back-end, or of all that run.

    Raises
    ------
    TestbedError
        If none runs, or none of that name.
    """
    from isolane.cli.refreshing import Form, show
    from isolane.cli.rights import need_root

    need_root("the sockets of a network back-end are root's")
    form: Form[Step] = Form(_tables, _data)
    show(_steps(name, interval_s, once=once), form, once=once, as_json=as_json)


def _steps(name: str | None, interval_s: float, *, once: bool) -> Iterator[Step]:
    """Yield the rates of each interval; ends when no back-end runs any more."""
    from isolane.cli.refreshing import ticks
    from isolane.errors import TestbedError
    from isolane.netback.port_rates import port_rates

    before = _look(name)
    if not before:
        raise TestbedError("no network back-end runs; first run: isolane netback start FILE")
    for seconds in ticks(interval_s):
        after = _look(name)
        known = (one for one in after if one in before)
        rates = (port_rates(before[one], after[one], seconds) for one in known)
        yield tuple(filter(None, rates))
        if once or not after:
            return
        before = after


def _look(name: str | None) -> dict[str, Status]:
    from isolane.netback import status_of, statuses

    found = statuses() if name is None else (status_of(name),)
    return {status.name: status for status in found}


def _data(step: Step) -> dict[str, Any]:
    return {"back_ends": [one.as_data() for one in step]}


def _tables(step: Step) -> RenderableType:
    from rich.console import Group

    return Group(*(_table(one) for one in step))


def _table(one: BackEndRates) -> RenderableType:
    from rich.table import Table

    table = Table(title=f"network back-end {one.name}", title_justify="left", box=None)
    for heading in _COLUMNS:
        words = heading in _WORDS
        table.add_column(heading, justify="left" if words else "right", no_wrap=not words)
    for port in one.ports:
        table.add_row(*_row(port))
    return table


def _row(port: PortRates) -> list[str]:
    from isolane.spec import format_pps
    from isolane.spec.units import format_bps

    if not port.attached and not port.lost_pps["no_guest"]:
        return [port.name, "no guest"]
    share = "" if port.link_share is None else f"{100 * port.link_share:.1f} %"
    fair_share = "" if port.fair_share is None else f" of {100 * port.fair_share:.0f} %"
    return [
        port.name,
        format_pps(port.sent_pps),
        _by_reason(port.not_sent_pps),
        str(port.waiting),
        format_pps(port.delivered_pps),
        _by_reason(port.lost_pps),
        format_bps(port.link_bps),
        f"{share}{fair_share}",
    ]


def _by_reason(rates: dict[str, float]) -> str:
    from isolane.spec import format_pps

    told = [f"{why.replace('_', ' ')} {format_pps(pps)}" for why, pps in rates.items() if pps]
    return ", ".join(told) or "-"

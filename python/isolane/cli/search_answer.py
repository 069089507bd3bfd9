"""Prints the answer of a search: a row for each arm and router, the fastest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.table import Table

from isolane.analysis.wording import digits, percent
from isolane.cli.answer_table import LINES, begin, fitting, tell, wrapped
from isolane.cli.search_table import name_of, remarks, who
from isolane.results.error_budget import ErrorBudget
from isolane.results.search_results import FoundRate, Searched, SearchSummary
from isolane.spec import format_ns

NOTHING: Final = "-"
HALF: Final = 0.5
"""A router that forwards less than this part of its MFR under overload livelocks."""
MIN_TOLD: Final = 3
"""Lines for sentences, however many rows there are."""


def print_answer(summary: SearchSummary, console: Console | None = None, *, below: int = 2) -> None:
    """Print the answer to stdout, in 12 lines at 100 columns.

    Parameters
    ----------
    below
        How many of these are left to the caller: for the files that were written.
    """
    heading = summary.title
    if summary.simulated is not None:
        heading += f"; predicted by simulation, profile {summary.simulated}"
    console, used = begin(console, f"{heading}; all rates in kpps")
    rows = ranked(summary.searched)
    console.print(_table(rows))
    left = max(MIN_TOLD, LINES - below - used - 1 - len(rows))
    told = sentences(rows, simulated=summary.simulated is not None)
    left -= tell(console, fitting(told, left, console.width))
    notes = remarks(summary)
    if notes:
        first = wrapped(notes[0], console.width)
        more = f"{len(notes)} remarks: --details"
        alone = len(notes) == 1 and len(first) <= left
        for line in first if alone else [more]:
            console.print(line, highlight=False, markup=False)


def ranked(searched: Sequence[Searched]) -> list[Searched]:
    """Return the fastest first: by the rate at the highest loss ratio, else by the MFR."""
    return sorted(searched, key=lambda one: -_rate_of(main_rate(one)))


def main_rate(searched: Searched) -> FoundRate | None:
    """Return the rate that arms are compared by; None where nothing was found."""
    ratios = [rate for rate in searched.rates if rate.loss_ratio and rate.max_delay_ns is None]
    if ratios:
        return max(ratios, key=lambda rate: rate.loss_ratio or 0.0)
    return next((rate for rate in searched.rates if rate.name == "MFR"), None)


def _rate_of(found: FoundRate | None) -> float:
    return (found.throughput_pps or 0.0) if found else 0.0


def _table(rows: Sequence[Searched]) -> Table:
    table = Table(header_style="bold", pad_edge=False, box=None, padding=(0, 2, 0, 0))
    names = list(dict.fromkeys(name_of(rate) for one in rows for rate in one.rates))
    several = len({who(one) for one in rows}) > 1
    table.add_column("arm", no_wrap=True, overflow="ellipsis")
    if several:
        table.add_column("router", no_wrap=True, overflow="ellipsis")
    for name in (*names, "p99 at its load"):
        table.add_column(name, justify="right")
    for one in rows:
        found = {name_of(rate): rate for rate in one.rates}
        texts = [_text(found.get(name)) for name in names]
        main = main_rate(one)
        delay = format_ns(main.delay_p99_ns) if main and main.delay_p99_ns is not None else NOTHING
        of = f"{delay} ({main.name})" if main and delay != NOTHING else delay
        table.add_row(one.arm, *([who(one)] if several else []), *texts, of)
    return table


def _text(rate: FoundRate | None) -> str:
    if rate is None or rate.throughput_pps is None:
        return "none" if rate and rate.status == "none" else NOTHING
    sign = {"at-least": ">", "unfinished": "~"}.get(rate.status, "")
    return f"{sign}{digits(rate.throughput_pps / 1e3, 4)}"


def sentences(rows: Sequence[Searched], *, simulated: bool) -> tuple[str, ...]:
    """Say in some sentences what the rows show.

    Parameters
    ----------
    rows
        The fastest first.
    simulated
        Whether it is a prediction.
    """
    known = [one for one in rows if _rate_of(main_rate(one))]
    if not known:
        return ("Nothing was found: --details says why.",)
    host = "On the simulated host" if simulated else "On this host"
    best = main_rate(known[0])
    assert best is not None  # it has a rate
    rate = f"{digits(_rate_of(best) / 1e3, 4)} kpps"
    ratio = f" with at most {percent(best.loss_ratio)} % loss" if best.loss_ratio else ""
    at_least = "at least " if best.status == "at-least" else ""
    told = [f"{host}, {known[0].arm} forwards {at_least}{rate}{ratio}."]
    if len(known) > 1:
        others = [
            f"{one.arm} {percent(_rate_of(main_rate(one)) / _rate_of(best))} %"
            for one in known[1:]
            if main_rate(one)
        ]
        told.append(f"Of that, {', '.join(others)}.")
    told += [f"{one.arm} {words}" for one in known if (words := _collapse(one))]
    told += _limiter_words(known)
    told += _others_words(known)
    signs = {rate.status for one in rows for rate in one.rates}
    if "at-least" in signs:
        told.append("> is a lower bound: no more could be offered.")
    if "unfinished" in signs:
        told.append("~ is not final: the search ended before.")
    return tuple(told)


def _limiter_words(rows: Sequence[Searched]) -> list[str]:
    """Say which arms a shaper or policer limits, and not their cores.

    Where others took all that the cores had left, or nobody knows the cores, the rates alone tell.
    """
    limited = {one.arm: one.rate_limit for one in rows if one.rate_limit}
    behind = [arm for arm, limit in limited.items() if limit.behind]
    idle = {arm: one.left for arm, one in limited.items() if one.left and not one.behind}
    told = []
    if behind:
        told += [
            f"Not a busy core limits {', '.join(behind)}: frames are lost on the way out.",
            "A shaper or a policer there, or a ring that overflows.",
        ]
    if idle:
        part = percent(min(idle.values()))
        told += [
            f"Not a busy core limits {', '.join(idle)}: the cores were idle for {part} % or more.",
            "A shaper, a policer, a CPU cap, or a ring that overflows between two interrupts.",
        ]
    if unsure := ", ".join(arm for arm in limited if arm not in (*idle, *behind)):
        told.append(f"As if a shaper limited it, the same comes through of any load: {unsure}.")
    if full := ", ".join(arm for arm, limit in limited.items() if not limit.emptied):
        told.append(f"Its bucket was not empty, so these may be too high: {full}.")
    return told


def _others_words(rows: Sequence[Searched]) -> list[str]:
    """Say what the routers would forward alone on their cores, where others had some."""
    mfrs = {one.arm: rate for one in rows for rate in one.rates if rate.name == "MFR"}
    known = {arm: rate for arm, rate in mfrs.items() if rate.throughput_pps and rate.whole_pps}
    if not known:
        return []
    had = max(1 - (r.throughput_pps or 0.0) / (r.whole_pps or 1.0) for r in known.values())
    if had <= ErrorBudget().noise:
        return []
    each = ", ".join(f"{arm} {digits((r.whole_pps or 0) / 1e3)}" for arm, r in known.items())
    return [
        f"Others had up to {percent(had)} % of the routers' cores.",
        f"With the whole of them MFRs would be: {each} kpps.",
    ]


def _collapse(one: Searched) -> str | None:
    """Say how far a router falls when it is offered all that can be offered; None if not far."""
    rates = {rate.name: rate.throughput_pps for rate in one.rates if rate.status == "found"}
    mfr, frmol = rates.get("MFR"), rates.get("FRMOL")
    if not mfr or frmol is None or frmol > HALF * mfr:
        return None
    return f"livelocks: offered the maximum, it forwards {percent(frmol / mfr)} % of its MFR."

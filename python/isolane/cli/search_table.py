"""Prints what a search found."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from isolane.analysis.drift import tenths
from isolane.analysis.wording import digits
from isolane.results.search_results import FoundRate, RateLimit, Searched, SearchSummary
from isolane.spec import format_bps, format_ns, format_pps

FAR_NS = 600.0
"""A cache line's round trip between cores that share a last-level cache takes less, also where
threads sleep meanwhile (up to 460 ns were seen); between others of a virtual machine more."""
HEADINGS = ("forwarded", "", "offered", "fails at", "p99")


def print_search(summary: SearchSummary, console: Console | None = None) -> None:
    """Print a table of all rates, and why some are bounds only, to stdout."""
    console = console or Console()
    if not console.is_terminal:
        console.width = 150  # a file has no width: print whole cells
    if summary.simulated is not None:
        told = f"predicted by simulation, not measured: profile {summary.simulated}"
        console.print(told, style="bold", highlight=False, markup=False)
    table = Table(header_style="bold", pad_edge=False, box=None)
    for name in ("arm", "router", "rate"):
        table.add_column(name)
    for name in HEADINGS:
        table.add_column(name, justify="right", no_wrap=True)
    for searched in summary.searched:
        for rate in searched.rates:
            table.add_row(searched.arm, who(searched), name_of(rate), *_figures(rate))
        table.add_section()
    console.print(table)
    for line in remarks(summary):
        console.print(line, highlight=False, markup=False)


def rate_text(rate_pps: float | None) -> str:
    """Write a rate with five digits: the bounds of a search are closer than three can tell."""
    if rate_pps is None:
        return ""
    return f"{digits(rate_pps / 1e3, 5)} kpps"


def who(searched: Searched) -> str:
    """Name what was searched."""
    if searched.together:
        return f"{len(searched.routers)} routers together"
    return f"{searched.routers[0]} alone"


def name_of(rate: FoundRate) -> str:
    """Name a rate with its objectives, such as ``PDR 0.5 %, p99 below 1 ms``."""
    ratio = f" {digits(100 * rate.loss_ratio)} %" if rate.loss_ratio else ""
    delay = "" if rate.max_delay_ns is None else f", p99 below {format_ns(rate.max_delay_ns)}"
    return f"{rate.name}{ratio}{delay}"


def remarks(summary: SearchSummary) -> list[str]:
    """Return a line for each rate that is only a bound, and for what ended early."""
    lines = []
    for searched in summary.searched:
        where = f"{searched.arm}, {who(searched)}"
        if searched.reason is not None:
            lines.append(f"{where}: {searched.reason}")
        if searched.rate_limit is not None:
            lines.append(f"{where}: {_limiter(searched.rate_limit)}")
        reasons: dict[str, list[str]] = {}
        for rate in searched.rates:
            if rate.reason is not None and rate.status != "unfinished":
                bound = "a lower bound" if rate.status == "at-least" else "none"
                reasons.setdefault(f"{bound}: {rate.reason}", []).append(name_of(rate))
        lines += [f"{where}: {', '.join(names)}: {why}" for why, names in reasons.items()]
    return lines + _moved(summary)


def _limiter(limit: RateLimit) -> str:
    """Say what was found to limit a router, and how its trials begin."""
    priming, still = limit.priming, "its bucket is empty then"
    if not limit.emptied:
        still = "its bucket was not empty even then, so rates may be too high"
    which = "a shaper, policer or CPU cap is the limit"
    if limit.behind:
        which = "a shaper or policer on the way out is the limit"
    elif limit.left is None:  # the rates alone tell
        which = "the same comes through of any load, as if a shaper were the limit"
    return (
        f"{which}; each trial begins with {format_ns(priming.duration_ns)} of "
        f"{format_pps(priming.offered_pps)}: {still}"
    )


def _moved(summary: SearchSummary) -> list[str]:
    """Say that rates are not comparable, because the machine moved its cores meanwhile."""
    known = [searched for searched in summary.searched if searched.transfer_ns]
    if not known:
        return []
    low, high = tenths([ns for searched in known for ns in searched.transfer_ns])
    if high < FAR_NS or low >= FAR_NS:
        return []
    ends = {searched.arm: tenths(searched.transfer_ns) for searched in known}
    each = ", ".join(f"{arm} {format_ns(a)} to {format_ns(b)}" for arm, (a, b) in ends.items())
    told = "the machine moved its cores apart or together, and rates with them"
    return [f"{told}; a cache line's round trip: {each}"]


def _figures(rate: FoundRate) -> tuple[str, ...]:
    prefix = {"at-least": "at least ", "unfinished": "so far "}.get(rate.status, "")
    if rate.throughput_pps is None or rate.throughput_bps is None:
        nothing = "none" if rate.status == "none" else "unfinished"
        return (nothing, "", "", rate_text(rate.failing_load_pps), "")
    return (
        f"{prefix}{rate_text(rate.throughput_pps)}",
        format_bps(rate.throughput_bps),
        rate_text(rate.load_pps),
        rate_text(rate.failing_load_pps),
        format_ns(rate.delay_p99_ns),
    )

"""Rows of the report: what the text gives as numbers, and every cell of a figure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from isolane.reproduce.model import Row
from isolane.reproduce.oliveira2024 import published_times
from isolane.reproduce.oliveira2024.echo_trials import Found, Quantity
from isolane.reproduce.oliveira2024.load_cells import (
    BRIDGE,
    FIGURES,
    LOADS,
    SLOW_KPPS,
    Cell,
    LoadType,
    cells_of,
    counts_of,
    fast_cells_of,
    figure_words,
)
from isolane.reproduce.oliveira2024.published_times import PublishedTime
from isolane.stats.intervals import estimate

PAPER: Final = "oliveira2024"

QUANTITIES: Final[dict[Quantity, tuple[str, str]]] = {
    "rtt": ("median round-trip time", "ms"),
    "rtt_max": ("longest round-trip time", "ms"),
    "response": ("median response time", "ms"),
    "cpu": ("CPU of the sender server", "%"),
}
"""What rows call a quantity, and its unit."""

_OF_METRIC: Final[dict[published_times.Metric, Quantity]] = {
    "rtt_median": "rtt",
    "rtt_max": "rtt_max",
    "response_time": "response",
}
FITTED_CPU: Final = Cell(BRIDGE, "network", "sender", 128)
FITTED_RTT: Final = Cell(BRIDGE, "cpu", "sender", 0)
"""The two figures that something was fitted to: the background VMs' rate, host.wake_ns."""
FAST_LOADS: Final[tuple[LoadType, ...]] = ("network",)
FAST_NOTE: Final = (
    "simulated under network load alone: at 1 Mpps ping waits for replies, and how that goes under "
    "CPU load is beyond the simulator"
)
LOST: Final = "most echoes were lost, or none was simulated"


def of(found: Found, figures: Sequence[str], *, fitted: bool) -> tuple[Row, ...]:
    """Return the rows of these figures; `fitted`: whether the profile is the paper's."""
    return tuple(row for figure in figures for row in _of_figure(found, figure, fitted=fitted))


def figure_of(time: PublishedTime) -> str:
    """Return the figure that a published time belongs to."""
    if time.metric == "response_time":
        return "11" if time.location == "responder" else "12"
    if time.metric == "rtt_max" or time.vms is None:
        return "4.3"
    return "7" if time.vms == 64 else "5"


def _of_figure(found: Found, figure: str, *, fitted: bool) -> Iterator[Row]:
    told = [time for time in published_times.times() if figure_of(time) == figure]
    for time in told:
        yield _published_row(found, figure, time, fitted=fitted)
    if figure in {"4.3", "table3"}:
        return
    shown: set[Cell] = {cell for time in told for cell in _cells(time) if len(_cells(time)) == 1}
    quantity = FIGURES[figure].quantity
    for cell in (*cells_of(figure), *fast_cells_of(figure)):
        if cell not in shown:
            theirs = published_times.CPU_PCT if cell == FITTED_CPU and quantity == "cpu" else None
            note = "" if theirs is None else "published: 45.94 to 46.9 % over three drivers"
            yield _row(
                figure,
                (cell.where, cell.vms, quantity),
                found.values(cell, quantity) if cell in found.trials else [],
                published=theirs,
                fitted=fitted and theirs is not None,
                note=note,
            )


def _cells(time: PublishedTime) -> tuple[Cell, ...]:
    """Return the cells that a published time is about, as far as the text says."""
    counts = [n for n in counts_of(time.driver) if time.vms is None or n >= time.vms]
    if time.metric != "rtt_max":
        counts = counts if time.vms is None else [time.vms]
    echo_kpps = time.echo_kpps or SLOW_KPPS
    loads = LOADS if echo_kpps == SLOW_KPPS else FAST_LOADS
    return tuple(
        Cell(time.driver, load, location, vms, echo_kpps)
        for load in ([time.load] if time.load else loads)
        for location in ([time.location] if time.location else ("sender", "responder"))
        for vms in counts
    )


def _published_row(found: Found, figure: str, time: PublishedTime, *, fitted: bool) -> Row:
    cells, quantity = _cells(time), _OF_METRIC[time.metric]
    values = [found.values(cell, quantity) for cell in cells if cell in found.trials]
    if len(values) < len(cells):
        values = []
    one = max if quantity == "rtt_max" else median
    # The same trial of all cells belongs together, so there are as many values as trials.
    together = [one(own) for own in zip(*values, strict=False)]
    if quantity == "rtt_max" and together:
        together = [max(together)]
    told_of_all = time.load is None and time.echo_kpps not in {None, SLOW_KPPS}
    words = cells[0].where if len(cells) == 1 else _where(time)
    return _row(
        figure,
        (words, time.vms, quantity),
        together,
        published=time.value_ms,
        fitted=fitted and cells == (FITTED_RTT,),
        note="; ".join(filter(None, [time.note, FAST_NOTE if told_of_all else ""])),
    )


def _where(time: PublishedTime) -> str:
    words = [f"{time.load} load" if time.load else "any load"]
    words += [f"on the {time.location}"] if time.location else []
    rate = ", 1 Mpps" if (time.echo_kpps or SLOW_KPPS) > SLOW_KPPS else ""
    return f"{time.driver}, {' '.join(words)}{rate}"


def _row(
    figure: str,
    of: tuple[str, int | None, Quantity],
    values: Sequence[float],
    *,
    published: float | None,
    fitted: bool,
    note: str,
) -> Row:
    words, vms, quantity = of
    good = len(values) > 0 and all(map(math.isfinite, values))
    found = estimate(values) if good else None
    name, unit = QUANTITIES[quantity]
    several = found is not None and found.n > 1
    return Row(
        paper=PAPER,
        figure=figure_words(figure),
        configuration=words,
        offered={} if vms is None else {"background VMs": float(vms)},
        offered_unit="",
        quantity=name,
        unit=unit,
        published=published,
        simulated=None if found is None else found.median,
        low=found.low if found is not None and several else None,
        high=found.high if found is not None and several else None,
        fitted=fitted,
        note="; ".join(filter(None, [note, "" if good else LOST])),
    )

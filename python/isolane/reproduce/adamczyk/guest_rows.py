"""Rows of the report: throughput by guest, and what the paper's text gives as numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from isolane.reproduce.adamczyk import measures as m
from isolane.reproduce.adamczyk.runs import Repeats, Series, interval, load_host
from isolane.reproduce.model import Row

PAPER = "adamczyk2012"

Found = Mapping[str, Mapping[str, Repeats]]
"""Simulations by experiment and variant."""


def of(found: Found, names: Sequence[str]) -> tuple[Row, ...]:
    """Return the rows of these experiments."""
    return tuple(
        row for name in names for repeats in found.get(name, {}).values() for row in _rows(repeats)
    )


def with_live(rows: Sequence[Row], live: Sequence[Row]) -> tuple[Row, ...]:
    """Put what was measured beside what was simulated; what was measured alone is left out."""
    known = {_key(row): row for row in live}
    return tuple(
        row.model_copy(update={"live": own.simulated, "live_low": own.low, "live_high": own.high})
        if (own := known.get(_key(row))) is not None
        else row
        for row in rows
    )


def _key(row: Row) -> tuple[str, str, str]:
    return row.figure, row.configuration, row.quantity


def _rows(repeats: Repeats) -> Iterator[Row]:
    for vm in repeats.variant.guests:
        for quantity, data in _windows(repeats, vm):
            if data.size:
                yield _row(repeats, f"throughput of {vm}{quantity}", m.means(data))
    name = f"{repeats.experiment.name}/{repeats.variant.name}"
    if name == "equal-rates/rate-35":
        both = m.means(m.after_warmup(repeats, "vm1") + m.after_warmup(repeats, "vm2"))
        note = "the paper: about 60 percent of the total bandwidth"
        yield _row(repeats, "throughput of both", both, 60.0, note)
    if name == "no-rate/unmodified":
        minimum = [min(m.after_warmup(repeats, vm).min() for vm in repeats.variant.guests)]
        note = "the paper: the other's throughput decreases to 0"
        yield _row(repeats, "least throughput of a guest in a bin", minimum, 0.0, note)


def _windows(repeats: Repeats, vm: str) -> Iterator[tuple[str, Series]]:
    disk = repeats.variant.disk
    if disk is not None:
        width = repeats.experiment.bin
        yield " before the disk load", repeats.between(vm, width, disk.start)
        yield " during the disk load", repeats.between(vm, disk.start + width, disk.stop)
        yield " after the disk load", repeats.between(vm, disk.stop + width)
        return
    start = m.second_start(repeats)
    if repeats.variant.guests[vm].start < start:  # type: ignore[index]  # names of guests
        yield " alone", m.alone(repeats, vm)
    yield "", m.after_warmup(repeats, vm)


def _row(
    repeats: Repeats,
    quantity: str,
    values: Sequence[float] | Series,
    published: float | None = None,
    note: str = "",
) -> Row:
    found = interval(values)
    pace = load_host(None).sender.pace_mbps
    return Row(
        paper=PAPER,
        figure=repeats.experiment.figure,
        configuration=repeats.variant.title,
        offered={vm: pace * guest.connections for vm, guest in repeats.variant.guests.items()},
        offered_unit="Mbit/s",
        quantity=quantity,
        unit="Mbit/s",
        published=published,
        simulated=found.mean,
        low=found.low,
        high=found.high,
        note=note,
    )

"""A reproduction in words, for the page and for the command."""

from __future__ import annotations

from isolane.analysis import wording
from isolane.report.tables import NOTHING
from isolane.reproduce.model import Reproduction, Row
from isolane.reproduce.relative_errors import errors

NO_RESULT = "no result"
"""For a figure whose trials were all invalid (the note says why) or were not simulated."""


def sentence(found: Reproduction) -> str:
    """Return one sentence: how many claims were reproduced, and the errors."""
    held = sum(claim.reproduced for claim in found.claims)
    text = f"{held} of {wording.plural(len(found.claims), 'claim')} reproduced"
    error = errors(found.rows)
    if error.count:
        text += (
            f"; over {wording.plural(error.count, 'published figure')} the mean error is "
            f"{100 * error.mean:.1f} %, the largest {100 * error.largest:.1f} %"
        )
    if found.live is not None and found.live.claims:
        claims = found.live.claims
        held = sum(claim.reproduced for claim in claims)
        text += f"; live {held} of {wording.plural(len(claims), 'claim')}"
    return f"{text}."


def offered(row: Row) -> str:
    """Write the offered loads of a row."""
    return ", ".join(f"{name} {value:g}" for name, value in row.offered.items())


def cells(row: Row, *, live: bool = False) -> tuple[str, ...]:
    """Write a row as the tables show it, after its figure; on request with what was measured."""
    error = row.relative_error
    measured = _value(row.live, row.live_low, row.live_high, row.unit, NOTHING)
    return (
        row.configuration,
        f"{offered(row)} {row.offered_unit}".strip(),
        row.quantity,
        NOTHING if row.published is None else f"{row.published:g} {row.unit}",
        _value(row.simulated, row.low, row.high, row.unit, NO_RESULT),
        *((measured,) if live else ()),
        "" if error is None else f"{100 * error:+.1f} %",
        "fitted" if row.fitted and row.published is not None else "",
        row.note,
    )


def _value(
    value: float | None, low: float | None, high: float | None, unit: str, nothing: str
) -> str:
    if value is None:
        return nothing
    between = "" if low is None or high is None else f" [{low:.4g}, {high:.4g}]"
    return f"{value:.4g} {unit}{between}"


def headings(*, live: bool) -> tuple[str, ...]:
    """Return what stands above the cells of a row."""
    measured = ("live",) if live else ()
    return (
        "configuration", "offered", "quantity", "published", "simulated", *measured, "error", "",
        "note",
    )  # fmt: skip

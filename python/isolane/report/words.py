"""A reproduction in words, for the page and for the command."""

from __future__ import annotations

from isolane.report.tables import NOTHING
from isolane.reproduce.model import Reproduction, Row
from isolane.reproduce.relative_errors import errors
from isolane.run import wording

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
    return f"{text}."


def offered(row: Row) -> str:
    """Write the offered loads of a row."""
    return ", ".join(f"{name} {value:g}" for name, value in row.offered.items())


def cells(row: Row) -> tuple[str, ...]:
    """Write a row as the tables show it, after its figure."""
    error = row.relative_error
    between = "" if row.low is None or row.high is None else f" [{row.low:.4g}, {row.high:.4g}]"
    return (
        row.configuration,
        f"{offered(row)} {row.offered_unit}".strip(),
        row.quantity,
        NOTHING if row.published is None else f"{row.published:g} {row.unit}",
        NO_RESULT if row.simulated is None else f"{row.simulated:.4g} {row.unit}{between}",
        "" if error is None else f"{100 * error:+.1f} %",
        "fitted" if row.fitted and row.published is not None else "",
        row.note,
    )


HEADINGS = (
    "configuration", "offered", "quantity", "published", "simulated", "error", "", "note",
)  # fmt: skip

"""Relative errors of simulated against published figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isolane.reproduce.model import Row


@dataclass(frozen=True)
class Errors:
    """Absolute relative errors, as fractions of 1; NaN where there is nothing to compare."""

    count: int
    mean: float
    largest: float
    worst: Row | None


def errors(rows: Sequence[Row], *, fitted: bool | None = None) -> Errors:
    """Sum up the rows that have a published figure other than 0.

    Parameters
    ----------
    rows
        All rows of a reproduction.
    fitted
        Count only the figures that the profile was fitted to (True), only the others (False), or
        all (None).
    """
    found = [
        (abs(row.relative_error), row)
        for row in rows
        if row.relative_error is not None and fitted in {None, row.fitted}
    ]
    if not found:
        return Errors(0, float("nan"), float("nan"), None)
    largest, worst = max(found, key=lambda pair: pair[0])
    return Errors(len(found), sum(value for value, _ in found) / len(found), largest, worst)

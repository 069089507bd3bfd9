"""A quantity that was found by counting, with how sure it is."""

from __future__ import annotations

from typing import NamedTuple


class Counted(NamedTuple):
    """A quantity that was found by counting, with its interval."""

    value: float
    low: float
    high: float


def scaled(one: Counted, factor: float) -> Counted:
    """Return the same in another unit; `factor` is exact, and not negative."""
    return Counted(one.value * factor, one.low * factor, one.high * factor)

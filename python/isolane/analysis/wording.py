"""Formats numbers for verdicts, tables and reports."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from isolane.results.results import Interval
from isolane.spec.fields import Mode


def digits(value: float, significant: int = 3) -> str:
    """Write `value` with so many significant digits, without an exponent: 0.0123, 4.57, 12,300.

    A time, or a ratio of times, may be infinite: a frame was lost.
    """
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == 0:
        return "0"
    rounded = float(f"{value:.{significant - 1}e}")
    decimals = max(0, significant - 1 - int(f"{rounded:e}".split("e")[1]))
    text = f"{rounded:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def delay_words(modes: Collection[Mode]) -> str:
    """Say what the delays of routers of these modes are."""
    there, back = "one-way delay", "round-trip time"
    if "http" in modes:
        return "response time"
    if "forward" not in modes:
        return back
    return there if set(modes) == {"forward"} else f"{there} or {back}"


def percent(share: float, like: float | None = None) -> str:
    """Write a share of 1 without its unit: ``41``, and with a decimal near 0 and 1: ``99.8``.

    With `like`, use as many decimals as that share is written with.
    """
    value, rule = 100 * share, 100 * (share if like is None else like)
    if like is None and 0 < abs(value) < 0.1:
        return digits(value, 1)
    decimals = 1 if abs(rule) < 10 or 97.95 <= abs(rule) < 101 else 0
    text = f"{value:.{decimals}f}"
    return text.removesuffix(".0") if like is None else text


def share(interval: Interval, of: str = "") -> str:
    """Write a share with its interval, ``41 % of it [38, 44]``; one repeat has no interval."""
    middle = interval.median
    if interval.n < 2:
        return f"{percent(middle)} %{of}"
    low, high = (percent(end, middle) for end in (interval.low, interval.high))
    return f"{percent(middle)} %{of} [{low}, {high}]"


def multiple(load_x: float) -> str:
    """Write a load in capacities, ``0.27x``."""
    return f"{digits(load_x)}x"


def listing(parts: Sequence[str]) -> str:
    """Join with commas and a final `and`."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def plural(number: int, noun: str) -> str:
    """Write a number of things: ``1 trial``, ``2 trials``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def ranges(numbers: Sequence[int]) -> str:
    """Write numbers in order, with ranges for consecutive ones: ``0 to 4, 6``."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{low}" if low == high else f"{low} to {high}" for low, high in runs)

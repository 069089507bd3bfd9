"""Published figures: numbers whose unit tells what they measure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal

from isolane.spec.problems import Refused, show
from isolane.spec.units import (
    DURATION_UNITS,
    RATE_UNITS,
    Load,
    format_duration_ns,
    format_rate,
    read_duration_ns,
    read_rate,
)

QuantityUnit = Literal["pps", "bps", "x", "ratio", "ns"]

UNITS_OF_METRIC: Final[dict[str, tuple[QuantityUnit, ...]]] = {
    "throughput": ("pps", "bps", "x"),
    "loss": ("ratio",),
    "cpu": ("ratio",),
    "cpu-kernel": ("ratio",),
    "cpu-user": ("ratio",),
    "delay": ("ns",),
}
"""Base units that make sense for each published metric."""

ACCEPTED: Final = (
    f"a rate ({', '.join(RATE_UNITS)}), a percentage (61%) or a time ({', '.join(DURATION_UNITS)})"
)


@dataclass(frozen=True)
class Quantity:
    """A published figure in its base unit: a rate, a ratio (1 is all), or a time in ns."""

    value: float
    unit: QuantityUnit

    def as_load(self) -> Load:
        """Return a rate as a load.

        Raises
        ------
        ValueError
            If the figure is not a rate.
        """
        if self.unit in {"ratio", "ns"}:
            msg = f"{self} is not a rate"
            raise ValueError(msg)
        return Load(self.value, self.unit)  # type: ignore[arg-type]  # narrowed above

    def __str__(self) -> str:
        """Return the figure as it is written in an experiment."""
        if self.unit == "ratio":
            percent = f"{Decimal(repr(self.value)).scaleb(2):f}"
            return f"{percent.rstrip('0').rstrip('.') if '.' in percent else percent}%"
        if self.unit == "ns":
            return format_duration_ns(round(self.value))
        return format_rate(self.as_load())


def read_quantity(value: object) -> Quantity:
    """Return ``value`` as a :class:`Quantity`, or raise :class:`Refused`."""
    if isinstance(value, Quantity):
        return value
    if not isinstance(value, str):
        raise Refused(f"{show(value)} is not a figure with a unit", ACCEPTED)
    percent = re.fullmatch(r"([0-9]{1,7}(?:\.[0-9]{1,15})?)\s?%", value.strip())
    if percent:
        return Quantity(float(Decimal(percent[1]).scaleb(-2)), "ratio")
    unit = re.sub(r"^[0-9.eE+-]+\s?", "", value.strip())
    if unit.replace("µ", "u") in DURATION_UNITS:
        return Quantity(float(read_duration_ns(value)), "ns")
    try:
        load = read_rate(value)
    except Refused as refused:
        raise Refused(refused.problem.what, ACCEPTED) from None
    assert load.unit != "max", "no rate is written so"
    assert load.unit != "rps", "no rate of frames is written so"
    assert load.unit != "conn", "no rate is written so"
    return Quantity(load.value, load.unit)
